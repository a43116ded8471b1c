"""What the keys of the session screen do (spec 03.2, 03.7). One short method per action."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported
from textual.binding import Binding
from textual.screen import Screen

from agents_view.board.recall import Recall
from agents_view.board.session_lines import Outgoing, SendMode, send_mode, waiting_elsewhere
from agents_view.tui.actions import ACTIONS, Action, Where, actions_for
from agents_view.tui.editor import edit_text
from daemon_client.blocks import raw_text
from daemon_client.errors import DaemonError
from daemon_client.ids import new_id
from daemon_client.protocol.replies import QueuedPrompt, SessionState
from daemon_client.roster import RosterRow, SessionId
from daemon_client.status import section_of
from daemon_client.text import clean

if TYPE_CHECKING:
    from agents_view.tui.app import AgentsView
    from agents_view.tui.guard import KeyGuard
    from agents_view.tui.requests import Requests
    from agents_view.tui.widgets.composer import Composer
    from agents_view.tui.widgets.permission_panel import PermissionPanel
    from agents_view.tui.widgets.queue_list import QueueList
    from agents_view.tui.widgets.transcript_view import TranscriptView

_SHOWN_AFTER = 0.08
"""Seconds until a prompt that is not confirmed yet is shown as on its way."""

_SEND_KEYS: dict[SendMode, str] = {
    "send": "send",
    "queue": "queue",
    "wake": "wake and send",
    "edit": "save",
    "wait": "send later",
}


class SessionActions(Screen[None]):
    """Handlers of the session screen's actions; `SessionScreen` has the widgets."""

    BINDINGS = [Binding("escape", "leave_panel", show=False)]

    session_id: SessionId
    state: SessionState
    recall: Recall
    sending: int
    guard: KeyGuard
    requests: Requests
    transcript: TranscriptView
    panel: PermissionPanel
    queue_list: QueueList
    composer: Composer

    if TYPE_CHECKING:

        @property
        def row(self) -> RosterRow | None: ...
        @property
        def connected(self) -> bool: ...
        def update_words(self) -> None: ...
        def update_bars(self) -> None: ...

    @property
    def board_app(self) -> AgentsView:
        return self.app  # type: ignore[return-value]

    # which keys mean something now

    def where(self) -> Where:
        """Which widget the keys go to."""
        if self.composer.area.has_focus:
            return "composer"
        return "queue" if self.queue_list.has_focus else "transcript"

    def usable(self, action: Action) -> bool:
        """Whether the action means something now (key bar, help)."""
        row, sheet = self.row, self.transcript.sheet
        inactive = row is not None and section_of(row) == "inactive"
        needs = {
            "turn.cancel": row is not None and row.turn is not None,
            "prompt.steer": row is not None
            and row.turn is not None
            and self.recall.editing is None,
            "transcript.wake": inactive and row is not None and not row.exit_cause,
            "transcript.retry": row is not None and bool(row.exit_cause),
            "transcript.queue": bool(self.state.queue),
            "transcript.bottom": not sheet.following,
            "transcript.fold": len(sheet) > 0,
            "transcript.copy": len(sheet) > 0,
            "talk.next": bool(self.others()),
            "prompt.leave": not self.panel.display,
        }
        return needs.get(action.id, True)

    def hints(self) -> list[tuple[str, str]]:
        """The key bar: what works where the focus is, most likely first."""
        where, keys = self.where(), self.board_app.keys
        if self.panel.has_focus:
            answers = self.panel.request.options if self.panel.request else ()
            numbers = " ".join(str(index) for index in range(1, len(answers) + 1))
            return [(numbers, "answer"), ("escape", "later"), ("up", "scroll")]
        found = sorted((a for a in actions_for(where) if a.bar and self.usable(a)), key=_bar)
        hints = [(keys.of(action.id)[0], action.word) for action in found]
        if where != "composer":
            return hints
        editing = self.recall.editing is not None
        mode = send_mode(self.row, editing=editing, connected=self.connected)
        if self.panel.display and not editing:
            hints.insert(0, (keys.of("prompt.leave")[0], "answer the request"))
        return [(keys.of("prompt.send")[0], _SEND_KEYS[mode]), *hints]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dangerous keys are inert after an involuntary change and in a burst (3.3)."""
        dangerous = any(a.method == f"screen.{action}" and a.destructive for a in ACTIONS)
        return not dangerous or self.guard.allows()

    def others(self) -> list[RosterRow]:
        """Who else needs a person, the longest wait first."""
        return waiting_elsewhere(self.board_app.client.mirror, self.session_id)

    # Marking

    def mark_pending(self, session_id: str, pending: bool) -> None:
        self.sending += 1 if pending else -1
        self.update_bars()

    def tell(self, text: str, *, problem: bool = False) -> None:
        severity = "error" if problem else "information"
        self.notify(text, severity=severity, timeout=8 if problem else 4, markup=False)

    # writing

    def action_send(self) -> None:
        """Send, queue behind the turn, or save a queued prompt that was brought back."""
        if self.recall.editing is not None:
            self._save_queued(self.recall.editing)
        else:
            self._send(steer=False)

    def action_steer(self) -> None:
        if self.recall.editing is None:
            self._send(steer=True)

    def _send(self, *, steer: bool) -> None:
        text = self.composer.text.strip()
        if not text:
            return
        prompt_id = new_id()
        self.recall.reset()
        self.composer.text = ""
        self.board_app.drafts.pop(self.session_id, None)
        talk = self.board_app.client.conversation
        late = self.set_timer(_SHOWN_AFTER, lambda: self._show_outgoing(prompt_id, text))

        async def request() -> None:
            try:
                await talk.prompt(
                    self.session_id,
                    text,
                    steer=steer,
                    environ=dict(os.environ),
                    prompt_id=prompt_id,
                )
            except DaemonError:
                self._give_back(text)
                raise
            finally:
                late.stop()
                self._drop_outgoing(prompt_id)

        self.requests.start(self.session_id, request)

    def _give_back(self, text: str) -> None:
        """A prompt that was not accepted is not lost."""
        written = self.composer.text
        self.composer.text = f"{text}\n{written}" if written.strip() else text

    def _show_outgoing(self, prompt_id: str, text: str) -> None:
        known = {prompt.prompt_id for prompt in self.state.queue}
        if prompt_id not in known and not self.transcript.sheet.folder.knows_prompt(prompt_id):
            self.queue_list.outgoing.append(Outgoing(prompt_id=prompt_id, text=text))
            self.queue_list.update()

    def _drop_outgoing(self, prompt_id: str) -> None:
        kept = [o for o in self.queue_list.outgoing if o.prompt_id != prompt_id]
        if len(kept) != len(self.queue_list.outgoing):
            self.queue_list.outgoing = kept
            self.queue_list.update()

    def _save_queued(self, prompt_id: str) -> None:
        text = self.composer.text.strip()
        self.composer.text = self.recall.leave()
        if text:
            talk = self.board_app.client.conversation
            self.requests.start(
                self.session_id, lambda: talk.edit_queued(self.session_id, prompt_id, text)
            )
        else:
            self._remove_queued(prompt_id)
        self.update_words()

    def _remove_queued(self, prompt_id: str) -> None:
        talk = self.board_app.client.conversation
        self.requests.start(
            self.session_id,
            lambda: talk.remove_queued(self.session_id, prompt_id),
            lambda: self.tell("removed from the queue"),
        )

    def bring_back(self, step: int) -> None:
        """↑ and ↓ at the edges of the composer: queued prompts, then former ones."""
        queue, history = self.state.queue, self.transcript.sheet.folder.prompts()
        move = self.recall.up if step < 0 else self.recall.down
        text = move(self.composer.text, queue, history)
        if text is not None:
            self.composer.text = text
            self.update_words()

    def action_newline(self) -> None:
        self.composer.area.insert("\n")

    def action_editor(self) -> None:
        """The program steps back while the editor has the terminal."""
        try:
            with self.app.suspend():
                text = edit_text(self.composer.text)
        except SuspendNotSupported:
            self.tell("no terminal to hand to an editor", problem=True)
        except OSError as error:
            self.tell(f"the editor did not start: {clean(str(error), 200)}", problem=True)
        else:
            self.composer.text = text

    # from widget to widget: composer → request → transcript → board

    def action_leave_composer(self) -> None:
        """Never cancels anything; a queued prompt that was brought back is put back first."""
        if self.recall.editing is not None or self.recall.browsing:
            self.composer.text = self.recall.leave()
            self.update_words()
        elif self.panel.display:
            self.panel.focus()
        else:
            self.transcript.focus()

    def action_leave_panel(self) -> None:
        self.transcript.focus()

    def action_write(self) -> None:
        self.composer.area.focus()

    def action_to_queue(self) -> None:
        if self.state.queue:
            self.queue_list.focus()

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_next_waiting(self) -> None:
        others = self.others()
        if not others:
            self.tell("nobody else waits for you")
            return
        from agents_view.tui.screens.session import SessionScreen

        self.app.switch_screen(SessionScreen(others[0].session_id))

    def action_help(self) -> None:
        from agents_view.tui.screens.help import Help

        usable = [action for action in actions_for(self.where()) if self.usable(action)]
        self.app.push_screen(Help("Session", usable, self.board_app.keys))

    # the transcript

    def action_down(self) -> None:
        self.transcript.move_cursor(1)

    def action_up(self) -> None:
        self.transcript.move_cursor(-1)

    def action_top(self) -> None:
        self.transcript.to_start()

    def action_bottom(self) -> None:
        self.transcript.to_end()

    def action_page_down(self) -> None:
        self.transcript.scroll_pages(1)

    def action_page_up(self) -> None:
        self.transcript.scroll_pages(-1)

    def action_fold(self) -> None:
        if not self.transcript.toggle():
            self.tell("nothing to fold here")

    def action_fold_all(self) -> None:
        self.transcript.fold_all()

    def action_copy(self) -> None:
        block = self.transcript.sheet.current_block()
        if block is not None:
            text = raw_text(block)
            self.app.copy_to_clipboard(text)
            lines = text.count("\n") + 1
            self.tell(f"copied {lines} line{'' if lines == 1 else 's'}")

    # the session

    def action_cancel_turn(self) -> None:
        row = self.row
        if row is None or row.turn is None:
            self.tell("no turn runs")
            return
        talk = self.board_app.client.conversation
        self.requests.start(self.session_id, lambda: talk.cancel_turn(self.session_id))

    def action_wake(self) -> None:
        row = self.row
        if row is not None and row.resident:
            self.tell("it is awake")
            return
        sessions, environ = self.board_app.client.sessions, dict(os.environ)
        self.requests.start(
            self.session_id, lambda: sessions.wake(self.session_id, environ=environ)
        )

    def action_retry(self) -> None:
        sessions, environ = self.board_app.client.sessions, dict(os.environ)
        self.requests.start(
            self.session_id, lambda: sessions.retry(self.session_id, environ=environ)
        )

    # the queue

    def action_queue_up(self) -> None:
        self.queue_list.move(-1)

    def action_queue_down(self) -> None:
        self.queue_list.move(1)

    def action_queue_edit(self) -> None:
        prompt: QueuedPrompt | None = self.queue_list.chosen_prompt()
        if prompt is not None:
            self.composer.text = self.recall.edit(prompt, self.composer.text)
            self.composer.area.focus()
            self.update_words()

    def action_queue_remove(self) -> None:
        prompt = self.queue_list.chosen_prompt()
        if prompt is not None:
            self._remove_queued(prompt.prompt_id)


def _bar(action: Action) -> int:
    return action.bar
