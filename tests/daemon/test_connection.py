"""The client's connection over stops and restarts of the daemon (07.2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from daemon_client import connect
from daemon_client.connection import Connection, Link
from daemon_client.launch import ensure_daemon
from daemon_client.paths import paths_for
from tests.support import homes


async def linked(connection: Connection, wanted: Link) -> None:
    changed = asyncio.Event()
    undo = connection.on_link(lambda state: changed.set())
    async with asyncio.timeout(20):
        while connection.state.link is not wanted:
            changed.clear()
            await changed.wait()
    undo()


async def test_a_stopped_daemon_stays_stopped_until_something_is_asked(home: Path) -> None:
    async with homes.running(home) as client:
        await client.service.shutdown(force=True)
        await linked(client.connection, Link.CONNECTING)
        await homes.eventually(lambda: not homes.supervisors_of(home))
        await asyncio.sleep(1.0)  # nothing may happen: several retries pass
        assert not homes.supervisors_of(home)
        assert client.connection.state.reason == "the daemon was stopped"
        await client.service.ping()
        assert len(homes.supervisors_of(home)) == 1
        await client.service.shutdown(force=True)


async def test_a_client_that_starts_nothing_comes_back_with_the_daemon(home: Path) -> None:
    paths = paths_for(home)
    await ensure_daemon(paths)
    async with connect(home, start=False) as watcher:
        await watcher.follow()
        async with connect(home, start=False) as other:
            await other.service.shutdown(force=True)
        await linked(watcher.connection, Link.CONNECTING)
        await homes.eventually(lambda: not homes.supervisors_of(home))
        await ensure_daemon(paths)
        await linked(watcher.connection, Link.UP)
        row = await watcher.sessions.create("shell", "/tmp")
        assert await homes.until(watcher, row.session_id, lambda r: r is not None)
        await watcher.service.shutdown(force=True)
