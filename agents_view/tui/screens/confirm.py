"""Archiving something that works asks first; quiet sessions just go (undo is one key away)."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import MUTED, TEXT, Piece
from agents_view.board.item import Item
from agents_view.tui.screens.dialog import Choice, Dialog
from daemon_client.status import is_working


class ConfirmArchive(Dialog[bool]):
    """Dismissed with True if it is wanted all the same."""

    BINDINGS = [("y", "archive", "archive")]

    def __init__(self, item: Item) -> None:
        super().__init__()
        self._item = item

    def title_text(self) -> str:
        return f"Archive {self._item.title}?"

    def choices(self) -> Sequence[Choice]:
        return (
            Choice(key="escape", label="Keep", action="screen.keep"),
            Choice(key="y", label="Archive", action="screen.archive"),
        )

    def body(self) -> Sequence[Widget]:
        below = self._item.row.running_children
        noun = "subagent" if below == 1 else "subagents"
        who = ["this session"] if is_working(self._item.row) else []
        who += [f"{below} {noun}"] if below else []
        pieces: list[Piece] = [(f"At work: {' and '.join(who)}.\n", TEXT)]
        pieces += [("What is under way is cut off and marked as interrupted.", MUTED)]
        return (Static(self.text_of(pieces), markup=False),)

    def on_mount(self) -> None:
        self.guard.changed()

    def action_archive(self) -> None:
        self.guard.deliberately(self.set_timer, lambda: self.dismiss(True))
