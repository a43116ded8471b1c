"""Pieces of styled text become strips of an exact width."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from agents_view.board.ink import TEXT, Ink, Piece
from agents_view.tui.theme import Palette


def strip_of(
    pieces: Iterable[Piece],
    width: int,
    palette: Palette,
    ground: str = "bg",
    *,
    quiet: bool = False,
) -> Strip:
    """One line of exactly `width` cells on `ground`; `quiet` is the colour of reference text
    made readable on a selection."""
    segments: list[Segment] = []
    length = 0
    for text, ink in pieces:
        if not text:
            continue
        shown = ink._replace(fg="muted") if quiet and ink.fg == "faint" else ink
        segments.append(Segment(text, palette.style(shown, ground)))
        length += cell_len(text)
    if length < width:
        segments.append(Segment(" " * (width - length), palette.style(TEXT, ground)))
        length = width
    strip = Strip(segments, length)
    return strip if length == width else strip.crop(0, width)


def blank(width: int, palette: Palette, ground: str = "bg") -> Strip:
    """An empty line."""
    return strip_of([(" " * width, Ink())], width, palette, ground)
