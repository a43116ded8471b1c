"""An agent's message as lines, laid out again only where it grew."""

from __future__ import annotations

from typing import Final

from agents_view.board.ink import EMPTY, TEXT, Line
from agents_view.board.transcript.markdown import code_lines, markdown_lines
from agents_view.board.transcript.segments import Segment, split_segments
from agents_view.board.transcript.wrap import fold_line
from daemon_client.text import clean_lines

PROSE_WIDTH: Final = 96
"""Longer lines are hard to read; code takes the full width (look.md 5)."""


class ProseLayout:
    """The lines of one message at one width; `update` is cheap when the text only grew."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._source = ""
        self._segments: list[Segment] = []
        self._ends: list[int] = []
        self._lines: list[Line] = []

    def update(self, source: str) -> tuple[Line, ...]:
        """All lines of the message."""
        if source != self._source:
            keep = len(self._segments) - 1 if source.startswith(self._source) else 0
            keep = max(0, keep)
            restart = self._segments[keep] if keep < len(self._segments) else None
            del self._segments[keep:], self._ends[keep:]
            del self._lines[self._ends[-1] if self._ends else 0 :]
            for segment in split_segments(source, restart if keep else None):
                self._append(segment)
            self._source = source
        return tuple(self._lines)

    def _append(self, segment: Segment) -> None:
        if segment.head and self._lines:
            self._lines.append(EMPTY)
        self._lines += _segment_lines(segment, self.width)
        self._segments.append(segment)
        self._ends.append(len(self._lines))


def _segment_lines(segment: Segment, width: int) -> list[Line]:
    text = clean_lines(segment.text)
    if segment.kind == "code":
        return code_lines(text, width)
    narrow = min(width, PROSE_WIDTH)
    if segment.kind == "prose":
        return list(markdown_lines(text.strip("\n"), narrow))
    return [((part, TEXT),) for row in text.split("\n") for part in fold_line(row, narrow)]
