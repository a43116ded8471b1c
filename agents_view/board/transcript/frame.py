"""Where a transcript is drawn, and the words and columns all its blocks share (look 06)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Final, Literal

import msgspec

from agents_view.board.ink import FAINT, KEY, MUTED, TEXT, Ink, Line, Piece, spread

FoldState = Literal["folded", "open", "all"]
"""`open` shows an excerpt where there is much, `all` everything."""

TAIL: Final = 8
"""Lines of output an open tool shows."""
EXCERPT: Final = 40
"""Lines of a diff or a prompt that are shown before somebody asks for all."""


class Frame(msgspec.Struct, kw_only=True, frozen=True):
    """`now_ms` counts what still runs; `tz` None is local time."""

    width: int
    now_ms: int = 0
    tz: tzinfo | None = None

    @property
    def edge(self) -> int:
        """Column of the mark that tells the kind; also the right margin."""
        return 3 if self.width >= 60 else 1

    @property
    def text(self) -> int:
        """Column where text begins."""
        return self.edge + 2

    @property
    def body(self) -> int:
        """Column of what a tool printed."""
        return self.edge + 4

    def room(self, column: int) -> int:
        """Cells from a column to the right margin."""
        return max(8, self.width - column - self.edge)

    def clock(self, at_ms: int) -> str:
        """`14:05`, with the day if that was not today."""
        when = datetime.fromtimestamp(at_ms / 1000, self.tz)
        today = datetime.fromtimestamp(self.now_ms / 1000, self.tz)
        if when.date() == today.date():
            return when.strftime("%H:%M")
        if abs((today - when).days) < 6:
            return when.strftime("%a %H:%M")
        return when.strftime("%Y-%m-%d %H:%M")


class Drawn(msgspec.Struct, kw_only=True, frozen=True):
    """A block on screen. `live`: its head counts time. `hidden`: `o` shows more."""

    lines: tuple[Line, ...] = ()
    live: bool = False
    hidden: bool = False


def at(column: int, pieces: list[Piece]) -> Line:
    """Pieces from a column on."""
    return ((" " * column, TEXT), *pieces)


def head_line(frame: Frame, mark: Piece, left: list[Piece], right: list[Piece]) -> Line:
    """The first line of a block: mark, text, and something at the right margin."""
    filled = spread(left, right, frame.room(frame.text))
    return at(frame.edge, [mark, (" ", TEXT), *filled])


def more_line(frame: Frame, count: int, arrow: str) -> Line:
    """`↑ 18 lines  o all`: what an excerpt leaves out, and how to see it."""
    plural = "" if count == 1 else "s"
    words: list[Piece] = [(f"{arrow} {count} line{plural}  ", FAINT), ("o", KEY), (" all", MUTED)]
    return at(frame.body, words)


def plain_lines(
    text: str, column: int, ink: Ink, wrap: Callable[[str, int], list[str]], frame: Frame
) -> list[Line]:
    """Lines of foreign, cleaned text from a column to the right margin."""
    room = frame.room(column)
    return [at(column, [(part, ink)]) for row in text.split("\n") for part in wrap(row, room)]
