"""A daemon on the real wire that serves rows it is given, for tests of the board and benchmarks.

`async with RecordedDaemon(rows) as paths` listens in a home of its own; `answers` holds what it
says to a command. Stand-alone, so that what
is measured does not share its process: `python -m tests.support.recorded_daemon HOME ROWS KIND`;
it says `ready`, then obeys lines `rate N` (that many row changes a second) and ends with its input.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from daemon_client.errors import FrameError
from daemon_client.framing import Codec, FrameLink
from daemon_client.paths import Paths, make_private, paths_for
from daemon_client.protocol import (
    PROTOCOL_VERSION,
    FromClient,
    Hello,
    Request,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
    Welcome,
)
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    AgentInfo,
    AgentsFound,
    AnyResult,
    Done,
    PendingRequests,
    Reply,
)
from daemon_client.roster import RosterRow, Schedule, Waiting

ROWS_PER_CHUNK: Final = 150
_HOUR_MS: Final = 3_600_000
_BATCH_SECONDS: Final = 0.05
"""The daemon's own tick: changes come in batches of it."""

_AGENT = AgentInfo(id="shell", name="Shell", found=True, command="built in")


def synthetic_rows(
    count: int, now_ms: int | None = None, *, kind: str = "mixed"
) -> list[RosterRow]:
    """`count` rows as a busy person has them; each fourth session has two subagents.

    `mixed`: all three sections; `running`: everybody works; `armed`: idle with a heartbeat that is
    due in more than an hour.
    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    rows: list[RosterRow] = []
    root = ""
    for number in range(count):
        key = f"{number:032x}"
        child = number % 6 in (4, 5) and kind == "mixed"
        root = root if child else key
        rows.append(_row(number, key, root, child, now, kind))
    return rows


def _row(number: int, key: str, root: str, child: bool, now: int, kind: str) -> RosterRow:
    state = {"running": 0, "armed": 1}.get(kind, (0, 1, 2, 2, 1, 1)[number % 6])
    row = RosterRow(
        session_id=key,
        name=f"session {number}" if number % 3 else None,
        agent=("claude", "codex", "qwen", "shell")[number % 4],
        model="a-model-of-today",
        cwd=f"/home/somebody/projects/project-{number % 40}",
        store="/home/somebody/.local/state/agents-view",
        root_id=root,
        parent_id=root if child else None,
        depth=int(child),
        created_at_ms=now - number * 60_000 - 2 * _HOUR_MS,
        last_activity_at_ms=now - (number % 5000) * 61_000 - 5 * _HOUR_MS,
        first_message=f"please look at number {number} and tell me what is wrong with it",
        message_count=number % 90,
        unread=number % 11 == 0,
        resident=state < 2,
        worker_state="ready" if state < 2 else None,
        worker_pid=10_000 + number if state < 2 else None,
    )
    if state == 0:
        row = msgspec.structs.replace(
            row,
            turn="tools",
            tool_label=f"cargo test part-{number}",
            turn_started_at_ms=now - 9_000,
        )
    if kind == "armed":
        armed = Schedule(active=1, next_at_ms=now + 2 * _HOUR_MS)
        row = msgspec.structs.replace(row, heartbeats=armed, tree_heartbeats=armed)
    elif number % 500 == 7:
        waiting = Waiting(kind="permission", since_ms=now, text="rm -rf build")
        row = msgspec.structs.replace(row, waiting=waiting)
    return row


class RecordedDaemon:
    """Async context manager that gives the paths of its home. `received` holds every command."""

    def __init__(self, rows: Iterable[RosterRow], home: Path | None = None) -> None:
        self.rows = {row.session_id: row for row in rows}
        self.received: list[c.AnyCommand] = []
        self.answers: dict[type, AnyResult] = {}
        self._own = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix="av-"))
        self._codec: Codec[FromClient] = Codec(FromClient)
        self._links: list[FrameLink] = []
        self._sequence = 1
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Paths:
        paths = paths_for(self.home)
        make_private(paths.socket.parent)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, str(paths.socket))
        return paths

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.abort()
        await asyncio.sleep(0)
        if self._own:
            shutil.rmtree(self.home, ignore_errors=True)

    @property
    def listening(self) -> bool:
        """Whether somebody could connect now."""
        return self._server is not None and self._server.is_serving()

    def delta(self, *rows: RosterRow, removals: Iterable[str] = ()) -> None:
        """Rows that change or come now, and sessions that go."""
        self.rows.update((row.session_id, row) for row in rows)
        for key in removals:
            self.rows.pop(key, None)
        self._sequence += 1
        message = RosterDelta(
            sequence=self._sequence, upserts=tuple(rows), removals=tuple(removals)
        )
        for link in self._links:
            link.send(self._codec.encode(message))

    def _accept(self) -> FrameLink:
        link = FrameLink(
            lambda payload: self._frame(link, payload),
            lambda: self._links.remove(link) if link in self._links else None,
            self._garbage,
        )
        return link

    def _garbage(self, error: FrameError) -> None:
        raise AssertionError(f"the client sent garbage: {error}")

    def _frame(self, link: FrameLink, payload: bytes) -> None:
        message = self._codec.decode(payload)
        if isinstance(message, Hello):
            welcome = Welcome(protocol=PROTOCOL_VERSION, product="test", pid=1, generation="g1")
            link.send(self._codec.encode(welcome))
            return
        self.received.append(message.body)
        self._answer(link, message)

    def _answer(self, link: FrameLink, request: Request) -> None:
        usual: dict[type, AnyResult] = {
            c.Pending: PendingRequests(),
            c.AgentsList: AgentsFound(agents=(_AGENT,)),
        }
        kind = type(request.body)
        result = self.answers.get(kind) or usual.get(kind) or Done()
        link.send(self._codec.encode(Reply(request_id=request.request_id, result=result)))
        if isinstance(request.body, c.RosterSubscribe):
            for frame in self.snapshot():
                link.send(frame)
            self._links.append(link)

    def snapshot(self) -> list[bytes]:
        """The frames of a whole roster, as they go over the wire."""
        rows = tuple(self.rows.values())
        parts = range(0, len(rows), ROWS_PER_CHUNK)
        chunks = [RosterChunk(rows=rows[start : start + ROWS_PER_CHUNK]) for start in parts]
        begin = RosterBegin(generation="g1", rows=len(rows))
        end = RosterEnd(sequence=self._sequence)
        return [self._codec.encode(message) for message in (begin, *chunks, end)]


async def _changes(daemon: RecordedDaemon, rate: int) -> None:
    """`rate` changes a second that move no row, in batches, over all rows in turn."""
    keys, place = list(daemon.rows), 0
    each = max(1, int(rate * _BATCH_SECONDS))
    while True:
        await asyncio.sleep(each / rate)
        batch = []
        for _ in range(each):
            row = daemon.rows[keys[place % len(keys)]]
            place += 7
            count = row.message_count + 1
            label = f"step {count}"
            batch.append(msgspec.structs.replace(row, message_count=count, tool_label=label))
        daemon.delta(*batch)


async def _serve(home: Path, count: int, kind: str) -> None:
    daemon = RecordedDaemon(synthetic_rows(count, kind=kind), home)
    changing: asyncio.Task[None] | None = None
    async with daemon:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            if changing is not None:
                changing.cancel()
            rate = int(line.split()[1])
            changing = asyncio.create_task(_changes(daemon, rate)) if rate else None


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
