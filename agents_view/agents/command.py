"""Run one command line in a process group of its own, and end all of it when asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Final

HEAD: Final = 256 << 10
TAIL: Final = 768 << 10
"""Bytes kept of the output: its beginning and its end."""

_CHUNK: Final = 1 << 16
_PATIENCE: Final = 2.0
_PIPE_GRACE: Final = 0.3


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
        if len(self._tail) > TAIL + _CHUNK:
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
    """One command line under way."""

    def __init__(self, line: str, cwd: str, shell: str) -> None:
        self.output = Output()
        self._process = subprocess.Popen(
            [shell, "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
        self.cancelled = False

    async def run(self, on_output: Callable[[], None]) -> int:
        """Read until it ends; its exit code, negative for a signal."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        os.set_blocking(fd, False)
        reading = asyncio.create_task(self._read(fd, on_output), name="command-output")
        try:
            code = await asyncio.to_thread(self._process.wait)
            # something it left in the background may hold the pipe: take what is there, then go
            await asyncio.wait((reading,), timeout=_PIPE_GRACE)
            return code
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._process.stdout.close()

    async def _read(self, fd: int, on_output: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(fd, ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                with contextlib.suppress(BlockingIOError):
                    data = os.read(fd, _CHUNK)
                    if not data:
                        return
                    self.output.feed(data)
                    on_output()
        finally:
            loop.remove_reader(fd)

    async def cancel(self) -> None:
        """End the whole process group: TERM, then KILL."""
        self.cancelled = True
        self._signal(signal.SIGTERM)
        for _ in range(int(_PATIENCE / 0.05)):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(0.05)
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """End it now; for the way out."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
