"""Break styled text into lines of a width, measured in cells."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len, chop_cells

from agents_view.board.transcript.ink import Ink, Piece

_WORDS: Final = re.compile(r" +|[^ ]+")


def wrap(pieces: list[Piece], width: int) -> list[list[Piece]]:
    """At word boundaries; a longer word is cut. A line break in a text ends the line."""
    width = max(1, width)
    lines: list[list[Piece]] = [[]]
    column = 0
    for text, ink in pieces:
        for number, row in enumerate(text.split("\n")):
            if number:
                lines.append([])
                column = 0
            column = _flow(row, ink, width, lines, column)
    return [_trimmed(line) for line in lines]


def _flow(row: str, ink: Ink, width: int, lines: list[list[Piece]], column: int) -> int:
    for match in _WORDS.finditer(row):
        word = match[0]
        cells = cell_len(word)
        if column + cells <= width:
            if column or word[0] != " " or len(lines) == 1:
                lines[-1].append((word, ink))
                column += cells
            continue
        if word[0] == " ":
            lines.append([])  # a blank at the edge is the line break
            column = 0
            continue
        if column and not _joins(lines[-1]):
            lines.append([])
            column = 0
        for part in chop_cells(word, width) if cells > width else [word]:
            if column + cell_len(part) > width:
                lines.append([])
                column = 0
            lines[-1].append((part, ink))
            column += cell_len(part)
    return column


def _joins(line: list[Piece]) -> bool:
    """Never: a word in two inks may break where the ink changes; kept as the one place to say so."""
    return False


def _trimmed(line: list[Piece]) -> list[Piece]:
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
