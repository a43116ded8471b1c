"""Where a prompt is written: several lines, a border that says what enter does now (look 06)."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from agents_view.tui.actions import actions_for, bindings_for
from agents_view.tui.keymap import Keymap
from daemon_client.text import clean_lines


class ComposerArea(TextArea):
    """The text itself. Its own keys come first; the arrows leave it only where it says so.

    Keys of actions are handled here, in the order they were typed: a priority binding would run
    before the letters typed just before it have arrived, and send half a prompt.
    """

    BINDINGS = bindings_for("composer")

    class Left(Message):
        """← in an empty text."""

    class History(Message):
        """↑ in the first line, ↓ in the last one."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    async def _on_key(self, event: events.Key) -> None:
        keys: Keymap = self.app.keys  # type: ignore[attr-defined]
        for action in actions_for("composer"):
            if event.key in keys.of(action.id):
                event.stop()
                event.prevent_default()
                await self.run_action(action.method)
                return

    def action_cursor_up(self, select: bool = False) -> None:
        if select or (self.get_cursor_up_location() != self.cursor_location and not self._on_top()):
            super().action_cursor_up(select)
        else:
            self.post_message(self.History(-1))

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self._on_bottom():
            super().action_cursor_down(select)
        else:
            self.post_message(self.History(1))

    def action_cursor_left(self, select: bool = False) -> None:
        if self.text:
            super().action_cursor_left(select)
        else:
            self.post_message(self.Left())

    def _on_top(self) -> bool:
        """In the first line on screen, wrapped lines counted."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y == 0

    def _on_bottom(self) -> bool:
        y = self.wrapped_document.location_to_offset(self.cursor_location).y
        return y >= self.wrapped_document.height - 1

    async def _on_paste(self, event: events.Paste) -> None:
        """Pasted text is text: what a terminal would act on is taken out."""
        event.prevent_default()
        event.stop()
        self.put(event.text)

    def put(self, text: str) -> None:
        """Insert at the cursor."""
        self.insert(clean_lines(text), maintain_selection_offset=False)


class Composer(Horizontal):
    """Border, mark and text area."""

    class Edited(Message):
        """The text is another one."""

    def __init__(self, text: str = "", *, ascii_only: bool = False) -> None:
        super().__init__(classes="-ascii" if ascii_only else "")
        self._mark = ">" if ascii_only else "›"
        self.area = ComposerArea(
            text, soft_wrap=True, show_line_numbers=False, compact=True, tab_behavior="focus"
        )
        self.area.cursor_blink = False
        self.area.highlight_cursor_line = False
        self.area.move_cursor(self.area.document.end)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._mark), id="composer-mark")
        yield self.area

    @property
    def text(self) -> str:
        return self.area.text

    @text.setter
    def text(self, text: str) -> None:
        self.area.text = text
        self.area.move_cursor(self.area.document.end)

    def say(self, words: str) -> None:
        """What enter does now, in the border."""
        self.border_subtitle = Content(words.replace("·", "-") if self._mark == ">" else words)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self.post_message(self.Edited())
