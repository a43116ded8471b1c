"""A new name for a session; the empty name takes it away again."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from agents_view.tui.screens.dialog import Choice, Dialog


class Rename(Dialog[str]):
    """Dismissed with the name, or None."""

    def __init__(self, title: str, name: str) -> None:
        super().__init__()
        self._old_title = title
        self._old_name = name

    def title_text(self) -> str:
        return f"Rename {self._old_title}"

    def body(self) -> Sequence[Widget]:
        field = Input(self._old_name, id="name", max_length=300)
        return (Horizontal(Static("name", classes="field-label"), field, classes="field"),)

    def choices(self) -> Sequence[Choice]:
        return (
            Choice(key="escape", label="Keep", action="screen.keep"),
            Choice(key="enter", label="Rename", action="screen.rename"),
        )

    def on_mount(self) -> None:
        self.query_one("#name").focus()

    @on(Input.Submitted)
    def action_rename(self) -> None:
        self.dismiss(self.query_one("#name", Input).value)
