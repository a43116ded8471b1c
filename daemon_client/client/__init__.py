"""A typed client of the daemon: `async with connect() as daemon: …` (spec 07.2).

Not thread-safe: use a client only on the loop that entered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon_client.client.conversation import Conversation
from daemon_client.client.service import Service
from daemon_client.client.sessions import Sessions
from daemon_client.connection import ClientLimits, Connection
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.launch import ensure_daemon
from daemon_client.paths import paths_for
from daemon_client.protocol import (
    FromDaemon,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
)
from daemon_client.protocol.commands import RosterSubscribe
from daemon_client.roster import RosterChange, RosterMirror

__all__ = ["DaemonClient", "connect"]


class DaemonClient:
    """Commands by group, and the mirror of the roster once it is followed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sessions = Sessions(connection)
        self.conversation = Conversation(connection)
        self.service = Service(connection)
        self.mirror = RosterMirror()
        self._followed = False

    def follow_in_background(self) -> None:
        """Keep `mirror` up to date from now on, over every reconnect; returns at once."""
        if self._followed:
            return
        self._followed = True
        self.connection.on_push(self._feed)
        self.connection.on_up(self._resubscribe)

    async def follow(self) -> RosterMirror:
        """Keep `mirror` up to date from now on; returns once it is complete."""
        self.follow_in_background()
        if not self.mirror.complete:
            whole = asyncio.Event()
            unsubscribe = self.mirror.subscribe(lambda change: whole.set())
            try:
                await self.connection.request(RosterSubscribe(position=self.mirror.position))
                async with asyncio.timeout(self.connection.limits.request):
                    while not self.mirror.complete:
                        await whole.wait()
                        whole.clear()
            finally:
                unsubscribe()
        return self.mirror

    async def roster(self) -> AsyncIterator[RosterChange]:
        """Changes of `mirror`, batch by batch; the first is the complete snapshot."""
        queue: asyncio.Queue[RosterChange] = asyncio.Queue()
        unsubscribe = self.mirror.subscribe(queue.put_nowait)
        try:
            if self.mirror.complete:
                everything = frozenset(row.session_id for row in self.mirror)
                yield RosterChange(changed=everything, removed=frozenset(), complete=True)
            else:
                await self.follow()
            while True:
                yield await queue.get()
        finally:
            unsubscribe()

    def _resubscribe(self) -> None:
        self.connection.tell(RosterSubscribe(position=self.mirror.position))

    def _feed(self, message: FromDaemon) -> None:
        if isinstance(message, RosterDelta):
            self.mirror.delta(
                message.sequence, message.upserts, message.removals, more=message.more
            )
        elif isinstance(message, RosterBegin):
            self.mirror.begin(message.generation)
        elif isinstance(message, RosterChunk):
            self.mirror.chunk(message.rows)
        elif isinstance(message, RosterEnd):
            self.mirror.end(message.sequence)


@asynccontextmanager
async def connect(
    home: str | Path | None = None,
    *,
    start: bool = True,
    limits: ClientLimits | None = None,
) -> AsyncGenerator[DaemonClient, None]:
    """A client of the daemon at `home` (the environment's, if not given), started if there is none.

    With `start=False` a missing daemon is `DaemonError(unavailable)`.
    """
    paths = paths_for(home)

    async def revive() -> None:
        await ensure_daemon(paths)

    connection = Connection(paths.socket, revive=revive if start else None, limits=limits)
    try:
        await connection.open()
    except DaemonError as error:
        if not start or error.code is not ErrorCode.UNAVAILABLE:
            raise
        await ensure_daemon(paths)
        connection = Connection(paths.socket, revive=revive, limits=limits)
        await connection.open()
    try:
        yield DaemonClient(connection)
    finally:
        await connection.close()
