"""Styled text without a theme: pieces carry the look's token names (look.md 1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from unicodedata import combining

from rich.cells import cell_len, set_cell_size


class Ink(NamedTuple):
    """Token names of the look, and attributes. An empty `bg` is the page."""

    fg: str = "text"
    bg: str = ""
    bold: bool = False
    italic: bool = False
    underline: bool = False

    def on(self, bg: str) -> Ink:
        """The same on another ground, unless it has its own."""
        return self if self.bg else self._replace(bg=bg)


Piece = tuple[str, Ink]
Line = tuple[Piece, ...]
"""One screen line from column 0; what is missing at its end is page."""

TEXT: Final = Ink()
MUTED: Final = Ink("muted")
FAINT: Final = Ink("faint")
BOLD: Final = Ink(bold=True)
KEY: Final = Ink("accent", bold=True)
RULE: Final = Ink("line")

EMPTY: Final[Line] = ()

_ZWJ: Final = "\u200d"
_MODIFIERS: Final = "\ufe0e\ufe0f" + "".join(map(chr, range(0x1F3FB, 0x1F400)))
"""What changes the character before it: variation selectors, skin tones."""
_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them are one flag."""


def width_of(pieces: Iterable[Piece]) -> int:
    """Width in cells."""
    return sum(cell_len(text) for text, _ in pieces)


def cut(text: str, width: int) -> str:
    """At most `width` cells, `…` at the end if something is missing."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    kept = set_cell_size(text, width - 1).rstrip()
    return _whole(kept, text[len(kept) :]) + "…"


def _whole(kept: str, rest: str) -> str:
    """Without the beginning of a cluster that was cut: terminals do not agree on its width."""
    while kept and rest and _joined(kept, rest[0]):
        kept, rest = kept[:-1], kept[-1] + rest
    return kept


def _joined(kept: str, following: str) -> bool:
    if _ZWJ in (kept[-1], following) or following in _MODIFIERS or combining(following):
        return True
    pairs = len(kept) - len(kept.rstrip(_FLAG_LETTERS))
    return following in _FLAG_LETTERS and pairs % 2 == 1


def cut_pieces(pieces: Iterable[Piece], width: int) -> list[Piece]:
    """The same for pieces."""
    kept: list[Piece] = []
    for text, ink in pieces:
        cells = cell_len(text)
        if cells > width:
            if width > 0:
                kept.append((cut(text, width), ink))
            break
        kept.append((text, ink))
        width -= cells
    return kept


def spread(left: list[Piece], right: list[Piece], width: int, fill: Ink = TEXT) -> list[Piece]:
    """`left` cut to fit, `right` at the right edge; `right` goes first when there is no room."""
    taken = width_of(right)
    if taken + 2 > width:
        right, taken = [], 0
    left = cut_pieces(left, width - taken - 2 if right else width)
    gap = width - taken - width_of(left)
    return [*left, (" " * gap, fill), *right] if gap > 0 else [*left, *right]
