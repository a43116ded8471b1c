"""A widget of one line that draws pieces: header, key bar, information line."""

from __future__ import annotations

from collections.abc import Callable

from textual.strip import Strip
from textual.widget import Widget

from agents_view.board.ink import Piece
from agents_view.tui.strips import strip_of
from agents_view.tui.theme import Palette


class LineBar(Widget):
    """Draws what `pieces(width)` returns; redrawn only when that differs."""

    DEFAULT_CSS = "LineBar { height: 1; }"

    def __init__(
        self,
        pieces: Callable[[int], list[Piece]],
        palette: Callable[[], Palette],
        ground: str = "bar",
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._pieces = pieces
        self._palette = palette
        self._ground = ground
        self._drawn: list[Piece] | None = None

    def update(self) -> None:
        """Redraw if the content changed. Nothing while hidden: Textual would repaint the screen."""
        if self.is_mounted and self.display and self._pieces(self.size.width) != self._drawn:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        self._drawn = self._pieces(width)
        return strip_of(self._drawn, width, self._palette(), self._ground)
