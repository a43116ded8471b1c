"""Delete asks, names what goes along, and asks again if that changed meanwhile (R50–R52)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import work
from textual.widget import Widget
from textual.widgets import Static

from agents_view.board.ink import FAINT, KEY, MUTED, TEXT, Ink, Piece, cut
from agents_view.board.paint import state_mark
from agents_view.board.session_lines import short_path
from agents_view.tui.screens.dialog import Choice, Dialog, heading
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.replies import DeletePlan
from daemon_client.roster import RosterRow, Schedule
from daemon_client.status import countdown_text, label_of
from daemon_client.text import clean

_COLUMN: Final = 24
_NAME: Final = 50
_ENDED: Final = ("completed", "failed", "cancelled")


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
        return f"Delete {cut(self._name, _NAME)}?"

    def choices(self) -> Sequence[Choice]:
        return (
            Choice(key="escape", label="Keep", action="screen.keep"),
            Choice(key="y", label="Delete", action="screen.delete", destructive=True),
        )

    def body(self) -> Sequence[Widget]:
        self._text = Static("looking what goes with it…", markup=False)
        self._armed = Static("", markup=False, classes="warning")
        self._armed.display = False
        self._rest = Static("", markup=False)
        return (self._text, self._armed, self._rest)

    def on_mount(self) -> None:
        self._look()

    @work(exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        try:
            self._plan = await self.board_app.client.sessions.preview_delete(self._session_id)
        except DaemonError as error:
            self._say("", error)
            return
        row = self.board_app.client.mirror.get(self._session_id)
        armed = self._armed_jobs(row) if row else []
        self._text.update(self.text_of(self._described(self._plan, row)))
        self._armed.update(self.text_of(armed))
        self._armed.display = bool(armed)
        self._rest.update(self.text_of(self._remains(self._plan)))
        self.guard.changed()

    def action_delete(self) -> None:
        """Only what stands here is confirmed, and only by a key of its own (3.3, R51)."""
        if self._plan is not None and not self._busy:
            self.guard.deliberately(self.set_timer, self._confirmed)

    def _confirmed(self) -> None:
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
            self._say("nothing was deleted: ", error)
            return
        self.dismiss(True)

    def _say(self, what: str, error: DaemonError) -> None:
        text = f"{what}{clean(error.message, 300)}"
        self._text.update(self.text_of([("✗ ", Ink("error")), (text, TEXT)]))
        self._armed.display = False
        self._rest.update("")

    # what it says

    def _described(self, plan: DeletePlan, row: RosterRow | None) -> list[Piece]:
        """What it is, and what goes along (R50)."""
        glyphs = self.board_app.glyphs
        pieces: list[Piece] = []
        if self._changed:
            pieces += [("changed since you asked\n\n", Ink("attention", bold=True))]
        pieces += [(f"{clean(plan.agent, 60)} · {self._where(plan)}", MUTED)]
        if label := label_of(row, self.board_app.now()) if row else "":
            pieces += [(" · ", MUTED), (clean(label, 300), TEXT)]
        pieces += [("\n\n", TEXT), heading("Goes with it"), ("\n", TEXT)]
        mark = state_mark(row, glyphs) if row else (glyphs.inactive, MUTED)
        state = "working — stopped first" if plan.working else "quiet"
        pieces += _item(mark, "this session", state)
        if plan.subagents:
            pieces += self._subagents(plan)
        if plan.queued:
            queued = _counted(len(plan.queued), "queued prompt")
            pieces += _item(("›", MUTED), queued, clean(plan.queued[0], 60))
        if plan.background:
            processes = _counted(plan.background, "background process", "es")
            pieces += _item((glyphs.dot, MUTED), processes, "ended")
        pieces += self._kept_jobs(row) if row else []
        return [*pieces[:-1], (pieces[-1][0].removesuffix("\n"), MUTED)]

    def _kept_jobs(self, row: RosterRow) -> list[Piece]:
        """What is said without a warning: paused jobs, and a task that is not over."""
        glyphs = self.board_app.glyphs
        pieces: list[Piece] = []
        for mark, name, jobs in self._jobs(row):
            if jobs.paused:
                pieces += _item((mark, FAINT), f"{jobs.paused} paused {name}", "will be cancelled")
        if row.task is not None and row.task.status not in _ENDED:
            pieces += _item((glyphs.dot, MUTED), "task in progress", "will be cancelled")
        return pieces

    def _armed_jobs(self, row: RosterRow) -> list[Piece]:
        """The one warning: what would have fired, and when (R50)."""
        warning = Ink("attention", bold=True)
        pieces: list[Piece] = []
        for mark, name, jobs in self._jobs(row):
            if not jobs.active:
                continue
            what = f"armed {name}" if jobs.active == 1 else f"{jobs.active} armed {name}s"
            left = None if jobs.next_at_ms is None else jobs.next_at_ms - self.board_app.now()
            when = "" if left is None else f" — next in {countdown_text(left)}"
            when = " — due now" if left is not None and left <= 0 else when
            pieces += [("\n" if pieces else "", TEXT), ("▌ ", Ink("attention"))]
            pieces += [(f"{mark} ", Ink("schedule")), (f"{what}{when}", warning)]
            pieces.append((" — will be cancelled", warning))
        return pieces

    def _jobs(self, row: RosterRow) -> tuple[tuple[str, str, Schedule], ...]:
        """Of the session and everything below it, each job once."""
        glyphs = self.board_app.glyphs
        return (
            (glyphs.heartbeat, "heartbeat", row.tree_heartbeats),
            (glyphs.cron, "cron", row.tree_crons),
        )

    def _remains(self, plan: DeletePlan) -> list[Piece]:
        """What stays, and the way back (R52)."""
        window = self.board_app.settings.ui.undo_window
        days = int(self.board_app.settings.daemon.trash_retention // 86_400)
        pieces: list[Piece] = [("\n", TEXT), heading("Stays")]
        pieces += [(f"  {self._where(plan)} and every file in it\n", MUTED)]
        pieces += [heading("Undo"), ("   ", TEXT), ("u", KEY)]
        return [*pieces, (f" for {window:g}s, then {days} days in the trash", MUTED)]

    def _where(self, plan: DeletePlan) -> str:
        return short_path(plan.cwd, self.board_app.home)

    def _subagents(self, plan: DeletePlan) -> list[Piece]:
        names = ", ".join(clean(name, 40) for name in plan.subagents_working[:3])
        count = len(plan.subagents_working)
        state = f"{count} working: {names}" if count else "quiet"
        what = _counted(plan.subagents, "subagent")
        return _item((self.board_app.glyphs.open, MUTED), what, state)


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _item(mark: Piece, what: str, state: str) -> list[Piece]:
    return [mark, (f" {what:<{_COLUMN - 2}}", TEXT), (f"{state}\n", MUTED)]
