"""The command palette: every action that means something now, by a few letters of its label."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from agents_view.board.ink import FAINT, TEXT
from agents_view.tui.actions import Action, key_name
from agents_view.tui.keymap import Keymap
from agents_view.tui.screens.dialog import Dialog


class ActionPalette(Dialog[Action]):
    """Dismissed with the chosen action."""

    BINDINGS = [
        Binding("down,ctrl+n", "step(1)", show=False, priority=True),
        Binding("up,ctrl+p", "step(-1)", show=False, priority=True),
    ]

    def __init__(self, actions: Sequence[Action], keys: Keymap) -> None:
        super().__init__()
        self._actions = actions
        self._keys = keys
        self._shown: list[Action] = []

    def title_text(self) -> str:
        return "Do"

    def hints(self) -> list[tuple[str, str]]:
        return [("↑ ↓", "choose"), ("enter", "do it"), ("escape", "close")]

    def body(self) -> Sequence[Widget]:
        self._input = Input(placeholder="what to do")
        self._list = OptionList(markup=False)
        self._list.can_focus = False
        return (self._input, self._list)

    def on_mount(self) -> None:
        self._input.focus()
        self._fill("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        index = self._list.highlighted
        if index is not None and index < len(self._shown):
            self.dismiss(self._shown[index])

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index])

    def action_step(self, step: int) -> None:
        if step > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()

    def _fill(self, typed: str) -> None:
        words = typed.casefold().split()
        self._shown = [
            action
            for action in self._actions
            if all(word in f"{action.label} {action.id}".casefold() for word in words)
        ]
        self._list.clear_options()
        self._list.add_options([Option(self._line(action)) for action in self._shown])
        self._list.highlighted = 0 if self._shown else None

    def _line(self, action: Action) -> Content:
        keys = " ".join(key_name(key) for key in self._keys.of(action.id))
        text: Text = self.text_of([(f" {action.label:<40}", TEXT), (keys, FAINT)])
        return Content.from_rich_text(text)
