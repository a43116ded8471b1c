"""A home whose catalogue has the scripted agent, and the words to drive it with."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon_client import DaemonClient
from daemon_client.protocol import SessionState
from daemon_client.protocol.transcript import MessageEntry, NoticeEntry, TurnEndEntry
from daemon_client.roster import RosterRow
from daemon_client.status import section_of
from tests.support import homes

ROOT = Path(__file__).parents[2]
ENV = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "PYTHONPATH": str(ROOT)}


def configure(home: Path, *words: str, config: str = "", entry: str = "") -> None:
    """Write config.toml: `[agents.scripted]` with these words, more keys in `entry`."""
    args = json.dumps(["-m", "tests.support.scripted_agent", *words])
    home.joinpath("config.toml").write_text(
        f"{config}\n[agents.scripted]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {args}\n{entry}\n"
    )


@asynccontextmanager
async def daemon(
    home: Path, *words: str, config: str = "", entry: str = ""
) -> AsyncIterator[DaemonClient]:
    """A client of a daemon that knows the scripted agent; both end with the block."""
    configure(home, *words, config=config, entry=entry)
    async with homes.running(home) as client:
        yield client
        await homes.stop(client)


async def new(client: DaemonClient, prompt: str | None = None, **more) -> RosterRow:
    more = {"environ": ENV, "agent": "scripted", "cwd": "/tmp"} | more
    agent, cwd = more.pop("agent"), more.pop("cwd")
    return await client.sessions.create(agent, cwd, prompt=prompt, **more)


async def ask(client: DaemonClient, row: RosterRow, text: str, **more) -> None:
    """Prompt, and wait until everything asked so far was carried out."""
    await client.conversation.prompt(row.session_id, text, environ=ENV, **more)
    await homes.until(client, row.session_id, quiet)


def quiet(row: RosterRow | None) -> bool:
    """Nothing under way and nothing queued."""
    return row is not None and section_of(row) == "idle" and row.message_count > 0


async def entries(client: DaemonClient, session_id: str) -> list:
    return list((await client.conversation.transcript(session_id, limit=1000)).entries)


async def said(client: DaemonClient, session_id: str) -> str:
    found = await entries(client, session_id)
    return "|".join(e.text for e in found if isinstance(e, MessageEntry))


async def notices(client: DaemonClient, session_id: str) -> list[str]:
    return [e.text for e in await entries(client, session_id) if isinstance(e, NoticeEntry)]


async def ends(client: DaemonClient, session_id: str) -> list[tuple[str, str]]:
    found = await entries(client, session_id)
    return [(e.stop_reason, e.cause) for e in found if isinstance(e, TurnEndEntry)]


async def held(client: DaemonClient, session_id: str) -> list[str]:
    """The prompts that wait for somebody to ask again."""
    states: asyncio.Queue[SessionState] = asyncio.Queue()
    ends_it = client.connection.on_push(
        lambda m: states.put_nowait(m) if isinstance(m, SessionState) else None
    )
    await client.conversation.attach(session_id)
    async with asyncio.timeout(10):
        state = await states.get()
    ends_it()
    await client.conversation.detach(session_id)
    return [prompt.text for prompt in state.queue if prompt.held]
