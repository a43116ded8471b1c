"""What is true of one session now, and how it is told (R5: any change is told at once).

Changed by the session's runner, its agent holder and its listener, all on one loop.
"""

from __future__ import annotations

import logging
from typing import Final

from agents_view.acp.client import AgentClient
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.store.transcripts import transcript_path
from agents_view.daemon.wire import SessionFacts
from agents_view.daemon.worker.agent import Running
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.facts import Counters, Situation, Work, aside_of, facts_of
from agents_view.daemon.worker.journal import Journal
from agents_view.daemon.worker.memory import Memory
from agents_view.daemon.worker.permissions import AnsweredBy, Permissions
from agents_view.daemon.worker.prompt_queue import PromptQueue
from agents_view.daemon.worker.tools import Tools
from agents_view.daemon.worker.updates import Reader
from daemon_client.protocol.transcript import NoticeEntry, NoticeLevel, PermissionEntry
from daemon_client.roster import WorkerState
from daemon_client.text import cause_text

log = logging.getLogger(__name__)

_ACTIVITY_STEP: Final = 1000


class SessionState:
    """`residence` is None while the session is passive; `held` keeps its prompts back (R5)."""

    def __init__(self, session: Session, shared: Shared) -> None:
        self.session = session
        self.shared = shared
        self.clock = shared.clock
        key = session.session_id
        self.journal = Journal(
            transcript_path(shared.transcripts, key),
            shared.clock,
            shared.settings.daemon.transcript_entry,
            lambda entries: shared.upward.entries(key, entries),
        )
        self.counters = Counters(
            last_activity_at_ms=session.last_activity_at_ms,
            first_message=session.first_message,
            message_count=session.message_count,
            model=session.model,
            mode=session.mode,
        )
        self.queue = PromptQueue(shared.db, shared.fence, key, shared.clock)
        self.memory = Memory(session, shared, self.counters)
        self.permissions = Permissions(key)
        self.tools = Tools()
        self.reader = Reader(self.tools)
        self.client: AgentClient | None = None
        self.agent: Running | None = None
        self.residence: WorkerState | None = None
        self.resident_since_ms: int | None = None
        self.work: Work | None = None
        self.wanted = False
        self.held = False
        self.stalled = False
        self.login: str | None = None
        self.recap: str | None = None
        self.background = 0
        self.last_update_ms = 0
        self._active_at_ms = session.last_activity_at_ms

    @property
    def session_id(self) -> str:
        return self.session.session_id

    # telling

    def facts(self) -> SessionFacts:
        """Everything that is said about this session."""
        identity = self.client.child.identity if self.client else None
        situation = Situation(
            session_id=self.session_id,
            residence=self.residence,
            resident_since_ms=self.resident_since_ms,
            agent_pid=identity.pid if identity else None,
            agent_start=identity.start if identity else None,
            background=self.background,
            open_tools=len(self.tools.open) if self.work else 0,
            tool_label=self.tools.label if self.work else None,
            queued=len(self.queue.waiting),
            held=self.held,
            waiting=self.permissions.waiting or self.memory.login(self.login),
            exit_cause=self.memory.exit_cause,
            recap=self.recap,
        )
        return facts_of(situation, self.work or Work(), self.counters)

    def changed(self) -> None:
        """Some fact is another than before."""
        self.shared.upward.facts(self.facts())

    def aside(self) -> None:
        """The queue, what waits for a person, or what can be chosen has changed."""
        queue = self.queue.shown(held=self.held)
        choices = self.reader.offer.choices
        self.shared.upward.aside(
            aside_of(self.session_id, queue, self.permissions.pending, choices)
        )

    def all_changed(self) -> None:
        self.aside()
        self.changed()

    # recording

    def notice(self, text: str, level: NoticeLevel) -> None:
        self.journal.add(NoticeEntry(text=cause_text(text), level=level))

    def outcome(self, request_id: str, outcome: str, by: AnsweredBy) -> None:
        self.journal.add(PermissionEntry(request_id=request_id, outcome=outcome, by=by))

    def end_requests(self, outcome: str, by: AnsweredBy) -> None:
        """Nobody will answer what is open any more; the agent is told (A13)."""
        requests = self.permissions.cancel_all()
        for request in requests:
            self.outcome(request.request_id, outcome, by)
        if requests:
            self.aside()

    def close_tools(self, status: str) -> None:
        """Whatever an agent forgot to close ends now (A12)."""
        for entry in self.tools.close_open(status):
            self.journal.add(entry)

    def touch(self) -> None:
        """A message or a tool result came. Told once a second, exact again with `settle_touch`."""
        self._active_at_ms = self.clock.now_ms()
        if self._active_at_ms - self.counters.last_activity_at_ms >= _ACTIVITY_STEP:
            self.counters.last_activity_at_ms = self._active_at_ms

    def settle_touch(self) -> None:
        self.counters.last_activity_at_ms = self._active_at_ms

    async def set_exit_cause(self, cause: str | None) -> None:
        """How the agent ended last. Raises `StaleEpoch`."""
        await self.memory.save_exit(cause_text(cause) if cause else None)
