"""Light Markdown to styled lines: no HTML, no links to follow, no markup of ours (spec 03.2).

A small walk over the tokens of markdown-it; everything it does not know is shown as typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agents_view.board.ink import (
    FAINT,
    MUTED,
    RULE,
    TEXT,
    Ink,
    Line,
    Piece,
    cut_pieces,
    width_of,
)
from agents_view.board.transcript.wrap import fold_line, wrap

_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
    .enable("table")
    .disable(["html_block", "reference", "lheading"])
)
_CODE: Final = Ink(bg="field")
_BLOCK: Final = Ink(bg="panel")


@lru_cache(maxsize=512)
def markdown_lines(text: str, width: int) -> tuple[Line, ...]:
    """Cleaned Markdown as lines of at most `width` cells."""
    return tuple(_Walk(text, width).run())


def code_lines(text: str, width: int) -> list[Line]:
    """The inside of a fence on its own ground, as wide as there is room."""
    parts = (part for row in text.split("\n") for part in fold_line(row, width - 2))
    return [_filled([(" " + part, _BLOCK)], width) for part in parts]


def _filled(pieces: list[Piece], width: int) -> Line:
    used = width_of(pieces)
    return (*pieces, (" " * (width - used), _BLOCK)) if used < width else tuple(pieces)


class _List:
    """An open list: `number` is None for bullets."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def marker(self) -> str:
        if self.number is None:
            return "· "
        text = f"{self.number}. "
        self.number += 1
        return text


class _Walk:
    def __init__(self, text: str, width: int) -> None:
        self.rows = text.split("\n")
        self.tokens = _PARSER.parse(text)
        self.width = width
        self.lines: list[Line] = []
        self.lists: list[_List] = []
        self.indent: list[Piece] = []
        self.marker: Piece | None = None
        self.gap = False
        self.tight = False

    def run(self) -> list[Line]:
        position = 0
        while position < len(self.tokens):
            token = self.tokens[position]
            if token.type == "table_open":
                position = self._table(position)
            else:
                self._block(token)
            position += 1
        return self.lines

    def _block(self, token: Token) -> None:
        match token.type:
            case "inline":
                self._paragraph(token)
            case "heading_open":
                self.gap = bool(self.lines)
            case "paragraph_close":
                self.gap = not token.hidden
            case "heading_close":
                self._bold_last(token)
            case "bullet_list_open" | "ordered_list_open":
                self._open_list(token)
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
                self.gap = not self.lists
            case "list_item_open":
                self._open_item()
            case "list_item_close" | "blockquote_close":
                self._close_indent()
            case "blockquote_open":
                self._space()
                self.indent.append(("│ ", RULE))
            case "fence" | "code_block":
                self._code(token)
            case "hr":
                self._space()
                self._add([("─" * min(self.width, 24), RULE)])
                self.gap = True
            case _:
                pass

    # blocks

    def _paragraph(self, token: Token) -> None:
        self._space()
        pieces = _inline(token.children or [])
        for line in wrap(pieces, self._room()):
            self._add(line)

    def _bold_last(self, token: Token) -> None:
        self.lines[-1] = tuple((text, ink._replace(bold=True)) for text, ink in self.lines[-1])
        self.gap = False

    def _open_list(self, token: Token) -> None:
        start = token.attrs.get("start", 1)
        number = int(start) if token.type == "ordered_list_open" else None
        if self.lists:
            self.gap = False
        self.lists.append(_List(number))

    def _open_item(self) -> None:
        self._flush_marker()
        marker = self.lists[-1].marker()
        self._space()
        self.marker = (marker, FAINT)
        self.indent.append((" " * len(marker), TEXT))

    def _close_indent(self) -> None:
        self._flush_marker()
        self.indent.pop()
        if self.lists:
            self.gap = False

    def _code(self, token: Token) -> None:
        self._space()
        for line in code_lines(token.content.rstrip("\n"), self._room()):
            self._add(list(line))
        self.gap = True

    def _table(self, position: int) -> int:
        """As typed: it is made for equal widths, and wrapping would ruin it."""
        start, end = self.tokens[position].map or [0, 0]
        self._space()
        for row in self.rows[start:end]:
            for part in fold_line(row, self._room()):
                self._add([(part, TEXT)])
        self.gap = True
        while self.tokens[position].type != "table_close":
            position += 1
        return position

    # lines

    def _room(self) -> int:
        return max(8, self.width - sum(len(text) for text, _ in self.indent))

    def _space(self) -> None:
        if self.gap and self.lines and self.marker is None:
            self.lines.append(())
        self.gap = False

    def _add(self, pieces: Sequence[Piece]) -> None:
        prefix = list(self.indent)
        if self.marker is not None:
            prefix[-1] = self.marker
            self.marker = None
        self.lines.append(tuple(cut_pieces([*prefix, *pieces], self.width)))

    def _flush_marker(self) -> None:
        """An item without text still shows its mark."""
        if self.marker is not None:
            self._add([])


def _inline(tokens: Sequence[Token]) -> list[Piece]:
    pieces: list[Piece] = []
    ink = TEXT
    target = ""
    for token in tokens:
        match token.type:
            case "text":
                pieces.append((token.content, ink))
            case "softbreak" | "hardbreak":  # agents break lines where they mean it
                pieces.append(("\n", ink))
            case "code_inline":
                pieces.append((token.content, ink._replace(bg=_CODE.bg)))
            case "strong_open" | "strong_close":
                ink = ink._replace(bold=token.nesting > 0)
            case "em_open" | "em_close":
                ink = ink._replace(italic=token.nesting > 0)
            case "link_open":
                ink = ink._replace(underline=True)
                target = str(token.attrs.get("href", ""))
            case "link_close":
                ink = ink._replace(underline=False)
                pieces += _target(pieces, target)
            case _:
                pieces.append((token.content, ink))
    return pieces


def _target(pieces: list[Piece], target: str) -> list[Piece]:
    """Where a link leads, if its text does not say so: nobody can follow it here."""
    shown = pieces[-1][0] if pieces else ""
    return [] if not target or target == shown else [(f" ({target})", MUTED)]
