"""A command's connection: one client, the roster if it needs it, the session it names."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from daemon_client.client import DaemonClient, connect
from daemon_client.protocol.commands import Environ
from daemon_client.resolve import is_full_id, resolve
from daemon_client.roster import RosterRow, SessionId


def now_ms() -> int:
    """Wall clock, ms UTC."""
    return time.time_ns() // 1_000_000


def own_environment() -> Environ:
    """What an agent of this person should see (A9)."""
    return {k: v for k, v in os.environ.items() if not k.startswith("AGENTS_VIEW_")}


@asynccontextmanager
async def daemon(*, start: bool = True, roster: bool = True) -> AsyncGenerator[DaemonClient, None]:
    """A connected client, by default with a complete mirror."""
    async with connect(start=start) as client:
        if roster:
            await client.follow()
        yield client


async def named(client: DaemonClient, text: str, *, trashed: bool = False) -> SessionId:
    """The session a person means; `trashed`: a full id may be one that is not in the roster."""
    if trashed and is_full_id(text) and client.mirror.get(text) is None:
        return text
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


def add_session(parser: argparse.ArgumentParser) -> None:
    """The argument that names a session."""
    parser.add_argument("session", help="id, exact name, or the last four or more of an id")
