"""The transcript on screen: draws the lines of a `Sheet` that are in view, and nothing else.

The sheet is the truth about scrolling (it must keep the line at the top in place while estimated
heights are put right), so this is a plain widget with the Line API and no scrollbar.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual import events
from textual.cache import LRUCache
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from agents_view.board.ink import FAINT, Ink, Line, Piece
from agents_view.board.transcript.ascii import in_ascii
from agents_view.board.transcript.sheet import Sheet, SheetLine
from agents_view.tui.actions import bindings_for
from agents_view.tui.strips import blank, strip_of
from agents_view.tui.theme import Palette
from daemon_client.protocol.transcript import TranscriptEntry

FRAME: Final = 0.05
"""Entries are taken together this often, so that a fast stream cannot block the keys."""
_WHEEL: Final = 3


class TranscriptView(Widget, can_focus=True):
    """Draws a `Sheet`; owns when it changes."""

    DEFAULT_CSS = "TranscriptView { width: 100%; height: 1fr; background: $background; }"
    BINDINGS = bindings_for("transcript")

    class Changed(Message):
        """The view stands elsewhere, or there is more of it."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TranscriptView.Changed)

    class OlderWanted(Message):
        """The beginning of what is known is in view."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TranscriptView.OlderWanted)

    def __init__(self, palette: Palette, now_ms: int, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.sheet = Sheet()
        self.sheet.tick(now_ms)
        self._palette = palette
        self._ascii = ascii_only
        self._lines: list[SheetLine] = []
        self._pending: list[TranscriptEntry] = []
        self._flush: Timer | None = None
        self._strips: LRUCache[tuple[Line, bool], Strip] = LRUCache(1024)
        self.placeholder = ""

    # what it shows

    def feed(self, entries: Iterable[TranscriptEntry], *, now: bool = False) -> None:
        """Take entries into the next frame, or at once."""
        self._pending += entries
        if now:
            self._take()
        elif self._flush is None and self._pending:
            self._flush = self.set_timer(FRAME, self._take)

    def restart(self) -> None:
        """Forget everything: what comes next is not joined to it."""
        frame, height = self.sheet.frame, self.sheet.height
        self.sheet = Sheet()
        self.sheet.resize(frame.width, height)
        self.sheet.tick(frame.now_ms)
        self._pending.clear()

    @property
    def last_seq(self) -> int:
        """The newest entry known."""
        waiting = self._pending[-1].seq if self._pending else 0
        return max(waiting, self.sheet.folder.last_seq)

    def tick(self, now_ms: int) -> None:
        """A second has passed: what counts time in view is drawn anew."""
        if self.sheet.tick(now_ms):
            self._show()

    def set_look(self, palette: Palette, *, ascii_only: bool) -> None:
        """Another theme."""
        self._palette, self._ascii = palette, ascii_only
        self._strips.clear()
        self.refresh()

    def _take(self) -> None:
        if self._flush is not None:
            self._flush.stop()
        self._flush = None
        entries, self._pending = self._pending, []
        if self.sheet.feed(entries):
            self._show()

    def _show(self) -> None:
        """Draw the view anew, and tell where it stands."""
        if not self.size.height:
            return
        self.sheet.settle()
        self._lines = self.sheet.lines()
        self.refresh()
        self.post_message(self.Changed())
        if self.sheet.at_start and not (self.sheet.following and self.sheet.top):
            self.post_message(self.OlderWanted())

    # moving; called by the screen's actions

    def scroll_lines(self, lines: int) -> None:
        """Down, or up if negative."""
        self.sheet.scroll(lines)
        self._show()

    def scroll_pages(self, pages: float) -> None:
        """By the height of the view, with two lines in common."""
        self.scroll_lines(int(pages * max(1, self.size.height - 2)))

    def move_cursor(self, step: int) -> None:
        """To the next block, or the one before."""
        self.sheet.move_cursor(step)
        self._show()

    def to_start(self) -> None:
        self.sheet.to_start()
        self._show()

    def to_end(self) -> None:
        self.sheet.to_end()
        self._show()

    def toggle(self) -> bool:
        """Fold or open the block at the cursor; False if there is nothing to fold."""
        key = self.sheet.current()
        done = key is not None and self.sheet.toggle(key)
        self._show()
        return done

    def fold_all(self) -> None:
        self.sheet.fold_all()
        self._show()

    # drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if not self._lines and self.placeholder and y == 1:
            words: list[Piece] = [(" " * self.sheet.frame.text, FAINT), (self.placeholder, FAINT)]
            return strip_of(words, width, self._palette)
        if y >= len(self._lines):
            return blank(width, self._palette)
        row = self._lines[y]
        marked = self.has_focus and row.key != 0 and row.key == self.sheet.current()
        key = (row.line, marked)
        strip = self._strips.get(key)
        if strip is None or strip.cell_length != width:
            strip = self._strips[key] = self._draw(row.line, width, marked=marked)
        return strip

    def _draw(self, line: Line, width: int, *, marked: bool) -> Strip:
        pieces = list(line)
        if self._palette.reverse_selection:
            # without grounds of our own, only the selection may be reversed (look.md 1)
            pieces = [(text, ink._replace(bg="")) for text, ink in pieces]
        if marked:
            first, ink = pieces[0] if pieces else (" ", Ink())
            pieces = [("▌", Ink("accent")), (first[1:], ink), *pieces[1:]]
        return strip_of(in_ascii(pieces) if self._ascii else pieces, width, self._palette)

    # events

    def on_resize(self, event: events.Resize) -> None:
        self.sheet.resize(self.size.width, self.size.height)
        self._show()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-_WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(_WHEEL)

    def on_click(self, event: events.Click) -> None:
        """A click chooses the block; on the head of one that folds it folds."""
        if not 0 <= event.y < len(self._lines) or not self._lines[event.y].key:
            return
        key = self._lines[event.y].key
        head = event.y == 0 or self._lines[event.y - 1].key != key
        self.sheet.cursor = key
        if head and event.x <= self.sheet.frame.body:
            self.sheet.toggle(key)
        self._show()
