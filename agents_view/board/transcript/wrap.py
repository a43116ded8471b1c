"""Break styled text into lines of a width, measured in cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, chop_cells

from agents_view.board.ink import Piece

_PARTS: Final = re.compile(r" +|\n|[^ \n]+")


def wrap(pieces: list[Piece], width: int) -> list[list[Piece]]:
    """At word boundaries; a longer word is cut. A line break in a text ends the line."""
    width = max(1, width)
    lines: list[list[Piece]] = [[]]
    column = 0
    for word in _words(pieces):
        blank = word[0][0]
        cells = sum(cell_len(text) for text, _ in word)
        if blank == "\n" or (blank.isspace() and column + cells > width):
            lines.append([])  # a blank at the edge is the line break
            column = 0
        elif column + cells <= width:
            lines[-1] += word
            column += cells
        else:
            if column:
                lines.append([])
            column = _overlong(word, width, lines) if cells > width else _put(word, cells, lines)
    return [_joined(line) for line in lines]


def _put(word: list[Piece], cells: int, lines: list[list[Piece]]) -> int:
    lines[-1] += word
    return cells


def _overlong(word: list[Piece], width: int, lines: list[list[Piece]]) -> int:
    """A word longer than a line, cut wherever the line ends; the column after it."""
    column = 0
    for text, ink in word:
        rest = text
        while rest:
            room = chop_cells(rest, width - column)[0] if column < width else ""
            if room and column + cell_len(room) <= width:
                lines[-1].append((room, ink))
                column += cell_len(room)
                rest = rest[len(room) :]
            elif column:
                lines.append([])
                column = 0
            else:  # a glyph wider than the line
                return width
    return column


def _words(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Words as pieces (a word may change its ink), runs of blanks, and line breaks."""
    word: list[Piece] = []
    for text, ink in pieces:
        for match in _PARTS.finditer(text):
            part = match[0]
            if part[0] in " \n":
                if word:
                    yield word
                word = []
                yield [(part, ink)]
            else:
                word.append((part, ink))
    if word:
        yield word


def _joined(line: list[Piece]) -> list[Piece]:
    """Adjacent pieces of one ink joined, blanks at the end gone."""
    joined: list[Piece] = []
    for text, ink in line:
        if joined and joined[-1][1] == ink:
            joined[-1] = (joined[-1][0] + text, ink)
        else:
            joined.append((text, ink))
    if joined and not joined[-1][1].bg:
        text, ink = joined[-1]
        joined[-1] = (text.rstrip(" "), ink)
    return [piece for piece in joined if piece[0]]


def fold_line(text: str, width: int) -> list[str]:
    """Break a line of output where the width ends; blanks stay."""
    width = max(1, width)
    if text.isascii():
        if len(text) <= width:
            return [text]
        return [text[start : start + width] for start in range(0, len(text), width)]
    return chop_cells(text, width) if cell_len(text) > width else [text]
