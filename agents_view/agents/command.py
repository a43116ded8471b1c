"""Run one command line in a process group of its own, and end all of it when asked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Final

from agents_view.base import processes, proctable
from agents_view.base.pipes import CHUNK, read_some
from agents_view.base.processes import Identity

HEAD: Final = 256 << 10
TAIL: Final = 768 << 10
"""Bytes kept of the output: its beginning and its end."""

PATIENCE: Final = 2.0
"""Seconds between TERM and KILL."""

_PIPE_MOST: Final = 1 << 20
"""A pipe never holds more, so this much is what the command itself has written."""


class Output:
    """A command's output, bounded: what lies between head and tail is counted, not kept."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> None:
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > TAIL + CHUNK:
            over = len(self._tail) - TAIL
            self._cut += over
            del self._tail[:over]

    def text(self) -> str:
        """Everything kept, with a line where something is missing."""
        middle = f"\n… {self._cut} bytes left out …\n".encode() if self._cut else b""
        return bytes(self._head + middle + self._tail).decode("utf-8", "replace")

    def tail(self, size: int) -> str:
        """At most the last `size` bytes."""
        return bytes((self._head + self._tail)[-size:]).decode("utf-8", "replace")


class Command:
    """One command line under way. Raises `OSError` if it cannot be started."""

    def __init__(self, line: str, cwd: str, shell: str) -> None:
        self.output = Output()
        process = processes.popen(
            [shell, "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=os.environ,
        )
        assert process.stdout is not None
        self._identity = processes.identify_child(process.pid)
        self._fd = os.dup(process.stdout.fileno())
        process.stdout.close()
        os.set_blocking(self._fd, False)

    async def run(self, on_output: Callable[[], None]) -> int:
        """Read until it ends; its exit code, negative for a signal."""
        reading = asyncio.create_task(self._read(on_output), name="command-output")
        try:
            code = await processes.wait_exit(self._identity)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._leave_pipe()
        return processes.UNKNOWN_EXIT if code is None else code

    async def _read(self, on_output: Callable[[], None]) -> None:
        while data := await read_some(self._fd):
            self.output.feed(data)
            on_output()

    def _leave_pipe(self) -> None:
        """Take what the command left in the pipe; what it started may hold that, and live on."""
        taken = 0
        while taken < _PIPE_MOST:
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                break
            if not data:
                os.close(self._fd)
                return
            taken += len(data)
            self.output.feed(data)
        _discard_output(self._fd)

    async def cancel(self, patience: float = PATIENCE) -> None:
        """End the whole process group: TERM, then KILL; returns when it is gone."""
        members = _group(self._identity)
        processes.signal_group(self._identity, signal.SIGTERM)
        await asyncio.gather(*(processes.wait_exit(one, patience) for one in members))
        members = list(dict.fromkeys((*members, *_group(self._identity))))
        for one in members:
            processes.signal(one, signal.SIGKILL)
        await asyncio.gather(*(processes.wait_exit(one, patience) for one in members))


def _group(leader: Identity) -> list[Identity]:
    """Who is in the group, as long as its leader says that it is the one we started."""
    if not processes.is_alive(leader):
        return []
    table = proctable.read_table().values()
    return [one.identity for one in table if one.group == leader.pid and not one.zombie]


def _discard_output(fd: int) -> None:
    """Read on for a background process: a closed pipe would end it at its next word."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(fd)
            os.close(fd)

    loop.add_reader(fd, read)
