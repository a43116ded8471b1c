"""A process inside an agent that wants more than it may: `-m tests.support.agent_client VERB`.

`everything OWN OTHER` sends each command there is, about a session of its own tree and about one of
another, and prints one JSON object: command → [outcome, outcome]. `rows` prints the ids it can see.
`spawn` makes a child and prints its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import get_args

from daemon_client import DaemonError
from daemon_client.client import DaemonClient
from daemon_client.connection import Connection
from daemon_client.protocol import AnyCommand
from daemon_client.protocol import commands as c

FILLERS = {
    "agent": "shell",
    "cwd": "/tmp",
    "name": "renamed",
    "text": "echo prompted",
    "prompt_id": "0" * 32,
    "waiting_id": "0" * 32,
    "option_id": "once",
    "mode": "m",
    "model": "m",
    "value": "v",
}


def built(kind: type, target: str) -> AnyCommand:
    """A command of this kind about `target`, with something in every field it insists on."""
    fields = {name: FILLERS[name] for name in kind.__struct_fields__ if name in FILLERS}
    for name in ("session_id", "parent_id"):
        if name in kind.__struct_fields__:
            fields[name] = target
    return kind(**fields)


async def outcome(connection: Connection, command: AnyCommand) -> str:
    try:
        await connection.request(command, timeout=20)
    except DaemonError as error:
        return str(error.code)
    return "ok"


async def everything(connection: Connection, own: str, other: str) -> dict[str, list[str]]:
    # what would end the daemon comes last
    kinds = sorted(get_args(AnyCommand), key=lambda kind: (kind is c.Shutdown, kind.__name__))
    return {
        kind.__name__: [
            await outcome(connection, built(kind, own)),
            await outcome(connection, built(kind, other)),
        ]
        for kind in kinds
    }


async def main() -> None:
    connection = Connection(Path(os.environ["AGENTS_VIEW_SOCKET"]))
    await connection.open()
    verb, *words = sys.argv[1:]
    if verb == "everything":
        print(json.dumps(await everything(connection, *words)))
    elif verb == "answer":
        own, waiting, option = words
        command = c.Answer(session_id=own, waiting_id=waiting, option_id=option)
        print(json.dumps(await outcome(connection, command)))
    else:
        client = DaemonClient(connection)
        await client.follow()
        if verb == "spawn":
            row = await client.sessions.spawn(c.Spawn(prompt="echo child"))
            print(json.dumps([row.parent_id, row.root_id]))
        else:
            print(json.dumps(sorted(row.session_id for row in client.mirror)))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
