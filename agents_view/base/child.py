"""An agent process with its three pipes (A6, A7). How it is ended: `stopping`.

Its exit is seen through a pidfd: waiting for pipes to close would hang for ever behind a
grandchild that holds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from agents_view.base import processes, proctable
from agents_view.base.pipes import CHUNK, read_some
from agents_view.base.processes import Identity
from agents_view.base.stderr_log import StderrLog

__all__ = ["Child", "StderrLog", "start_child"]

_LAST_WORDS: Final = 0.5


class Child:
    """One agent process: group leader, three pipes, one end. Made by `start_child`.

    `exited` holds its exit code (negative: a signal) as soon as it is gone, whoever still holds
    its pipes.
    """

    def __init__(
        self,
        identity: Identity,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stdout_transport: asyncio.ReadTransport,
        stderr_fd: int,
        stderr: StderrLog,
    ) -> None:
        self.identity = identity
        self.stdout = stdout
        self.stderr = stderr
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._stdin = stdin
        self._stdout_transport = stdout_transport
        self._stderr_fd = stderr_fd
        self._watching = asyncio.create_task(self._watch(), name=f"exit-{identity.pid}")
        self._draining = asyncio.create_task(self._drain(), name=f"stderr-{identity.pid}")

    @property
    def pid(self) -> int:
        return self.identity.pid

    async def write(self, data: bytes) -> None:
        """Send to its standard input, waiting while it does not read. Raises `OSError`."""
        self._stdin.write(data)
        await self._stdin.drain()

    async def read(self) -> bytes:
        """The next chunk of its standard output (at most 64 KiB), empty at the end."""
        return await self.stdout.read(CHUNK)

    def close_stdin(self) -> None:
        """The polite way to ask it to leave."""
        self._stdin.close()

    async def wait(self, timeout: float | None) -> int | None:
        """Its exit code, None if it still runs after `timeout` seconds."""
        done, _ = await asyncio.wait((self.exited,), timeout=timeout)
        return self.exited.result() if done else None

    async def last_words(self) -> None:
        """Give an end that was noticed elsewhere half a second to show its code and its stderr."""
        await self.wait(_LAST_WORDS)
        await asyncio.wait((self._draining,), timeout=_LAST_WORDS)

    def tree(self) -> list[Identity]:
        """Everything below it now; nothing once it is gone, whoever has its pid by then."""
        if not processes.is_alive(self.identity):
            return []
        found = processes.descendants(self.pid)
        return found if processes.is_alive(self.identity) else []

    def background(self, tag: tuple[str, str]) -> list[Identity]:
        """What it started outside its process group and left running, orphans included (A15).

        Reads the whole process table: call it in a thread.
        """
        found = {*self.tree(), *processes.tagged(*tag)} - {self.identity}
        outside = [one for one in found if processes.group_of(one.pid) not in (self.pid, None)]
        return [one for one in outside if not processes.is_protected(one)]

    async def release(self) -> None:
        """Close every descriptor and end the helpers; the process is gone by now. Repeatable."""
        if self._stdin.transport.get_write_buffer_size():
            self._stdin.transport.abort()  # unsent input would keep the pipe open
        self._stdin.close()
        self._stdout_transport.close()
        for task in (self._watching, self._draining):
            task.cancel()
        await asyncio.gather(self._watching, self._draining, return_exceptions=True)
        if self._stderr_fd >= 0:
            os.close(self._stderr_fd)
            self._stderr_fd = -1
        await asyncio.sleep(0)  # the transports close their pipes in the next round

    async def _watch(self) -> None:
        code = await processes.wait_exit(self.identity)
        if code is not None and not self.exited.done():
            self.exited.set_result(code)

    async def _drain(self) -> None:
        """Read all it says on stderr, whatever we keep of it: a full pipe would block it."""
        while data := await read_some(self._stderr_fd):
            self.stderr.feed(data)
            await asyncio.to_thread(self.stderr.write, data)


async def start_child(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stderr: StderrLog
) -> Child:
    """Start an agent as leader of its own session. Raises `OSError` as the kernel says it.

    Cancelled or failed, it leaves no process behind.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(_popen, argv, cwd, env))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _discard(await starting)
        raise
    try:
        return await _connect(process, stderr)
    except BaseException:
        await _discard(process)
        raise


def _popen(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return processes.popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env)


async def _connect(process: subprocess.Popen[bytes], stderr: StderrLog) -> Child:
    assert process.stdin and process.stdout and process.stderr
    loop = asyncio.get_running_loop()
    identity = processes.identify_child(process.pid)
    reader = asyncio.StreamReader(limit=CHUNK * 4)
    stdout_transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    stdin_transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(), process.stdin
    )
    writer = asyncio.StreamWriter(stdin_transport, protocol, None, loop)
    fd = os.dup(process.stderr.fileno())
    process.stderr.close()
    os.set_blocking(fd, False)
    return Child(identity, writer, reader, stdout_transport, fd, stderr)


async def _discard(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody will get: it has run for a moment only."""
    identity = processes.identify_child(process.pid)
    below = proctable.below(proctable.read_table(), (process.pid,))
    processes.signal_group(identity, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    await processes.wait_exit(identity, _LAST_WORDS)
    await processes.end_all((one.identity for one in below), _LAST_WORDS)
