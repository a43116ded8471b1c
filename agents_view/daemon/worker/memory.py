"""What of a session outlives its agent: the agent's own id, counters, how it ended (A8, A14)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from agents_view.acp.client import AgentClient
from agents_view.daemon.store import agent_sessions, sessions
from agents_view.daemon.store.agent_sessions import AgentSession, AgentSessionStatus
from agents_view.daemon.store.errors import StaleEpoch, StoreError
from agents_view.daemon.store.prompts import StoredPrompt
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.store.transcripts import read_page
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.facts import Counters
from agents_view.daemon.worker.journal import Journal
from daemon_client.ids import new_id
from daemon_client.protocol.transcript import MessageEntry, PromptEntry, TranscriptEntry
from daemon_client.roster import Waiting

log = logging.getLogger(__name__)

NOT_STARTED: Final = "agent not started: "
"""How the cause of a failed start begins: its prompts are held over a restart, too (R5)."""

_TAIL: Final = 8000
_ENTRIES: Final = 4000


class Memory:
    """The durable side of one session; every write carries the worker's epoch.

    What an end leaves to write (counters, causes) is kept and tried again while nothing can be
    recorded: a full disk ends no session. All methods that write raise `StaleEpoch`.
    """

    def __init__(self, session: Session, shared: Shared, counters: Counters) -> None:
        self._session_id = session.session_id
        self._shared = shared
        self._counters = counters
        self._saved = msgspec.structs.replace(counters)
        self._row: AgentSession | None = None
        self._ended: list[AgentSession] = []
        self._unsaved_exit = False
        self._failing = False
        self._login_since: int | None = None
        self.exit_cause = session.exit_cause
        self.acp_session_id: str | None = None

    @property
    def start_failed(self) -> bool:
        """Whether the last thing that happened to its agent is that it did not start."""
        return (self.exit_cause or "").startswith(NOT_STARTED)

    async def load(self) -> None:
        """The conversation a new agent could bring back."""
        key = self._session_id
        row = await self._shared.db.read(lambda t: agent_sessions.latest_loadable(t, key))
        self.acp_session_id = row.acp_session_id if row else None

    async def launched(self, client: AgentClient) -> None:
        """A process runs: whoever comes after us must know which (A15). Raises `StoreError`."""
        now = self._shared.clock.now_ms()
        identity = client.child.identity
        self._row = AgentSession(
            id=new_id(now),
            session_id=self._session_id,
            status="pending",
            process="alive",
            created_at_ms=now,
            started_at_ms=now,
            updated_at_ms=now,
            pid=identity.pid,
            process_start=identity.start,
            boot_id=identity.boot_id,
            last_heartbeat_at_ms=now,
        )
        await self._save(self._row)

    async def opened(self, client: AgentClient, acp_session_id: str) -> None:
        """The agent's own id is durable before anything is prompted (A8). Raises `StoreError`."""
        assert self._row is not None, "it was launched"
        capabilities = client.capabilities
        self._row = msgspec.structs.replace(
            self._row,
            status="running",
            acp_session_id=acp_session_id,
            can_load=capabilities.load_session or capabilities.can_resume,
            updated_at_ms=self._shared.clock.now_ms(),
        )
        await self._save(self._row)
        self.acp_session_id = acp_session_id

    async def ended(self, status: AgentSessionStatus) -> None:
        """The agent's process is confirmed gone."""
        row, self._row = self._row, None
        if row is not None:
            now = self._shared.clock.now_ms()
            self._ended.append(
                msgspec.structs.replace(row, status=status, process="exited", updated_at_ms=now)
            )
            await self.settle()

    async def save_exit(self, cause: str | None) -> None:
        """How the agent ended last."""
        if cause != self.exit_cause:
            self.exit_cause = cause
            self._unsaved_exit = True
            await self.settle()

    async def settle(self) -> None:
        """Write what moved and was not written yet."""
        try:
            await self._settle()
        except StaleEpoch:
            raise
        except StoreError as error:
            if not self._failing:
                log.warning("not recorded session=%s: %s", self._session_id, error)
            self._failing = True
        else:
            self._failing = False

    async def _settle(self) -> None:
        for row in tuple(self._ended):
            await self._save(row)
            self._ended = [other for other in self._ended if other is not row]
        fence, key = self._shared.fence, self._session_id
        if self._unsaved_exit:
            cause, now = self.exit_cause, self._shared.clock.now_ms()
            await self._shared.db.write(
                lambda t: sessions.save_exit(t, fence.root_id, fence.epoch, key, cause, now)
            )
            self._unsaved_exit = cause != self.exit_cause
        if self._counters != self._saved:
            await self._save_counters()

    def counted(self, prompt: StoredPrompt, now_ms: int) -> sessions.Counters:
        """The counters as they are once this prompt is sent."""
        counters = msgspec.structs.replace(self._counters)
        counters.count_prompt(prompt.text, now_ms)
        return _stored(counters)

    async def _save_counters(self) -> None:
        fence, key = self._shared.fence, self._session_id
        now = msgspec.structs.replace(self._counters)
        stored = _stored(now)
        await self._shared.db.write(
            lambda t: sessions.save_counters(t, fence.root_id, fence.epoch, key, stored)
        )
        self._saved = now

    async def _save(self, row: AgentSession) -> None:
        fence = self._shared.fence
        await self._shared.db.write(
            lambda t: agent_sessions.save(t, fence.root_id, fence.epoch, row)
        )

    def login(self, text: str | None) -> Waiting | None:
        """A missing key or login, as something that waits for a person."""
        if text is None:
            self._login_since = None
            return None
        self._login_since = self._login_since or self._shared.clock.now_ms()
        return Waiting(kind="login", since_ms=self._login_since, text=text)


def _stored(counters: Counters) -> sessions.Counters:
    return sessions.Counters(
        last_activity_at_ms=counters.last_activity_at_ms,
        first_message=counters.first_message,
        message_count=counters.message_count,
        model=counters.model,
        mode=counters.mode,
    )


async def transcript_tail(journal: Journal, before_prompt: str) -> str:
    """What was said last, quoted, for an agent that cannot remember it (A14).

    Raises `OSError`.
    """
    await journal.flush()
    page = await asyncio.to_thread(read_page, journal.path, limit=_ENTRIES)
    text = quoted(page.entries, before_prompt)
    if not text:
        return ""
    return f"The end of our conversation so far, quoted (you do not remember it):\n{text}"


def quoted(entries: Iterable[TranscriptEntry], before_prompt: str) -> str:
    """The last of it, each line marked as a quotation; the pieces of one message stand as one."""
    said: list[tuple[str, str]] = []
    for entry in entries:
        if isinstance(entry, PromptEntry) and entry.prompt_id != before_prompt:
            who = "person"
        elif isinstance(entry, MessageEntry):
            who = "you"
        else:
            continue
        begins = isinstance(entry, PromptEntry) and not entry.part
        if said and said[-1][0] == who and not begins:
            said[-1] = (who, said[-1][1] + entry.text)
        else:
            said.append((who, entry.text))
    lines = [f"> {who}: {text}".replace("\n", "\n> ") for who, text in said if text.strip()]
    text = "\n".join(lines)
    if len(text) <= _TAIL:
        return text
    return "> … " + text[-_TAIL:].partition("\n")[2] if "\n" in text[-_TAIL:] else text[-_TAIL:]
