"""What a shell session has done, one JSON line per exchange, so that it can be loaded again."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

_OUTPUT: Final = 64 << 10
"""Characters kept of one command's output."""
_REPLAYED: Final = 4 << 20
"""Bytes of history that are read back: its end. Twice as much is cut down to this."""

_ID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")


class Exchange(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One prompt and what came of it; without an answer it was cut off."""

    tool_id: str
    prompt: str
    output: str = ""
    status: str = "completed"
    answer: str = ""
    exit_code: int | None = None

    @property
    def line(self) -> str:
        """The command line: the prompt without the mark that makes it ask first."""
        return self.prompt.strip().removeprefix("?").strip()


def directory(environ: Mapping[str, str]) -> Path:
    """Where histories are kept: where we are told, else the user's state directory."""
    told = environ.get("AGENTS_VIEW_SHELL_HISTORY", "")
    if told:
        return Path(told)
    state = environ.get("XDG_STATE_HOME", "") or Path.home() / ".local" / "state"
    return Path(state) / "agents-view" / "shell"


class History:
    """The history of one session. Raises `ValueError` for an id that is none of ours."""

    def __init__(self, folder: Path, session_id: str) -> None:
        if _ID.fullmatch(session_id) is None:
            raise ValueError(f"no session id: {session_id[:80]!r}")
        self._path = folder / f"{session_id}.jsonl"

    def exists(self) -> bool:
        return self._path.is_file()

    def create(self) -> None:
        """Make the file, so that a session without a prompt can be loaded too."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(self._open())

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)

    def add(self, exchange: Exchange) -> None:
        """Append in one write: a kill leaves at most one torn line, which reading skips."""
        if len(exchange.output) > _OUTPUT:
            kept = "…" + exchange.output[-_OUTPUT:]
            exchange = msgspec.structs.replace(exchange, output=kept)
        with os.fdopen(self._open(), "ab", buffering=0) as file:
            file.write(b"\n" + msgspec.json.encode(exchange) + b"\n")

    def read(self) -> Iterator[Exchange]:
        """The latest exchanges, oldest first; a later line of the same tool id is its end."""
        last: dict[str, Exchange] = {}
        for line in self._tail().split(b"\n"):
            try:
                exchange = msgspec.json.decode(line, type=Exchange)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # torn by a kill, or by where the tail begins
            last[exchange.tool_id] = exchange
        yield from last.values()

    def _tail(self) -> bytes:
        """The end of the file; one that grew too long becomes that end."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _REPLAYED))
            tail = file.read()
        if size > 2 * _REPLAYED:
            with contextlib.suppress(OSError):
                self._shorten(tail)
        return tail

    def _shorten(self, tail: bytes) -> None:
        shorter = self._path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(shorter, flags, 0o600), "wb") as file:
            file.write(tail)
        shorter.replace(self._path)
