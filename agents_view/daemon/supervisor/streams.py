"""What the supervisor pushes: the roster to its subscribers, transcripts to whoever is attached.

Nobody waits for a slow client: once more than the write buffer is unsent its stream is dropped,
and replaced by one fresh snapshot when it reads again (spec 07.2).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.supervisor.roster import Roster, RosterBatch
from agents_view.daemon.wire import Aside
from daemon_client.protocol import (
    DaemonClosing,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
    SessionChunk,
    SessionGone,
    SessionState,
)
from daemon_client.protocol.commands import ShutdownReason
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import RosterPosition, RosterRow, SessionId

_ROWS_PER_CHUNK = 150
_ENTRIES_PER_CHUNK = 400


class _Subscriber(msgspec.Struct, kw_only=True):
    """How far a peer's mirror has come; `busy` while a snapshot is being sent."""

    peer: Peer
    sequence: int = 0
    busy: bool = False


class RosterStream:
    """Sends each batch to every subscriber; an agent sees its own tree only."""

    def __init__(self, roster: Roster, write_buffer: int, tick: float) -> None:
        self._roster = roster
        self._write_buffer = write_buffer
        self._tick = tick
        self._subscribers: dict[int, _Subscriber] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.ready = asyncio.Event()
        """Set once the workers that live have re-dialled: no snapshot ends before (05.7)."""
        roster.on_dirty = self._soon

    def subscribe(self, peer: Peer, position: RosterPosition | None) -> None:
        """Begin the stream: the deltas missing since `position`, or a snapshot."""
        subscriber = _Subscriber(peer=peer)
        self._subscribers[peer.number] = subscriber
        known = position is not None and position.generation == self._roster.generation
        batch = self._roster.since(position.sequence) if known and position else None
        if batch is not None and self.ready.is_set():
            subscriber.sequence = batch.sequence
            self._send_batch(subscriber, batch)
        else:
            self._start_snapshot(subscriber)

    def drop(self, peer: Peer) -> None:
        """The peer is gone."""
        self._subscribers.pop(peer.number, None)

    def flush(self) -> None:
        """Send what changed now, without waiting for the tick."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._roster.flush()
        if batch is None:
            return
        for subscriber in tuple(self._subscribers.values()):
            if subscriber.busy:
                continue  # its snapshot ends with everything missed meanwhile
            if subscriber.peer.link.unsent > self._write_buffer:
                self._start_snapshot(subscriber)
                continue
            subscriber.sequence = batch.sequence
            self._send_batch(subscriber, batch)

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._tick, self.flush)

    def _send_batch(self, subscriber: _Subscriber, batch: RosterBatch) -> None:
        rows = _visible(subscriber.peer, batch.upserts)
        for start in range(0, max(1, len(rows)), _ROWS_PER_CHUNK):
            last = start + _ROWS_PER_CHUNK >= len(rows)
            subscriber.peer.send(
                RosterDelta(
                    # only the last part moves the mirror on: a cut connection repeats them all
                    sequence=batch.sequence,
                    upserts=tuple(rows[start : start + _ROWS_PER_CHUNK]),
                    removals=batch.removals if last else (),
                    more=not last,
                )
            )

    def _start_snapshot(self, subscriber: _Subscriber) -> None:
        subscriber.busy = True
        peer = subscriber.peer
        task = asyncio.create_task(self._snapshot(subscriber), name=f"snapshot-{peer.number}")
        peer.tasks.add(task)
        task.add_done_callback(peer.tasks.discard)

    async def _snapshot(self, subscriber: _Subscriber) -> None:
        peer = subscriber.peer
        await self.ready.wait()
        await peer.link.drain()
        self.flush()
        sequence, rows = self._roster.sequence, _visible(peer, self._roster.rows())
        peer.send(RosterBegin(generation=self._roster.generation, rows=len(rows)))
        for start in range(0, len(rows), _ROWS_PER_CHUNK):
            await peer.link.drain()
            peer.send(RosterChunk(rows=tuple(rows[start : start + _ROWS_PER_CHUNK])))
        peer.send(RosterEnd(sequence=sequence))
        subscriber.sequence = sequence
        subscriber.busy = False
        missed = self._roster.since(sequence)
        if missed is not None and missed.sequence > sequence:
            subscriber.sequence = missed.sequence
            self._send_batch(subscriber, missed)


def _visible(peer: Peer, rows: Iterable[RosterRow]) -> list[RosterRow]:
    if not peer.caller.is_agent:
        return list(rows)
    return [row for row in rows if row.root_id == peer.caller.root_id]


class _Follower(msgspec.Struct, kw_only=True):
    """A peer attached to a session; live entries are held until its tail was sent."""

    peer: Peer
    held: list[TranscriptEntry] | None


class SessionStreams:
    """Who is attached to which session, and what each session shows beside its transcript."""

    def __init__(self, write_buffer: int) -> None:
        self._write_buffer = write_buffer
        self._followers: defaultdict[SessionId, dict[int, _Follower]] = defaultdict(dict)
        self._asides: dict[SessionId, Aside] = {}

    def attach(self, session_id: SessionId, peer: Peer) -> bool:
        """Hold live entries for the peer from now on; False if it was attached already."""
        followers = self._followers[session_id]
        again = peer.number in followers
        followers[peer.number] = _Follower(peer=peer, held=[])
        return not again

    def send_tail(
        self, session_id: SessionId, peer: Peer, entries: tuple[TranscriptEntry, ...]
    ) -> None:
        """Send the tail, then what was held, then go live."""
        follower = self._followers[session_id].get(peer.number)
        if follower is None:
            return
        _send_entries(peer, session_id, entries, replay=True)
        held, follower.held = follower.held or [], None
        if held:
            _send_entries(peer, session_id, tuple(held), replay=False)

    def detach(self, session_id: SessionId, peer: Peer) -> bool:
        """False if the peer was not attached."""
        followers = self._followers.get(session_id, {})
        found = followers.pop(peer.number, None) is not None
        if not followers:
            self._followers.pop(session_id, None)
        return found

    def sessions_of(self, peer: Peer) -> list[SessionId]:
        """What a peer is attached to."""
        return [key for key, followers in self._followers.items() if peer.number in followers]

    def watched(self, session_id: SessionId) -> bool:
        """Whether anybody is attached."""
        return session_id in self._followers

    def publish(self, session_id: SessionId, entries: tuple[TranscriptEntry, ...]) -> None:
        """New entries of a session, to everybody attached."""
        for follower in tuple(self._followers.get(session_id, {}).values()):
            if follower.held is not None:
                follower.held.extend(entries)
            elif follower.peer.link.unsent > self._write_buffer:
                # it attaches again by itself and gets the tail
                follower.peer.send(SessionChunk(session_id=session_id, entries=(), lost=True))
                self.detach(session_id, follower.peer)
            else:
                _send_entries(follower.peer, session_id, entries, replay=False)

    def aside(self, session_id: SessionId) -> Aside:
        """What the worker said last about queue, requests and choices."""
        return self._asides.get(session_id) or Aside(session_id=session_id)

    def put_aside(self, aside: Aside) -> None:
        """Queue, requests or choices changed: tell everybody attached."""
        self._asides[aside.session_id] = aside
        for follower in self._followers.get(aside.session_id, {}).values():
            follower.peer.send(state_of(aside))

    def drop_aside(self, session_ids: Iterable[SessionId]) -> None:
        """The worker is gone: nothing waits any more."""
        for session_id in session_ids:
            if session_id in self._asides:
                self.put_aside(Aside(session_id=session_id))
                del self._asides[session_id]

    def gone(self, session_id: SessionId) -> None:
        """The session was deleted: its streams end."""
        for follower in self._followers.pop(session_id, {}).values():
            follower.peer.send(SessionGone(session_id=session_id))
        self._asides.pop(session_id, None)


def state_of(aside: Aside) -> SessionState:
    """An aside as clients get it."""
    return SessionState(
        session_id=aside.session_id,
        queue=aside.queue,
        pending=aside.pending,
        choices=aside.choices,
    )


def closing(reason: ShutdownReason) -> DaemonClosing:
    """The goodbye to every client."""
    return DaemonClosing(reason=reason)


def _send_entries(
    peer: Peer, session_id: SessionId, entries: tuple[TranscriptEntry, ...], *, replay: bool
) -> None:
    """In frames well below the limit: an entry is bounded, its neighbours are counted by size."""
    batch: list[TranscriptEntry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += _weight(entry)
        if size > 256 << 10 or len(batch) >= _ENTRIES_PER_CHUNK:
            peer.send(SessionChunk(session_id=session_id, entries=tuple(batch), replay=replay))
            batch, size = [], 0
    if batch or replay:
        peer.send(
            SessionChunk(session_id=session_id, entries=tuple(batch), replay=replay, last=replay)
        )


def _weight(entry: TranscriptEntry) -> int:
    return len(msgspec.msgpack.encode(entry))
