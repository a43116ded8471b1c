"""The roster: one row of facts per session, and the client's mirror of all of them (spec 01, 07.2).

A row carries facts, never a verdict: section, label and badges are computed by whoever draws it
(`daemon_client.status`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
from msgspec.structs import force_setattr as share

SessionId = str
"""UUIDv7 in hex, given at creation and kept for life."""

Turn = Literal["thinking", "writing", "tools"]
WorkerState = Literal["starting", "ready", "recovering", "stopping", "failed"]
WaitingKind = Literal["permission", "question", "login"]


class Waiting(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """What a session waits for a person for, since when (ms UTC)."""

    kind: WaitingKind
    since_ms: int
    text: str = ""
    request_id: str = ""


class Schedule(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """Counts of jobs by status, and the soonest firing of the armed ones (ms UTC)."""

    active: int = 0
    paused: int = 0
    next_at_ms: int | None = None


class TaskFacts(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """The session's latest task: its status is a fact about the task, never about the row."""

    task_id: str
    status: str
    step: str | None = None
    reason: str | None = None


class RosterRow(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """The facts about one session (spec 01). Times are ms UTC; all but the id have defaults.

    Not tracked by the garbage collector: ten thousand of them would make each of its rounds long,
    and what holds only frozen values cannot be in a cycle.
    """

    session_id: SessionId
    # identity and place
    host: str = "local"
    name: str | None = None
    agent: str = ""
    model: str | None = None
    mode: str | None = None
    cwd: str = ""
    store: str = ""
    root_id: SessionId = ""
    parent_id: SessionId | None = None
    depth: int = 0
    created_at_ms: int = 0
    last_activity_at_ms: int = 0
    first_message: str = ""
    message_count: int = 0
    archived: bool = False
    unread: bool = False
    # residency
    resident: bool = False
    worker_state: WorkerState | None = None
    worker_pid: int | None = None
    resident_since_ms: int | None = None
    clients: int = 0
    owned: bool = False
    background: int = 0
    # work, facts only
    turn: Turn | None = None
    pending_tools: int = 0
    tool_label: str | None = None
    shell_running: bool = False
    compacting: bool = False
    retrying: bool = False
    queued: int = 0
    action_label: str | None = None
    running_children: int = 0
    turn_started_at_ms: int | None = None
    quiet_since_ms: int | None = None
    # waiting on a person
    waiting: Waiting | None = None
    # schedules, own and over the subtree (each job counted once)
    heartbeats: Schedule = Schedule()
    tree_heartbeats: Schedule = Schedule()
    crons: Schedule = Schedule()
    tree_crons: Schedule = Schedule()
    # outcome
    task: TaskFacts | None = None
    exit_cause: str | None = None
    recap: str | None = None
    last_heard_at_ms: int | None = None
    stale: bool = False


class RosterPosition(msgspec.Struct, kw_only=True, frozen=True):
    """How far a mirror has come: which life of the daemon, and the last sequence it applied."""

    generation: str
    sequence: int


class RosterChange(msgspec.Struct, kw_only=True, frozen=True):
    """One applied batch; `complete` once a snapshot has been whole (R41)."""

    changed: frozenset[SessionId]
    removed: frozenset[SessionId]
    complete: bool


class RosterMirror:
    """The client's copy of the roster. Not thread-safe: use it on the loop that feeds it.

    During a snapshot the old rows stay visible until the new ones are complete, so that a
    reconnect never shows an empty board.
    """

    def __init__(self) -> None:
        self._rows: dict[SessionId, RosterRow] = {}
        self._incoming: dict[SessionId, RosterRow] | None = None
        self._generation = ""
        self._shared: dict[str, str] = {}
        self._sequence = 0
        self._complete = False
        self._listeners: list[Callable[[RosterChange], None]] = []

    @property
    def complete(self) -> bool:
        """Whether at least one whole snapshot has been received."""
        return self._complete

    @property
    def position(self) -> RosterPosition | None:
        """What to present when subscribing again; None before the first complete snapshot."""
        if not self._complete:
            return None
        return RosterPosition(generation=self._generation, sequence=self._sequence)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RosterRow]:
        return iter(self._rows.values())

    def get(self, session_id: SessionId) -> RosterRow | None:
        """The row with exactly this id, or None."""
        return self._rows.get(session_id)

    def subscribe(self, listener: Callable[[RosterChange], None]) -> Callable[[], None]:
        """Call `listener` once per applied batch; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def begin(self, generation: str) -> None:
        """A snapshot begins: collect its rows beside those shown now."""
        self._incoming = {}
        self._generation = generation
        self._shared = {}

    def chunk(self, rows: Iterable[RosterRow]) -> None:
        """Rows of the snapshot under way."""
        if self._incoming is None:
            return
        incoming, shared = self._incoming, self._shared.setdefault
        for row in rows:
            # decoding made a string of its own for each field: ten thousand times the same ones
            share(row, "root_id", shared(row.root_id, row.root_id))
            share(row, "cwd", shared(row.cwd, row.cwd))
            share(row, "store", shared(row.store, row.store))
            incoming[shared(row.session_id, row.session_id)] = row

    def end(self, sequence: int) -> None:
        """The snapshot is whole: it replaces what was shown, in one notification."""
        if self._incoming is None:
            return
        before, self._rows, self._incoming = self._rows, self._incoming, None
        self._shared = {}
        self._sequence = sequence
        self._complete = True
        changed = frozenset(key for key, row in self._rows.items() if before.get(key) != row)
        self._notify(changed, frozenset(before.keys() - self._rows.keys()))

    def delta(
        self,
        sequence: int,
        upserts: Iterable[RosterRow],
        removals: Iterable[SessionId],
        *,
        more: bool = False,
    ) -> None:
        """Apply one delta, or a part of it (`more` follow); a repeat is ignored."""
        if sequence <= self._sequence or self._incoming is not None:
            return
        if not more:
            self._sequence = sequence
        changed: set[SessionId] = set()
        for row in upserts:
            if self._rows.get(row.session_id) != row:
                self._rows[row.session_id] = row
                changed.add(row.session_id)
        removed = {key for key in removals if self._rows.pop(key, None) is not None}
        self._notify(frozenset(changed - removed), frozenset(removed))

    def _notify(self, changed: frozenset[SessionId], removed: frozenset[SessionId]) -> None:
        change = RosterChange(changed=changed, removed=removed, complete=self._complete)
        for listener in tuple(self._listeners):
            listener(change)
