"""Delete asks, names what goes along, and asks again if that changed meanwhile (R50–R52)."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import KEY, MUTED, TEXT, Ink, Piece
from agents_view.board.paint import state_mark
from agents_view.tui.screens.dialog import Choice, Dialog, heading
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.replies import DeletePlan
from daemon_client.status import label_of
from daemon_client.text import clean

_COLUMN = 24


class ConfirmDelete(Dialog[bool]):
    """Dismissed with True once the session is in the trash."""

    destructive = True
    BINDINGS = [("y", "delete", "delete")]

    def __init__(self, session_id: str, title: str) -> None:
        super().__init__()
        self._session_id = session_id
        self._name = title
        self._plan: DeletePlan | None = None
        self._busy = False
        self._changed = False

    def title_text(self) -> str:
        return f"Delete {self._name}?"

    def choices(self) -> Sequence[Choice]:
        return (
            Choice(key="escape", label="Keep", action="screen.keep"),
            Choice(key="y", label="Delete", action="screen.delete", destructive=True),
        )

    def body(self) -> Sequence[Widget]:
        self._text = Static("looking what goes with it…", markup=False)
        return (self._text,)

    def on_mount(self) -> None:
        self._look()

    @work(exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        try:
            self._plan = await self.board_app.client.sessions.preview_delete(self._session_id)
        except DaemonError as error:
            self._text.update(self.text_of([("✗ ", Ink("error")), (clean(error.message), TEXT)]))
            return
        self._text.update(self.text_of(self._described(self._plan)))

    def action_delete(self) -> None:
        if self._plan is not None and not self._busy:
            self._busy = True
            self._delete(self._plan)

    @work(exit_on_error=False)
    async def _delete(self, plan: DeletePlan) -> None:
        sessions = self.board_app.client.sessions
        try:
            await sessions.delete(self._session_id, expected=plan.fingerprint)
        except DaemonError as error:
            self._busy = False
            if error.code is ErrorCode.CONFLICT:
                self._changed = True
                self._look()
                return
            self._text.update(
                self.text_of(
                    [("✗ ", Ink("error")), ("nothing was deleted: ", TEXT), (error.message, TEXT)]
                )
            )
            return
        self.dismiss(True)

    # what it says

    def _described(self, plan: DeletePlan) -> list[Piece]:
        """In the order of the picture: what it is, what goes along, what stays, how to undo."""
        row = self.board_app.client.mirror.get(self._session_id)
        glyphs = self.board_app.glyphs
        pieces: list[Piece] = []
        if self._changed:
            pieces += [("changed since you asked\n\n", Ink("attention", bold=True))]
        label = label_of(row, self.board_app.now()) if row else ""
        where = clean(plan.cwd, 300)
        pieces += [(f"{clean(plan.agent, 60)} · {where}", MUTED)]
        pieces += (
            [(" · ", MUTED), (f"{clean(label, 300)}\n\n", TEXT)] if label else [("\n\n", TEXT)]
        )
        pieces += [heading("Goes with it"), ("\n", TEXT)]
        mark = state_mark(row, glyphs) if row else (glyphs.inactive, MUTED)
        state = "working — stopped first" if plan.working else "quiet"
        pieces += _item(mark, "this session", state)
        if plan.subagents:
            pieces += self._subagents(plan)
        if plan.queued:
            noun = "prompt" if len(plan.queued) == 1 else "prompts"
            first = clean(plan.queued[0], 60)
            pieces += _item(("›", MUTED), f"{len(plan.queued)} queued {noun}", first)
        if plan.background:
            noun = "process" if plan.background == 1 else "processes"
            text = f"{plan.background} background {noun}"
            pieces += _item((glyphs.dot, MUTED), text, "ended")
        pieces += [("\n", TEXT), heading("Stays"), (f"  {where} and every file in it\n", MUTED)]
        window = self.board_app.settings.ui.undo_window
        days = int(self.board_app.settings.daemon.trash_retention // 86_400)
        pieces += [heading("Undo"), ("   ", TEXT), ("u", KEY)]
        pieces += [(f" for {window:g}s, then {days} days in the trash", MUTED)]
        return pieces

    def _subagents(self, plan: DeletePlan) -> list[Piece]:
        noun = "subagent" if plan.subagents == 1 else "subagents"
        names = ", ".join(clean(name, 40) for name in plan.subagents_working[:3])
        count = len(plan.subagents_working)
        state = f"{count} working: {names}" if count else "quiet"
        return _item((self.board_app.glyphs.open, MUTED), f"{plan.subagents} {noun}", state)


def _item(mark: Piece, what: str, state: str) -> list[Piece]:
    return [mark, (f" {what:<{_COLUMN - 2}}", TEXT), (f"{state}\n", MUTED)]
