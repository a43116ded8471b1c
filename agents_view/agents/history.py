"""What a shell session has done, one JSON line per exchange, so that it can be loaded again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class Exchange(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One prompt and what came of it; without an answer it was cut off."""

    tool_id: str
    prompt: str
    output: str = ""
    status: str = "completed"
    answer: str = ""


def directory(environ: Mapping[str, str]) -> Path:
    """Where histories are kept: where we are told, else the user's state directory."""
    told = environ.get("AGENTS_VIEW_SHELL_HISTORY", "")
    if told:
        return Path(told)
    state = environ.get("XDG_STATE_HOME", "") or Path.home() / ".local" / "state"
    return Path(state) / "agents-view" / "shell"


class History:
    """The history of one session."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._path = folder / f"{session_id}.jsonl"

    def exists(self) -> bool:
        return self._path.is_file()

    def create(self) -> None:
        """Make the file, so that a session without a prompt can be loaded too."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def add(self, exchange: Exchange) -> None:
        """Append in one write: a kill leaves at most one torn line, which reading skips."""
        with self._path.open("ab", buffering=0) as file:
            file.write(b"\n" + msgspec.json.encode(exchange) + b"\n")

    def read(self) -> Iterator[Exchange]:
        """Every exchange, oldest first; a later line of the same tool id is its end."""
        last: dict[str, Exchange] = {}
        with self._path.open("rb") as file:
            for line in file:
                try:
                    exchange = msgspec.json.decode(line, type=Exchange)
                except msgspec.MsgspecError:
                    continue  # torn by a kill
                last[exchange.tool_id] = exchange
        yield from last.values()
