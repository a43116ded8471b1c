"""What an agent says on stderr: the last lines in memory, a bounded log on disk (A6)."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Final

_LONGEST_LINE: Final = 4096


class StderrLog:
    """Keeps `tail` lines, and at most `limit` bytes in the file at `path` (0600), newest last.

    The file is one per session: several starts of its agent share it and its bound.
    """

    def __init__(self, path: Path | None, limit: int, tail: int) -> None:
        self._tail: deque[str] = deque(maxlen=tail)
        self._path = path
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Remember the last lines."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        self._tail.extend(
            _text(line) for line in whole[-(self._tail.maxlen or 1) :] if line.strip()
        )

    def lines(self) -> tuple[str, ...]:
        """The last lines, an unfinished one included."""
        rest = _text(self._rest).strip()
        return (*self._tail, rest) if rest else tuple(self._tail)

    def write(self, data: bytes) -> None:
        """Append to the file (blocking). One that cannot be written is given up, nothing else is:
        an agent must not stand still because our disk is full.
        """
        if self._path is None:
            return
        try:
            self._append(self._path, data)
        except OSError:
            self._path = None

    def _append(self, path: Path, data: bytes) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size + len(data) > self._limit:
                # make room for a while: the newer half stays
                file.seek(max(0, size - self._limit // 2))
                data = (file.read() + data)[-self._limit :]
                file.truncate(0)
            file.write(data)


def _text(line: bytes) -> str:
    return line[:_LONGEST_LINE].decode("utf-8", "replace")
