"""The roster: every session's row, kept current from the store and the workers (R2–R7, 07.2).

Rows are recomputed only when something about them changed, and handed to the subscribers together
once per tick. Nothing here talks to anybody: the streams ask, and are called.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from agents_view.daemon.policy.deletion import title_of
from agents_view.daemon.policy.rows import UNCOVERED, Coverage, row_of
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.wire import SessionFacts
from daemon_client.roster import RosterRow, SessionId
from daemon_client.status import is_working

_REMEMBERED_REMOVALS = 4096


class RosterBatch(msgspec.Struct, kw_only=True, frozen=True):
    """What changed up to `sequence`."""

    sequence: int
    upserts: tuple[RosterRow, ...]
    removals: tuple[SessionId, ...]


class Roster:
    """All sessions that are not deleted. One loop only."""

    def __init__(self, generation: str) -> None:
        self.generation = generation
        self.sequence = 0
        self.on_dirty: Callable[[], None] = lambda: None
        self._sessions: dict[SessionId, Session] = {}
        self._facts: dict[SessionId, SessionFacts] = {}
        self._coverage: dict[SessionId, Coverage] = {}
        self._clients: Counter[SessionId] = Counter()
        self._rows: dict[SessionId, RosterRow] = {}
        self._members: defaultdict[SessionId, set[SessionId]] = defaultdict(set)
        self._children: defaultdict[SessionId, set[SessionId]] = defaultdict(set)
        self._working: set[SessionId] = set()
        self._running_below: Counter[SessionId] = Counter()
        self._dirty: set[SessionId] = set()
        self._gone: set[SessionId] = set()
        self._pending: set[SessionId] = set()
        self._changed_at: dict[SessionId, int] = {}
        self._removed: deque[tuple[int, SessionId]] = deque(maxlen=_REMEMBERED_REMOVALS)

    # reading

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._sessions

    def session(self, session_id: SessionId) -> Session | None:
        """The durable record, None if there is none or it is deleted."""
        return self._sessions.get(session_id)

    def facts(self, session_id: SessionId) -> SessionFacts | None:
        """What the worker said last, None while the session is passive."""
        return self._facts.get(session_id)

    def row(self, session_id: SessionId) -> RosterRow | None:
        """The row as of now (pending changes are applied first)."""
        self.flush_one(session_id)
        return self._rows.get(session_id)

    def rows(self) -> Iterator[RosterRow]:
        """All rows as of the last flush."""
        return iter(self._rows.values())

    def members(self, root_id: SessionId) -> list[SessionId]:
        """Ids of the living members of a tree."""
        return list(self._members.get(root_id, ()))

    def below(self, session_id: SessionId) -> list[SessionId]:
        """Ids of all living descendants, nearest first."""
        found: list[SessionId] = []
        frontier = [session_id]
        seen = {session_id}
        while frontier:
            frontier = [c for p in frontier for c in self._children.get(p, ()) if c not in seen]
            seen.update(frontier)
            found.extend(frontier)
        return found

    def agent_of(self, pid: int, start: int) -> Session | None:
        """The session whose agent is exactly this process."""
        for session_id, facts in self._facts.items():
            if facts.agent_pid == pid and facts.agent_start == start:
                return self._sessions.get(session_id)
        return None

    def working_titles(self) -> list[str]:
        """Who works now, for people."""
        return [title_of(self._rows[s]) for s in self._working if s in self._rows]

    def since(self, sequence: int) -> RosterBatch | None:
        """Everything that changed after `sequence`; None if that is too long ago to tell."""
        full = len(self._removed) == _REMEMBERED_REMOVALS
        if full and self._removed[0][0] > sequence:
            return None
        return RosterBatch(
            sequence=self.sequence,
            upserts=tuple(
                self._rows[key]
                for key, at in self._changed_at.items()
                if at > sequence and key in self._rows
            ),
            removals=tuple(
                key for at, key in self._removed if at > sequence and key not in self._rows
            ),
        )

    # writing

    def put(self, *sessions: Session) -> None:
        """New or changed durable records."""
        for session in sessions:
            key = session.session_id
            self._sessions[key] = session
            self._members[session.root_id].add(key)
            if session.parent_id is not None:
                self._children[session.parent_id].add(key)
            self._gone.discard(key)
            self._touch(key)

    def remove(self, session_ids: Iterable[SessionId]) -> None:
        """Sessions that were deleted."""
        for key in session_ids:
            session = self._sessions.pop(key, None)
            if session is None:
                continue
            self._members[session.root_id].discard(key)
            if session.parent_id is not None:
                self._children[session.parent_id].discard(key)
            self._set_working(session, False)
            self._facts.pop(key, None)
            self._dirty.discard(key)
            self._gone.add(key)
            self.on_dirty()

    def put_facts(self, facts: Iterable[SessionFacts]) -> None:
        """What a worker says about its sessions."""
        for item in facts:
            if item.session_id in self._sessions and self._facts.get(item.session_id) != item:
                self._facts[item.session_id] = item
                self._touch(item.session_id)

    def drop_facts(self, root_id: SessionId) -> None:
        """The tree has no worker any more: its members are passive."""
        for key in self._members.get(root_id, ()):
            if self._facts.pop(key, None) is not None:
                self._touch(key)

    def map_facts(self, root_id: SessionId, change: Callable[[SessionFacts], SessionFacts]) -> None:
        """Change the facts of a whole tree, e.g. when its worker died."""
        self.put_facts([change(self._facts[k]) for k in self.members(root_id) if k in self._facts])

    def cover(self, root_id: SessionId, coverage: Coverage) -> None:
        """What is known about the tree's worker."""
        if self._coverage.get(root_id, UNCOVERED) != coverage:
            self._coverage[root_id] = coverage
            for key in self._members.get(root_id, ()):
                self._touch(key)

    def attached(self, session_id: SessionId, change: int) -> int:
        """A client came (+1) or went (-1); how many there are now."""
        self._clients[session_id] += change
        count = self._clients[session_id]
        if count <= 0:
            del self._clients[session_id]
        self._touch(session_id)
        return max(0, count)

    def flush(self) -> RosterBatch | None:
        """Recompute what changed; None if no row did."""
        while self._dirty:
            self._recompute(self._dirty.pop())
        removals = tuple(key for key in self._gone if self._rows.pop(key, None) is not None)
        self._gone.clear()
        upserts = tuple(self._rows[key] for key in self._pending if key in self._rows)
        self._pending.clear()
        if not upserts and not removals:
            return None
        self.sequence += 1
        for row in upserts:
            self._changed_at[row.session_id] = self.sequence
        for key in removals:
            self._changed_at.pop(key, None)
            self._removed.append((self.sequence, key))
        return RosterBatch(sequence=self.sequence, upserts=upserts, removals=removals)

    def flush_one(self, session_id: SessionId) -> None:
        """Make one row current; it is still part of the next batch."""
        if session_id in self._dirty:
            self._dirty.discard(session_id)
            self._recompute(session_id)

    # inside

    def _touch(self, key: SessionId) -> None:
        self._dirty.add(key)
        self.on_dirty()

    def _recompute(self, key: SessionId) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
        row = row_of(
            session,
            self._facts.get(key),
            self._coverage.get(session.root_id, UNCOVERED),
            clients=self._clients.get(key, 0),
            running_children=self._running_below.get(key, 0),
        )
        if self._rows.get(key) != row:
            self._rows[key] = row
            self._pending.add(key)
            self._set_working(session, is_working(row))

    def _set_working(self, session: Session, working: bool) -> None:
        """Keep each ancestor's count of working descendants (R4, R33)."""
        key = session.session_id
        if working == (key in self._working):
            return
        (self._working.add if working else self._working.discard)(key)
        seen = {key}
        parent = session.parent_id
        while parent is not None and parent not in seen:
            seen.add(parent)
            self._running_below[parent] += 1 if working else -1
            self._touch(parent)
            above = self._sessions.get(parent)
            parent = above.parent_id if above else None
