"""Our marks in ASCII, for terminals that cannot draw them (look.md 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len

from agents_view.board.ink import Piece

_TABLE: Final = str.maketrans("‹›▸▾✓✗◆◈●○◇♥◷·…↑↓−─│▌╭╮╰╯├└", "<>>v+XRRI-~HC-.^v--|>++++|`")


def in_ascii(pieces: Iterable[Piece]) -> list[Piece]:
    """The same cells; foreign text that is not ASCII becomes `?`, as wide."""
    found: list[Piece] = []
    for text, ink in pieces:
        shown = text if text.isascii() else text.translate(_TABLE)
        if not shown.isascii():
            shown = "".join(c if c.isascii() else "?" * cell_len(c) for c in shown)
        found.append((shown, ink))
    return found
