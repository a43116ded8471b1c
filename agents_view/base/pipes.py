"""Read a pipe on the loop without giving it away: whoever opened it closes it."""

from __future__ import annotations

import asyncio
import os

CHUNK = 1 << 16


async def read_some(fd: int, size: int = CHUNK) -> bytes:
    """The next bytes of a non-blocking descriptor, empty at the end (or when it cannot be read)."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(fd, size)
        except BlockingIOError:
            pass
        except OSError:
            return b""
        ready = asyncio.Event()
        loop.add_reader(fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(fd)
