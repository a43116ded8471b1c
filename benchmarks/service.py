"""The real daemon, its workers and the command line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from agents_view.daemon.store import sessions
from agents_view.daemon.store.database import Database
from benchmarks.harness import Figure, Size, environment, megabytes, percentile, time_of
from daemon_client import DaemonClient, connect
from daemon_client.launch import answers, daemon_command
from daemon_client.paths import Paths, make_private, paths_for
from daemon_client.protocol import FromDaemon
from tests.support import homes
from tests.support.recorded_daemon import RecordedDaemon, synthetic_rows

_HEADER = 4
_BARE = "import asyncio, msgspec; print('ready', flush=True); asyncio.run(asyncio.sleep(600))"


def measure(size: Size) -> Iterator[Figure]:
    """All rows of 10.1 about the daemon that apply now."""
    with homes.new_home() as home:
        yield from asyncio.run(_big(home, size))
    with homes.new_home() as home:
        yield asyncio.run(_ls(home, size))
    with homes.new_home() as home, _bare() as bare:
        yield from asyncio.run(_working(home, size, bare))


@contextmanager
def _bare() -> Iterator[int]:
    """The pid of a process that has asyncio and msgspec and does nothing."""
    with subprocess.Popen([sys.executable, "-c", _BARE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.terminate()


async def fill(paths: Paths, count: int) -> None:
    """`count` sessions in the store, as a daemon would have left them."""
    make_private(paths.state_dir)
    rows = synthetic_rows(count)

    def insert(db: sessions.Transaction) -> None:
        for row in rows:
            sessions.create(db, _session(row, str(paths.state_dir)))

    db = Database(paths.database)
    await db.open(may_migrate=True)
    await db.write(insert)
    await db.close()


def _session(row, store: str) -> sessions.Session:
    return sessions.Session(
        session_id=row.session_id,
        agent=row.agent,
        cwd=row.cwd,
        store=store,
        root_id=row.root_id,
        parent_id=row.parent_id,
        depth=row.depth,
        created_at_ms=row.created_at_ms,
        last_activity_at_ms=row.last_activity_at_ms,
        name=row.name,
        first_message=row.first_message,
        message_count=row.message_count,
        model=row.model,
    )


def _start_daemon(home: Path, paths: Paths) -> subprocess.Popen[bytes]:
    command = daemon_command(paths)
    return subprocess.Popen(command, env=environment(home), stderr=subprocess.DEVNULL)


async def _boot(home: Path, paths: Paths) -> tuple[subprocess.Popen[bytes], float]:
    """Start a daemon; seconds until it answered a handshake."""
    start = time.monotonic()
    daemon = _start_daemon(home, paths)
    while not await answers(paths):
        assert daemon.poll() is None and time.monotonic() - start < 60
        await asyncio.sleep(0.005)
    return daemon, time.monotonic() - start


async def _big(home: Path, size: Size) -> list[Figure]:
    """Boot and snapshot with many passive sessions."""
    paths = paths_for(home)
    await fill(paths, size.rows)
    daemon, seconds = await _boot(home, paths)
    boot = Figure(
        name=f"boot with {size.rows} sessions",
        value=seconds * 1000,
        unit="ms",
        goal=1000,
        by_value=True,
    )
    took, rows = [], []
    for _ in range(size.starts):
        start = time.monotonic()
        async with connect(home, start=False) as client:
            await client.follow()
            took.append((time.monotonic() - start) * 1000)
            rows = list(client.mirror)
    daemon.terminate()
    with suppress(subprocess.TimeoutExpired):
        daemon.wait(10)
    snapshot = Figure(
        name=f"snapshot of {len(rows)} rows, connect to complete",
        value=percentile(took, 50),
        unit="ms",
        baseline=_decode_time(rows, size.starts),
        goal=4,
    )
    return [boot, snapshot]


def _decode_time(rows: list, runs: int) -> float:
    """Median milliseconds of decoding the frames of these rows, and nothing else."""
    frames = [frame[_HEADER:] for frame in RecordedDaemon(rows, Path("/")).snapshot()]
    decoder = msgspec.msgpack.Decoder(FromDaemon)
    took = []
    for _ in range(runs):
        start = time.monotonic()
        kept = [decoder.decode(frame) for frame in frames]
        took.append((time.monotonic() - start) * 1000)
        del kept
    return percentile(took, 50)


async def _ls(home: Path, size: Size) -> Figure:
    """The whole command, beside the interpreter that does nothing."""
    await fill(paths_for(home), size.few)
    async with connect(home) as client:
        ls = time_of([sys.executable, "-m", "agents_view", "ls", "--json"], home, size.starts)
        nothing = time_of([sys.executable, "-c", "pass"], home, size.starts)
        await client.service.shutdown(force=True)
    return Figure(
        name=f"ls --json, {size.few} sessions", value=ls, unit="ms", baseline=nothing, goal=12
    )


async def _working(home: Path, size: Size, bare: int) -> list[Figure]:
    """One session with the built-in agent: how fast its facts arrive, what its worker weighs."""
    async with homes.running(home) as client:
        row = await client.sessions.create("shell", str(home), environ=environment(home))
        late = [late async for late in _lateness(client, row.session_id, size.prompts)]
        (worker,) = homes.workers_of(home)
        weight = Figure(
            name="worker without its agent (PSS)",
            value=megabytes(worker, shared=False),
            unit="MB",
            baseline=megabytes(bare, shared=False),
            goal=2,
        )
        await client.service.shutdown(force=True)
    change = Figure(
        name="row change, worker to client, p99",
        value=percentile(late, 99),
        unit="ms",
        goal=100,
        by_value=True,
        note=f"p50 {percentile(late, 50):.0f} ms",
    )
    return [change, weight]


async def _lateness(client: DaemonClient, session_id: str, count: int) -> AsyncIterator[float]:
    """Milliseconds from the start of a turn by the worker's clock to the mirror that shows it."""
    begun: asyncio.Queue[float] = asyncio.Queue()
    last: list[int | None] = [None]

    def look(_: object) -> None:
        row = client.mirror.get(session_id)
        started = row.turn_started_at_ms if row else None
        if started is not None and started != last[0]:
            begun.put_nowait(time.time() * 1000 - started)
        last[0] = started

    unsubscribe = client.mirror.subscribe(look)
    for number in range(count):
        await client.conversation.prompt(session_id, f"sleep 0.{number % 7 + 11}")
        yield await asyncio.wait_for(begun.get(), 20)
        await homes.until(client, session_id, lambda r: r is not None and r.turn is None, 20)
    unsubscribe()
