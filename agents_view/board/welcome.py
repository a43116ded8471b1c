"""What an empty board teaches (look 11); gone with the first session. Pure."""

from __future__ import annotations

from typing import Final

from agents_view.board.ink import KEY, MUTED, TEXT, Ink, Piece
from daemon_client.status import Section

MEANING: Final[dict[Section, str]] = {
    "running": "At work: a turn, a tool, a subagent. A heartbeat alone never puts one here.",
    "idle": "Ready: waits for you.",
    "inactive": "Asleep or finished. Nothing is lost; a prompt brings it back.",
}

_FIRST: Final = 20
_COMMAND: Final = ' agents-view new --agent shell "make test" '


def lesson(agents: tuple[str, ...]) -> list[list[Piece]]:
    """The lines below the sections; `agents` are the installed ones besides `shell`."""
    others = f"{_and(agents)} installed; " if agents else ""
    return [
        [("No agents", Ink(bold=True))],
        [],
        [("Start", Ink(bold=True))],
        _key("n", "new session", f"{others}shell is built in, no key needed"),
        [("   ", TEXT), (f"{'or in a terminal':<{_FIRST}}", TEXT), (_COMMAND, Ink(bg="field"))],
        [],
        [("Then", Ink(bold=True))],
        _key("!", "answer what waits", "a permission an agent asks for"),
        _key("q", "leave", "sessions go on without the dashboard"),
    ]


def _key(key: str, what: str, note: str) -> list[Piece]:
    return [(f"{key}  ", KEY), (f"{what:<{_FIRST}}", TEXT), (note, MUTED)]


def _and(names: tuple[str, ...]) -> str:
    """`claude is`, `claude and codex are`, `claude, codex and qwen are`."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
