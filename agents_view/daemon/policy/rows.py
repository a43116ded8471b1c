"""What a row of the roster says, from durable facts and a worker's facts (spec 01, R4–R7). Pure."""

from __future__ import annotations

from typing import Protocol

import msgspec

from agents_view.daemon.wire import SessionFacts
from daemon_client.roster import RosterRow, WorkerState


class DurableSession(Protocol):
    """The columns of a session that a row shows."""

    @property
    def session_id(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def store(self) -> str: ...
    @property
    def root_id(self) -> str: ...
    @property
    def parent_id(self) -> str | None: ...
    @property
    def depth(self) -> int: ...
    @property
    def created_at_ms(self) -> int: ...
    @property
    def last_activity_at_ms(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    @property
    def first_message(self) -> str: ...
    @property
    def message_count(self) -> int: ...
    @property
    def model(self) -> str | None: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def unread(self) -> bool: ...
    @property
    def archived_at_ms(self) -> int | None: ...
    @property
    def exit_cause(self) -> str | None: ...


class Coverage(msgspec.Struct, kw_only=True, frozen=True):
    """What is known about the worker of a session's tree; `state` None: the tree has none."""

    state: WorkerState | None = None
    pid: int | None = None
    cause: str | None = None
    last_heard_at_ms: int | None = None
    stale: bool = False


UNCOVERED = Coverage()


def without_work(facts: SessionFacts) -> SessionFacts:
    """The facts of a session whose worker died: a turn that was cut off is cleared (R6)."""
    return msgspec.structs.replace(
        facts,
        turn=None,
        pending_tools=0,
        tool_label=None,
        shell_running=False,
        compacting=False,
        retrying=False,
        queued=0,
        action_label=None,
        turn_started_at_ms=None,
        quiet_since_ms=None,
        waiting=None,
        background=0,
    )


def row_of(
    session: DurableSession,
    facts: SessionFacts | None,
    coverage: Coverage,
    *,
    clients: int,
    running_children: int,
) -> RosterRow:
    """One row. Without facts of a worker the session is passive (R1.2)."""
    known = facts or SessionFacts(session_id=session.session_id)
    return RosterRow(
        session_id=session.session_id,
        name=session.name,
        agent=session.agent,
        model=known.model or session.model,
        mode=known.mode or session.mode,
        cwd=session.cwd,
        store=session.store,
        root_id=session.root_id,
        parent_id=session.parent_id,
        depth=session.depth,
        created_at_ms=session.created_at_ms,
        last_activity_at_ms=max(known.last_activity_at_ms, session.last_activity_at_ms),
        first_message=known.first_message or session.first_message,
        message_count=max(known.message_count, session.message_count),
        archived=session.archived_at_ms is not None,
        unread=session.unread,
        resident=known.resident,
        worker_state=_worker_state(known, coverage),
        worker_pid=coverage.pid,
        resident_since_ms=known.resident_since_ms,
        clients=clients,
        background=known.background,
        turn=known.turn,
        pending_tools=known.pending_tools,
        tool_label=known.tool_label,
        shell_running=known.shell_running,
        compacting=known.compacting,
        retrying=known.retrying,
        queued=known.queued,
        action_label=known.action_label,
        running_children=running_children,
        turn_started_at_ms=known.turn_started_at_ms,
        quiet_since_ms=known.quiet_since_ms,
        waiting=known.waiting,
        exit_cause=_exit_cause(session, facts, coverage),
        recap=known.recap,
        last_heard_at_ms=coverage.last_heard_at_ms,
        stale=coverage.stale and known.resident,
    )


def _worker_state(facts: SessionFacts, coverage: Coverage) -> WorkerState | None:
    """The tree's trouble comes before the session's own state."""
    if coverage.state in ("recovering", "stopping", "failed"):
        return coverage.state
    if not facts.resident:
        return None
    return facts.worker_state or coverage.state


def _exit_cause(
    session: DurableSession, facts: SessionFacts | None, coverage: Coverage
) -> str | None:
    if coverage.state == "failed" and coverage.cause:
        return coverage.cause
    return session.exit_cause if facts is None else facts.exit_cause
