"""Answer what the selected session asks, without opening it (`!` on the board)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual import on, work
from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import MUTED, TEXT, Ink, Piece
from agents_view.board.item import title_of
from agents_view.board.session_lines import short_path
from agents_view.tui.guard import KeyGuard
from agents_view.tui.messages import RosterChanged
from agents_view.tui.screens.dialog import Choice, Dialog
from agents_view.tui.widgets.permission_panel import PermissionPanel
from daemon_client.errors import DaemonError
from daemon_client.text import clean


class Permission(Dialog[None]):
    """Shows the session's requests one after another, until none is left."""

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self._session_id = session_id

    def title_text(self) -> str:
        row = self.board_app.client.mirror.get(self._session_id)
        return title_of(row) if row else "gone"

    def choices(self) -> Sequence[Choice]:
        return (Choice(key="escape", label="Later", action="screen.keep"),)

    def hints(self) -> list[tuple[str, str]]:
        """The answers stand in the panel, with their keys."""
        return [("1…9", "answer"), ("↑ ↓", "scroll"), *super().hints()]

    def body(self) -> Sequence[Widget]:
        app = self.board_app
        guard = KeyGuard(app.settings.ui.key_guard, time.monotonic)
        self._panel = PermissionPanel(lambda: app.look, guard, app.now)
        self._panel.display = False
        self._note = Static("", markup=False)
        return (self._note, self._panel)

    def on_mount(self) -> None:
        row = self.board_app.client.mirror.get(self._session_id)
        if row is not None:
            where = f"{clean(row.agent, 60)} · {short_path(row.cwd, self.board_app.home)}"
            self._note.update(self.text_of([(where, MUTED)]))
            if row.waiting is not None and row.waiting.kind == "login":
                self._say([("needs login: ", Ink("attention", bold=True))], row.waiting.text)
        self._panel.focus()
        self._look()

    @on(RosterChanged)
    def _roster_changed(self, message: RosterChanged) -> None:
        if self._session_id in message.changed:
            self._look()

    @work(exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        try:
            pending = await self.board_app.client.conversation.pending(self._session_id)
        except DaemonError as error:
            self._say([("✗ ", Ink("error"))], error.message)
            return
        if pending:
            self._panel.show(pending[0])
            self._panel.focus()
        elif self._panel.request is not None:
            self.dismiss(None)

    @on(PermissionPanel.Answered)
    def _answered(self, message: PermissionPanel.Answered) -> None:
        self._answer(message)

    @work(exit_on_error=False)
    async def _answer(self, message: PermissionPanel.Answered) -> None:
        request, option = message.request, message.option
        try:
            await self.board_app.client.conversation.answer(
                request.session_id, request.request_id, option.id
            )
        except DaemonError as error:
            self._say([("✗ ", Ink("error"))], error.message)
            return
        self._look()

    def _say(self, pieces: list[Piece], text: str) -> None:
        self._note.update(self.text_of([*pieces, (clean(text, 300), TEXT)]))
