"""A throw-away instance for a test: its own home, its own processes, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from daemon_client import DaemonClient, DaemonError, connect
from daemon_client.paths import paths_for
from daemon_client.roster import RosterRow

PYTHON = sys.executable


@contextmanager
def new_home() -> Iterator[Path]:
    """A short path (sockets are limited to 100 bytes); every process of it is gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="av-"))
    try:
        yield home
    finally:
        kill_all(home)
        shutil.rmtree(home, ignore_errors=True)


class Running(NamedTuple):
    """A process as it was when it was seen: it may be gone by now."""

    pid: int
    words: list[str]

    def cmdline(self) -> list[str]:
        return self.words


def processes_of(home: Path) -> list[Running]:
    """Every process that belongs to the instance: by its command line or its environment."""
    found = []
    mine = str(home)
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = process.cmdline()
            tags = process.environ()
            if any(mine in word for word in words[1:]) or mine in tags.get(
                "AGENTS_VIEW_SOCKET", ""
            ):
                found.append(Running(process.pid, words))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def supervisors_of(home: Path) -> list[int]:
    return _of_module(home, "agents_view.daemon.supervisor")


def workers_of(home: Path) -> list[int]:
    return _of_module(home, "agents_view.daemon.worker")


def _of_module(home: Path, module: str) -> list[int]:
    return [p.pid for p in processes_of(home) if module in p.cmdline()]


def kill_all(home: Path) -> None:
    """The end of a test: supervisors first, so that nothing is started again meanwhile."""
    for _ in range(50):
        found = processes_of(home)
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.02)
    raise AssertionError(f"processes left behind: {[p.cmdline() for p in processes_of(home)]}")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A cleaned environment with this home."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR")}
    return kept | {
        "HOME": str(home),
        "SHELL": "/bin/sh",
        "TERM": "xterm-256color",
        "AGENTS_VIEW_HOME": str(home),
        **more,
    }


def cli(
    home: Path, *words: str, stdin: str | None = None, timeout: float = 30.0, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the real command line."""
    return subprocess.run(
        [PYTHON, "-m", "agents_view.cli.main", *words],
        env=environment(home, **environ),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[DaemonClient]:
    """A client of a real daemon in `home`, started as a person's first command would."""
    async with connect(home) as client:
        await client.follow()
        yield client


async def until(
    client: DaemonClient,
    session_id: str,
    wanted: Callable[[RosterRow | None], bool],
    within: float = 15.0,
) -> RosterRow | None:
    """Wait for the row to satisfy `wanted`; the row then."""
    changed = asyncio.Event()
    unsubscribe = client.mirror.subscribe(lambda change: changed.set())
    try:
        async with asyncio.timeout(within):
            while not wanted(client.mirror.get(session_id)):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        raise AssertionError(f"never came: {client.mirror.get(session_id)}") from None
    finally:
        unsubscribe()
    return client.mirror.get(session_id)


async def stop(client: DaemonClient) -> None:
    """`daemon stop --force`; a daemon that is gone already is fine, and is not started for it."""
    if client.connection.state.reason == "the daemon was stopped":
        return
    try:
        await client.service.shutdown(force=True)
    except DaemonError:
        return


def wait_until(condition: Callable[[], bool], within: float = 15.0) -> None:
    """Poll the process table (it sends no events)."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("never came true")
        time.sleep(0.02)


async def eventually(condition: Callable[[], bool], within: float = 15.0) -> None:
    """The same without blocking the loop, for tests whose client has to go on working."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("never came true")
        await asyncio.sleep(0.02)


def database(home: Path) -> Path:
    return paths_for(home).database
