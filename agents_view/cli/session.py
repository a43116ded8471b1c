"""A command's connection: one client, the roster if it needs it, the session it names."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agents_view.cli.output import NO_DAEMON, Stop
from daemon_client.client import DaemonClient, connect
from daemon_client.protocol import DaemonClosing, FromDaemon
from daemon_client.protocol.commands import Environ
from daemon_client.resolve import is_full_id, resolve
from daemon_client.roster import RosterChange, RosterRow, SessionId


def now_ms() -> int:
    """Wall clock, ms UTC."""
    return time.time_ns() // 1_000_000


def own_environment() -> Environ:
    """What an agent of this person should see (A9); nothing of ours, and nothing but text."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AGENTS_VIEW_") and _is_text(name) and _is_text(value)
    }


def _is_text(value: str) -> bool:
    """The wire is UTF-8. Bytes that are not came in as lone surrogates."""
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def directory(text: str) -> str:
    """A directory a person typed, absolute, without `..`."""
    return os.path.normpath(Path(text).expanduser().absolute())


@asynccontextmanager
async def daemon(*, start: bool = True, roster: bool = True) -> AsyncGenerator[DaemonClient, None]:
    """A connected client, by default with a complete mirror."""
    async with connect(start=start) as client:
        if roster:
            await client.follow()
        yield client


@asynccontextmanager
async def unless_stopped(client: DaemonClient) -> AsyncGenerator[None, None]:
    """What waits inside ends with exit 4 when somebody stops the daemon: nothing more comes."""
    loop = asyncio.get_running_loop()
    bound = asyncio.timeout(None)

    def pushed(message: FromDaemon) -> None:
        if isinstance(message, DaemonClosing) and message.reason == "shutdown":
            bound.reschedule(loop.time())

    undo = client.connection.on_push(pushed)
    try:
        async with bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        raise Stop(NO_DAEMON, "the daemon was stopped") from None
    finally:
        undo()


class Reattach:
    """Calls `again` when entries may have been missed: after a reconnect, and after a new worker.

    How a turn ended that a worker's crash cut off is written before the next worker speaks, and
    nobody is told of that entry.
    """

    def __init__(
        self, client: DaemonClient, session_id: SessionId, again: Callable[[], None]
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._again = again
        self._worker = self._worker_now()
        self._undo = [client.connection.on_up(again), client.mirror.subscribe(self._changed)]

    def end(self) -> None:
        """Call it no more."""
        for undo in self._undo:
            undo()

    def _worker_now(self) -> tuple[int | None, str | None]:
        row = self._client.mirror.get(self._session_id)
        return (None, None) if row is None else (row.worker_pid, row.worker_state)

    def _changed(self, change: RosterChange) -> None:
        before, self._worker = self._worker, self._worker_now()
        another = self._worker[0] is not None and self._worker[0] != before[0]
        if another or (before[1] == "recovering" and self._worker[1] != "recovering"):
            self._again()


def named(client: DaemonClient, text: str) -> SessionId:
    """The session a person means. A full id need not be in the roster: it may be in the trash.

    Or it is out of an agent's sight: the daemon knows, and says which.
    """
    return text if is_full_id(text) else resolve(text, client.mirror)


def listed(client: DaemonClient, text: str) -> SessionId:
    """The same, for what is read from the roster alone."""
    return resolve(text, client.mirror)


async def until_row(
    client: DaemonClient, session_id: SessionId, wanted: Callable[[RosterRow | None], bool]
) -> RosterRow | None:
    """Wait until the row is as wanted (None: gone); the row then."""
    changed = asyncio.Event()
    unsubscribe = client.mirror.subscribe(lambda change: changed.set())
    try:
        while not wanted(client.mirror.get(session_id)):
            changed.clear()
            await changed.wait()
    finally:
        unsubscribe()
    return client.mirror.get(session_id)
