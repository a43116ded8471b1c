"""The list of sessions: a ScrollView with the Line API, so that only what is visible is drawn.

The selection is a line's key (R40); the line under it stays where it is on the screen when others
come or go above.
"""

from __future__ import annotations

from typing import Self

from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agents_view.board.columns import columns_for
from agents_view.board.ink import FAINT, TEXT, Ink, Piece
from agents_view.board.model import BoardLine, BoardModel
from agents_view.board.paint import Glyphs, Painting, paint
from agents_view.board.transcript.ascii import in_ascii
from agents_view.tui.strips import blank, strip_of
from agents_view.tui.theme import Palette


class RosterList(ScrollView, can_focus=True):
    """Draws a `BoardModel`. Owns the selection and the scroll position, nothing else."""

    DEFAULT_CSS = """
    RosterList {
        width: 1fr; height: 1fr; overflow-x: hidden; overflow-y: auto;
        scrollbar-size-vertical: 1; background: $background;
    }
    """

    class Opened(Message):
        """The selected line was clicked twice."""

    class Moved(Message):
        """The selection is another one; `by_person` if somebody pressed a key for it."""

        def __init__(self, *, by_person: bool) -> None:
            super().__init__()
            self.by_person = by_person

    def __init__(self, model: BoardModel, palette: Palette, glyphs: Glyphs, home: str) -> None:
        self._drawn: dict[int, Strip] = {}
        """Lines of the widget as they are on the screen."""
        super().__init__()
        self.model = model
        self.palette = palette
        self.glyphs = glyphs
        self.pending: set[str] = set()
        self.selected = ""
        self._home = home
        self._now_ms = 0
        self._beat = False
        self._connected = True
        self._index = 0
        self._lines: list[BoardLine] = []
        """The lines as they were shown last: what moved is told from them."""
        self._below: tuple[list[BoardLine], int, int] | None = None
        self._cache: LRUCache[tuple[object, ...], Strip] = LRUCache(512)
        self._texts: dict[int, object] = {}
        self._pictures: dict[str, tuple[Piece, ...]] = {}
        """Pictures by a line's key, for as long as nothing they show has changed: scrolling."""

    # what it shows

    def tick(self, now_ms: int, *, beat: bool) -> None:
        """A second has passed: redraw the visible lines whose text is another one now."""
        self._now_ms, self._beat = now_ms, beat
        self._pictures.clear()
        top = self.scroll_offset.y
        for y in range(top, min(top + self.size.height, len(self.model.lines))):
            if not self._more(y) and self._texts.get(y) != self._picture(self.model.lines[y]):
                self.refresh_line(y)

    def set_connected(self, connected: bool) -> None:
        """Without a daemon the last rows stay, in grey."""
        if connected != self._connected:
            self._connected = connected
            self._pictures.clear()
            self.refresh()

    def set_look(self, palette: Palette, glyphs: Glyphs) -> None:
        """Another theme."""
        self.palette, self.glyphs = palette, glyphs
        self._cache.clear()
        self._pictures.clear()
        self.refresh()

    def set_pending(self, session_id: str, pending: bool) -> None:
        """A request about this session is under way."""
        (self.pending.add if pending else self.pending.discard)(session_id)
        self._pictures.clear()
        self._refresh_key(session_id)

    def rows_changed(self, session_ids: frozenset[str]) -> None:
        """Facts changed and no line moved: redraw those lines if they are visible."""
        self._pictures.clear()
        for session_id in session_ids:
            self._refresh_key(session_id)
            row = self.model.items.get(session_id)
            if row is not None:
                self._refresh_key(f"below:{session_id}")

    def lines_changed(self) -> bool:
        """Lines moved: keep the selection, and what a person looks at on its line of the screen.

        True if what is in view, or the selection, is another now.
        """
        before, self._lines = self._lines, self.model.lines
        seen, top = self._in_view(before), self.scroll_offset.y
        anchor = self._anchor(before, top)
        key = self.model.nearest(self.selected, before, self._index)
        moved = key != (self.selected or None)
        self.selected = key or ""
        self._index = self.model.position.get(self.selected, 0)
        self._resize_content()
        self._texts.clear()
        self._pictures.clear()
        self.refresh()
        if anchor is not None:
            line, offset = anchor
            self.scroll_to(y=line - offset, animate=False, force=True, immediate=True)
        if moved and self.selected:
            self.post_message(self.Moved(by_person=False))
        return moved or seen != self._in_view(self._lines)

    def _in_view(self, lines: list[BoardLine]) -> list[str]:
        top = self.scroll_offset.y
        return [line.key for line in lines[top : top + self.size.height]]

    def _anchor(self, before: list[BoardLine], top: int) -> tuple[int, int] | None:
        """A line that stays where it is: the selection if it is in view, else the topmost.

        Its new index, and its distance from the top of the screen.
        """
        view = range(top, min(top + self.size.height, len(before)))
        order = [self._index, *view] if self._index in view else [*view]
        for index in order:
            place = self.model.position.get(before[index].key)
            if place is not None:
                return place, index - top
        return None

    def _resize_content(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.model.lines))

    # selection

    @property
    def selected_line(self) -> BoardLine | None:
        """The selected line if it is still there."""
        index = self.model.position.get(self.selected)
        return None if index is None else self.model.lines[index]

    @property
    def selected_session(self) -> str:
        """The session it is about, empty if there is none."""
        line = self.selected_line
        return line.session_id if line else ""

    def select(self, key: str, *, by_person: bool = True) -> None:
        """Select a line by its key and bring it into view."""
        index = self.model.position.get(key)
        if index is None or not self.model.lines[index].selectable:
            return
        before, self.selected, self._index = self._index, key, index
        self.refresh_line(before)
        self.refresh_line(index)
        self._show(index)
        self.post_message(self.Moved(by_person=by_person))

    def move(self, steps: int) -> None:
        """Move over that many selectable lines; at the end it stays."""
        direction = 1 if steps > 0 else -1
        index, left = self._index, abs(steps)
        if not self.selected:
            index, left = (-1, 1) if direction > 0 else (len(self.model.lines), 1)
        target = None
        while left:
            index += direction
            if not 0 <= index < len(self.model.lines):
                break
            if self.model.lines[index].selectable:
                target, left = index, left - 1
        if target is not None:
            self.select(self.model.lines[target].key)

    def move_to_end(self, *, last: bool) -> None:
        lines = reversed(self.model.lines) if last else self.model.lines
        key = next((line.key for line in lines if line.selectable), None)
        if key is not None:
            self.select(key)

    def move_page(self, pages: float) -> None:
        self.move(int(pages * max(1, self.size.height - 1)) or (1 if pages > 0 else -1))

    def _show(self, index: int) -> None:
        """Into view, with the heading above a section's first row."""
        top = index
        while top > 0 and index - top < 2 and not self.model.lines[top - 1].selectable:
            top -= 1
        # one line more: the last one on the screen says how many follow
        below = 1 if index + 1 < len(self.model.lines) else 0
        region = Region(0, top, self.size.width, index - top + 1 + below)
        self.scroll_to_region(region, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The scroll bar is drawn only when it looks different: it costs as much as the list."""
        bar = self.vertical_scrollbar
        if self.show_vertical_scrollbar and self._thumb(bar.position) != self._thumb(new_value):
            bar.position = new_value
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _thumb(self, position: float) -> int:
        """Where the scroll bar's thumb begins, in the eighths of a cell it is drawn in."""
        height, lines = self.size.height, max(1, len(self.model.lines))
        room = height - max(1.0, height * height / lines)
        return int(8 * room * position / max(1, lines - height))

    # drawing

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Also forget the lines that are to be drawn again."""
        for region in regions:
            for y in region.line_range:
                self._drawn.pop(y, None)
        if not regions:
            self._drawn.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Straight from our lines: no rule of a style sheet draws into them, and asking them all
        for each line takes twice as long as the line."""
        filters, (left, right) = self.get_line_filters(), crop.column_span
        ground = self.background_colors[1]
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self._drawn.get(y)
            if strip is None:
                strip = self.render_line(y)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, ground)
                self._drawn[y] = strip
            strips.append(strip)
        if (left, right) != (0, self.size.width):
            return [strip.crop_extend(left, right, None) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        width = self.size.width
        if self.too_small:
            note = [("too small: 30 × 5", TEXT)] if y == 0 else []
            return strip_of(note, width, self.palette)
        if index >= len(self.model.lines):
            return blank(width, self.palette)
        if more := self._more(index):
            return strip_of(more, width, self.palette)
        line = self.model.lines[index]
        ground = self._ground(line)
        picture = self._picture(line)
        self._texts[index] = picture
        key = (picture, ground, width)
        strip = self._cache.get(key)
        if strip is None:
            strip = self._cache[key] = self._draw(line, ground, width)
        return strip

    def _more(self, index: int) -> list[Piece]:
        """`↓ 12 more` on the last line, in place of the first of them."""
        lines = self.model.lines
        last = self.scroll_offset.y + self.size.height - 1
        if index != last or index + 1 >= len(lines) or self.size.height < 2:
            return []
        if self._below is None or self._below[0] is not lines:
            self._below = (lines, len(lines), 0)
        _, known, count = self._below
        between = lines[min(known, index) : max(known, index)]
        sessions = sum(1 for line in between if line.kind == "session")
        self._below = (lines, index, count + (sessions if index < known else -sessions))
        arrow = "v" if self.glyphs.ascii else "↓"
        return [("   ", TEXT), (f"{arrow} {self._below[2]} more", FAINT)] if self._below[2] else []

    @property
    def too_small(self) -> bool:
        """Nothing sensible can be shown (spec 03.1)."""
        return self.app.size.width < 30 or self.app.size.height < 5

    def _ground(self, line: BoardLine) -> str:
        if line.key != self.selected:
            return "bg"
        return "sel" if self.has_focus else "selblur"

    def _picture(self, line: BoardLine) -> tuple[Piece, ...]:
        """Everything a line's picture shows: equal means there is nothing to redraw."""
        picture = self._pictures.get(line.key)
        if picture is None:
            pending = line.session_id in self.pending
            pieces = paint(line, self.model, self._painting(), pending=pending)
            picture = tuple(in_ascii(pieces) if self.glyphs.ascii else pieces)
            self._pictures[line.key] = picture
        return picture

    def _painting(self) -> Painting:
        width = self.size.width
        return Painting(
            width=width,
            columns=columns_for(width),
            now_ms=self._now_ms,
            glyphs=self.glyphs,
            mono=self.palette.mono,
            beat=self._beat,
            connected=self._connected,
            home=self._home,
        )

    def _draw(self, line: BoardLine, ground: str, width: int) -> Strip:
        pieces = list(self._picture(line))
        if ground != "bg" and pieces:
            bar = Ink("accent" if ground == "sel" else "faint")
            pieces = self._with_bar(pieces, bar)
        return strip_of(pieces, width, self.palette, ground, quiet=ground == "sel")

    def _with_bar(self, pieces: list[Piece], ink: Ink) -> list[Piece]:
        """The selection bar in the first cell."""
        first, style = pieces[0]
        mark = ">" if self.palette.mono else self.glyphs.selected
        return [(mark, ink), (first[1:], style), *pieces[1:]]

    def _refresh_key(self, key: str) -> None:
        index = self.model.position.get(key)
        top = self.scroll_offset.y
        if index is not None and top <= index < top + self.size.height:
            self.refresh_line(index)

    # events

    def on_resize(self, event: events.Resize) -> None:
        self._cache.clear()
        self._texts.clear()
        self._pictures.clear()
        self._resize_content()
        if self.selected:
            self.call_after_refresh(lambda: self._show(self._index))

    def on_focus(self) -> None:
        self.refresh_line(self._index)

    def on_blur(self) -> None:
        self.refresh_line(self._index)

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if not 0 <= index < len(self.model.lines):
            return
        line = self.model.lines[index]
        if line.selectable:
            self.select(line.key)
            if event.chain == 2:
                self.post_message(self.Opened())
