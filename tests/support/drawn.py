"""Blocks and sheets as plain lines, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

from agents_view.board.ink import Line
from agents_view.board.transcript.draw import draw, fold_of
from agents_view.board.transcript.frame import FoldState, Frame
from agents_view.board.transcript.prose import ProseLayout
from agents_view.board.transcript.sheet import Sheet
from daemon_client.blocks import (
    Block,
)
from daemon_client.protocol.transcript import (
    TranscriptEntry,
)
from tests.support.transcripts import NOW_MS

FRAME = Frame(width=120, now_ms=NOW_MS, tz=UTC)
HOSTILE = "a\x1b]0;pwned\x07b \x1b[31mred\x1b[0m \u202e[/bold] [@click=app.quit]x[/] \x00\x9b2J"


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def drawn(block: Block, fold: FoldState | None = None, frame: Frame = FRAME) -> list[str]:
    prose = ProseLayout(frame.room(frame.text))
    lines = draw(block, fold or fold_of(block), frame, prose).lines
    return [text_of(line).rstrip() for line in lines]


def sheet_of(entries: Iterable[TranscriptEntry], width: int = 120, height: int = 36) -> Sheet:
    sheet = Sheet()
    sheet.resize(width, height)
    sheet.tick(NOW_MS, UTC)
    sheet.feed(entries)
    sheet.settle()
    return sheet


def view(sheet: Sheet) -> list[str]:
    return [text_of(line.line).rstrip() for line in sheet.lines()]
