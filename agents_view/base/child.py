"""An agent process with its pipes, and how it is ended so that nothing of it stays (A7, A15).

Its exit is seen through a pidfd: waiting for pipes to close would hang for ever behind a
grandchild that holds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from agents_view.base import processes
from agents_view.base.processes import Identity

_CHUNK: Final = 1 << 16
_EXIT_GRACE: Final = 0.2


class StopReport(msgspec.Struct, kw_only=True, frozen=True):
    """How a stop went: the leader's exit code, what had to be swept, and whether all is gone."""

    exit_code: int | None
    swept: tuple[Identity, ...] = ()
    complete: bool = True


class StderrLog:
    """Keeps the last lines in memory and a bounded log on disk; never lets the agent block."""

    def __init__(self, path: Path | None, limit: int, tail: int) -> None:
        self.tail: deque[str] = deque(maxlen=tail)
        self._path = path
        self._left = limit
        self._rest = b""

    def feed(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()[-4096:]
        self.tail.extend(line.decode("utf-8", "replace")[:4096] for line in lines if line.strip())

    def writable(self, data: bytes) -> bytes:
        """The part that still fits into the log."""
        part = data[: self._left]
        self._left -= len(part)
        return part

    @property
    def path(self) -> Path | None:
        return self._path

    def lines(self) -> tuple[str, ...]:
        """The last lines, an unfinished one included."""
        rest = self._rest.decode("utf-8", "replace").strip()
        return (*self.tail, rest) if rest else tuple(self.tail)


class Child:
    """One agent process: group leader, three pipes, one end. Made by `start_child`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        identity: Identity,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        close_reader: Callable[[], None],
        stderr: StderrLog,
    ) -> None:
        self.identity = identity
        self.stderr = stderr
        self.stdout = stdout
        self._process = process
        self._stdin = stdin
        self._close_reader = close_reader
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int:
        return self.identity.pid

    async def write(self, data: bytes) -> None:
        """Send to its standard input, waiting while it does not read. Raises `OSError`."""
        self._stdin.write(data)
        await self._stdin.drain()

    async def read(self) -> bytes:
        """The next chunk of its standard output, empty at the end."""
        return await self.stdout.read(_CHUNK)

    def close_stdin(self) -> None:
        """The polite way to ask it to leave."""
        self._stdin.close()

    async def wait(self, timeout: float | None) -> int | None:
        """Its exit code, None if it still runs after `timeout` seconds."""
        done, _ = await asyncio.wait((self.exited,), timeout=timeout)
        return self.exited.result() if done else None

    def tree(self) -> list[Identity]:
        """Everything below it now."""
        return processes.descendants(self.pid)

    def background(self, tag: tuple[str, str]) -> list[Identity]:
        """What it started outside its process group and left running, orphans included (A15).

        Reads the whole process table: call it in a thread.
        """
        found = {*self.tree(), *processes.tagged(*tag)} - {self.identity}
        return [one for one in found if processes.group_of(one.pid) != self.pid]

    async def release(self) -> None:
        """Close every descriptor and end the helpers; the process is gone by now."""
        self._stdin.close()
        self._close_reader()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self._process.stderr is not None:
            self._process.stderr.close()


async def start_child(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stderr: StderrLog,
) -> Child:
    """Start an agent as leader of its own session. Raises `OSError` as the kernel says it."""
    process = await asyncio.to_thread(_popen, argv, cwd, env)
    assert process.stdin and process.stdout and process.stderr
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK * 4)
    read_transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    write_transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(), process.stdin
    )
    writer = asyncio.StreamWriter(write_transport, protocol, None, loop)
    identity = processes.identify(process.pid)
    if identity is None:
        # it ended at once and is a zombie until we reap it, so the pid is still its own
        identity = Identity(pid=process.pid, start=-1, boot_id=processes.kernel_boot_id())
    child = Child(process, identity, writer, reader, read_transport.close, stderr)
    errors = process.stderr
    child.tasks.append(asyncio.create_task(_watch_exit(child), name=f"exit-{child.pid}"))
    child.tasks.append(
        asyncio.create_task(_drain_stderr(errors.fileno(), stderr), name=f"stderr-{child.pid}")
    )
    process.returncode = 0  # reaped by `_watch_exit`, by pid
    return child


def _popen(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
        bufsize=0,
    )
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    return process


async def _watch_exit(child: Child) -> None:
    code = await processes.wait_exit(child.identity)
    if code is not None and not child.exited.done():
        child.exited.set_result(code)


async def _drain_stderr(fd: int, log: StderrLog) -> None:
    """Read all the agent says on stderr, whatever we keep of it: a full pipe would block it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            log.feed(data)
            part = log.writable(data)
            if part and log.path is not None:
                await asyncio.to_thread(_append, log.path, part)
            ready.set()
            await asyncio.sleep(0)
    finally:
        loop.remove_reader(fd)


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with contextlib.closing(os.fdopen(fd, "ab")) as file:
        file.write(data)


async def stop_child(child: Child, step: float, tag: tuple[str, str] | None = None) -> StopReport:
    """End an agent with all it started (A15): end of input, TERM, KILL, then the sweep.

    Each step waits at most `step` seconds. The descendant tree is recorded before each of them,
    since real agents run their tools in sessions of their own; what carries `tag` in its
    environment is found even if it was orphaned.
    """
    seen: set[Identity] = set(child.tree())
    child.close_stdin()
    code = await child.wait(step)
    for number in (signal.SIGTERM, signal.SIGKILL):
        seen.update(child.tree())
        if code is not None and not _alive_in_group(child.pid, seen):
            break
        processes.signal_group(child.identity, number)
        code = await child.wait(step)
    seen.update(processes.tagged(*tag) if tag else ())
    left = [one for one in seen if one.pid != child.pid and processes.is_alive(one)]
    await processes.end_all(left, _EXIT_GRACE if not left else step)
    for one in seen:
        processes.reap(one.pid)  # orphans became our children
    await child.release()
    complete = code is not None and not any(processes.is_alive(one) for one in seen)
    return StopReport(exit_code=code, swept=tuple(left), complete=complete)


def _alive_in_group(group: int, seen: set[Identity]) -> bool:
    return any(processes.group_of(one.pid) == group for one in seen)
