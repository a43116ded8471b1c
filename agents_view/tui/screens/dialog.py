"""The frame of every dialog: centred, at most 76 wide, safe button first (look.md 5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import Ink, Piece, cut
from agents_view.tui.bars import key_bar_pieces
from agents_view.tui.guard import KeyGuard
from agents_view.tui.theme import Palette
from agents_view.tui.widgets.line import LineBar

if TYPE_CHECKING:
    from agents_view.tui.app import AgentsView

T = TypeVar("T")

_TITLE: Final = 64


class Choice(msgspec.Struct, kw_only=True, frozen=True):
    """A button: its key, its word, and the action of the dialog it runs."""

    key: str
    label: str
    action: str
    destructive: bool = False


class DialogButton(Static, can_focus=True):
    """` key  Label `; filled while it has the focus."""

    BINDINGS = [
        Binding("enter,space", "press", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("left", "app.focus_previous", show=False),
    ]

    def __init__(self, choice: Choice, shown_key: str) -> None:
        super().__init__(classes="-destructive" if choice.destructive else "", markup=False)
        self.choice = choice
        self._shown_key = shown_key

    def render(self) -> Content:
        key_ink = "$error" if self.choice.destructive else "$primary"
        ink = "bold" if self.has_focus else f"bold {key_ink}"
        return Content.assemble((f" {self._shown_key} ", ink), (f" {self.choice.label} ", ""))

    async def action_press(self) -> None:
        await self.screen.run_action(self.choice.action)

    async def on_click(self) -> None:
        await self.action_press()


class Dialog(ModalScreen[T]):
    """Title in the border, body, buttons at the lower right. Escape is always the safe way."""

    BINDINGS = [
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
        Binding("escape", "keep", show=False),
        Binding("ctrl+l", "app.repaint", show=False),
    ]
    CSS_PATH = "dialog.tcss"
    destructive: bool = False

    @property
    def board_app(self) -> AgentsView:
        return self.app  # type: ignore[return-value]

    @property
    def look(self) -> Palette:
        return self.board_app.look

    def title_text(self) -> str:
        """The question; it names its object."""
        return ""

    def body(self) -> Sequence[Widget]:
        return ()

    def choices(self) -> Sequence[Choice]:
        return ()

    def compose(self) -> ComposeResult:
        self.guard = KeyGuard(self.board_app.settings.ui.key_guard, time.monotonic)
        classes = "dialog -destructive" if self.destructive else "dialog"
        with Vertical(classes=classes) as frame:
            frame.border_title = self._title()
            with VerticalScroll(classes="dialog-body", can_focus=False):
                yield from self.body()
            if choices := self.choices():
                with Horizontal(classes="dialog-buttons"):
                    yield Static("", classes="dialog-spring")
                    for choice in choices:
                        name = {"escape": "esc"}.get(choice.key, choice.key)
                        yield DialogButton(choice, name)
        yield LineBar(self._key_bar, lambda: self.look, id="keys")

    def _title(self) -> Content:
        """Never as markup: a name like `[/ x` is no closing tag."""
        return Content(cut(self.title_text(), _TITLE))

    def retitle(self) -> None:
        """The title changed."""
        self.query_one(".dialog").border_title = self._title()

    def hints(self) -> list[tuple[str, str]]:
        """What the key bar says."""
        buttons = [(choice.key, choice.label.lower()) for choice in reversed(self.choices())]
        return [("tab", "next"), *buttons] if len(buttons) > 1 else buttons

    def _key_bar(self, width: int) -> list[Piece]:
        return key_bar_pieces(self.hints(), "", width)

    def on_key(self, event: events.Key) -> None:
        self.guard.pressed()

    def action_keep(self) -> None:
        """Leave without doing anything."""
        self.dismiss(None)

    def text_of(self, pieces: Sequence[Piece]) -> Text:
        """Pieces as text on the ground of the widget that shows them."""
        text = Text(no_wrap=False, end="")
        for part, ink in pieces:
            text.append(part, self.look.ink_alone(ink))
        return text


_BOLD: Final = Ink(bold=True)


def heading(text: str) -> Piece:
    """A heading inside a dialog."""
    return (text, _BOLD)
