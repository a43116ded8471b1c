"""The keys that work here, grouped (spec 03.7)."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import KEY, MUTED, TEXT, Piece
from agents_view.tui.actions import Action, key_name
from agents_view.tui.keymap import Keymap
from agents_view.tui.screens.dialog import Choice, Dialog, heading

_COLUMN = 18


class Help(Dialog[None]):
    """Made from the one table of actions, with the user's keys."""

    BINDINGS = [
        Binding("question_mark,f1,q", "keep", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, name: str, actions: Sequence[Action], keys: Keymap) -> None:
        super().__init__()
        self._name = name
        self._actions = actions
        self._keys = keys

    def title_text(self) -> str:
        return f"Keys on {self._name}"

    def choices(self) -> Sequence[Choice]:
        return (Choice(key="escape", label="Close", action="screen.keep"),)

    def body(self) -> Sequence[Widget]:
        groups: dict[str, list[Action]] = {}
        for action in self._actions:
            groups.setdefault(action.group, []).append(action)
        pieces: list[Piece] = []
        for group, actions in groups.items():
            pieces += [heading(group), ("\n", TEXT)]
            for action in actions:
                keys = " ".join(key_name(key) for key in self._keys.of(action.id))
                pieces += [(f"  {keys:<{_COLUMN}}", KEY), (f"{action.label}\n", MUTED)]
            pieces += [("\n", TEXT)]
        self._text = Static(self.text_of(pieces[:-1]), markup=False)
        return (self._text,)

    def action_scroll(self, lines: int) -> None:
        body = self.query_one(".dialog-body")
        body.scroll_relative(y=lines, animate=False, force=True)
