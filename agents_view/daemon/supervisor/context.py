"""What every handler of the supervisor works with. Wiring fills it once; nothing here acts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from agents_view.base.clock import Clock
from agents_view.base.settings import Settings
from agents_view.daemon.policy.access import Caller
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.transcripts import transcript_path
from agents_view.daemon.supervisor.environments import Environments
from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.supervisor.roster import Roster
from agents_view.daemon.supervisor.streams import RosterStream, SessionStreams
from agents_view.daemon.supervisor.workers import WorkerPool
from daemon_client.paths import Paths
from daemon_client.protocol import AnyCommand
from daemon_client.roster import SessionId


@dataclasses.dataclass(kw_only=True)
class Daemon:
    """One supervisor's parts. `counters` are the figures of `daemon status`."""

    paths: Paths
    settings: Settings
    clock: Clock
    generation: str
    embedded: bool
    started_at_ms: int
    db: Database
    roster: Roster
    roster_stream: RosterStream
    session_streams: SessionStreams
    workers: WorkerPool
    environments: Environments
    client_count: Callable[[], int]
    request_stop: Callable[[StopRequest], None]
    broadcast: Callable[[msgspec.Struct], None]
    notice: str = ""
    counters: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def banner(self) -> str:
        """What is wrong with the store, for the header of every board; empty if nothing is."""
        return self.db.recording or self.notice

    def transcript_path(self, session_id: SessionId) -> Path:
        """Where a session's transcript is."""
        return transcript_path(self.paths.transcripts, session_id)


@dataclasses.dataclass(kw_only=True)
class StopRequest:
    """How the supervisor is to end: for good, or leaving its workers to the next one."""

    restart: bool


@dataclasses.dataclass(kw_only=True)
class Call:
    """One request on its way through a handler, which may ask for something right behind it."""

    request_id: str
    command: AnyCommand
    caller: Caller
    peer: Peer
    after_reply: Callable[[], None] | None = None
