"""What the keys of the board do (spec 03.7). One short method per action of the table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.screen import Screen

from agents_view.board.item import Item
from agents_view.tui.actions import Action, actions_for
from agents_view.tui.messages import RosterChanged
from daemon_client.connection import Link
from daemon_client.status import is_working
from daemon_client.text import clean

if TYPE_CHECKING:
    from agents_view.board.model import BoardModel
    from agents_view.tui.app import AgentsView
    from agents_view.tui.guard import KeyGuard
    from agents_view.tui.requests import Requests
    from agents_view.tui.screens.board import FilterInput
    from agents_view.tui.widgets.roster_list import RosterList

Undo = tuple[str, Callable[[], None]]


class BoardActions(Screen[None]):
    """Handlers of the board's actions; `BoardScreen` has the widgets they work on."""

    model: BoardModel
    roster: RosterList
    guard: KeyGuard
    requests: Requests
    filter_input: FilterInput
    undo_last: Undo | None
    wanted: str = ""
    """A session that was just made: selected as soon as the roster has it."""

    @property
    def board_app(self) -> AgentsView:
        return self.app  # type: ignore[return-value]

    # which keys mean something now

    def usable(self, action: Action) -> bool:
        """Whether the action means something for what is selected (key bar, help, palette)."""
        item = self.selected
        there = item is not None and self.board_app.client.connection.state.link is Link.UP
        needs = {
            "open": item is not None,
            "rename": there,
            "archive": there,
            "delete": there,
            "answer": there and self.model.counts.need_you > 0,
            "cancel_turn": there and item is not None and item.row.turn is not None,
            "filter": bool(self.model.items),
            "wake": item is not None and item.section == "inactive" and not item.row.exit_cause,
            "retry": item is not None and bool(item.row.exit_cause),
            "next_waiting": self.model.counts.need_you > 0,
            "undo": self.undo_last is not None,
            "copy_id": item is not None,
        }
        return needs.get(action.method, True)

    def usable_actions(self) -> list[Action]:
        """The board's actions that mean something now, in the order of the table."""
        return [action for action in actions_for("board") if self.usable(action)]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dangerous keys are inert after an involuntary change and in a burst (3.3)."""
        dangerous = any(a.method == action and a.destructive for a in actions_for("board"))
        return not dangerous or self.guard.allows()

    @property
    def selected(self) -> Item | None:
        """The selected session; nothing before the first snapshot is whole (R41)."""
        if not self.board_app.client.mirror.complete:
            return None
        return self.model.items.get(self.roster.selected_session)

    # Marking

    def mark_pending(self, session_id: str, pending: bool) -> None:
        self.roster.set_pending(session_id, pending)

    def tell(self, text: str, *, problem: bool = False) -> None:
        severity = "error" if problem else "information"
        self.notify(text, severity=severity, timeout=8 if problem else 4, markup=False)

    def reachable(self) -> bool:
        """A key that needs the daemon says when it is away; nothing is kept to be sent later."""
        state = self.board_app.client.connection.state
        if state.link is Link.UP:
            return True
        self.tell(f"{state.reason or 'daemon not reachable'} · nothing was done", problem=True)
        return False

    # moving

    def action_down(self) -> None:
        self.roster.move(1)

    def action_up(self) -> None:
        self.roster.move(-1)

    def action_top(self) -> None:
        self.roster.move_to_end(last=False)

    def action_bottom(self) -> None:
        self.roster.move_to_end(last=True)

    def action_page_down(self) -> None:
        self.roster.move_page(0.5)

    def action_page_up(self) -> None:
        self.roster.move_page(-0.5)

    def action_to_running(self) -> None:
        self.roster.select(self.model.section_start("running") or "")

    def action_to_idle(self) -> None:
        self.roster.select(self.model.section_start("idle") or "")

    def action_to_inactive(self) -> None:
        self.roster.select(self.model.section_start("inactive") or "")

    def action_next_waiting(self) -> None:
        """Around the circle of those who wait, the longest wait first."""
        waiting = self._waiting()
        if not waiting:
            self.tell("nobody waits for you")
            return
        current = self.roster.selected_session
        place = waiting.index(current) + 1 if current in waiting else 0
        wanted = waiting[place % len(waiting)]
        self._reveal(wanted)

    def _waiting(self) -> list[str]:
        """Who needs a person, the longest wait first."""
        items = self.model.items
        return [key for key in self.model.waiting() if not items[key].row.archived]

    def _reveal(self, session_id: str) -> None:
        """Select a session wherever it is: in a folded tree, or behind the filter."""
        self.model.reveal(session_id)
        if session_id not in self.model.position:
            self.model.set_filter("")  # the field tells only later that it is empty
            self.action_back()
        self.roster.lines_changed()
        self.roster.select(session_id)

    def action_unfold(self) -> None:
        key = self.roster.selected_session
        if self.model.has_children(key):
            self.model.set_expanded(key, True)
            self.roster.lines_changed()

    def action_fold(self) -> None:
        line, item = self.roster.selected_line, self.selected
        if line is None or item is None:
            return
        key = line.session_id
        if key not in self.model.expanded or not self.model.has_children(key):
            key = item.row.parent_id or ""
        if key in self.model.expanded:
            self.model.set_expanded(key, False)
            self.roster.lines_changed()
            self.roster.select(key)

    def action_fold_all(self) -> None:
        self.model.fold_all()
        self.roster.lines_changed()

    # sessions

    def action_open(self) -> None:
        line, item = self.roster.selected_line, self.selected
        if line is not None and line.kind == "summary":
            self.model.set_expanded(line.session_id, line.session_id not in self.model.expanded)
            self.roster.lines_changed()
        elif item is not None:
            self.open_session(item.row.session_id)

    def open_session(self, session_id: str) -> None:
        """The session screen, loaded when it is first needed."""
        from agents_view.tui.screens.session import SessionScreen

        self.app.push_screen(SessionScreen(session_id))

    def action_new(self) -> None:
        from agents_view.tui.screens.new_session import NewSession

        item = self.selected
        cwd = item.row.cwd if item else ""
        if not cwd or clean(cwd) != cwd:
            cwd = str(Path.cwd())
        self.app.push_screen(NewSession(cwd), self._created)

    def _created(self, session_id: str | None) -> None:
        self.wanted = session_id or ""
        self._select_wanted()

    @on(RosterChanged)
    def _select_wanted(self) -> None:
        """After the board took the change over: handlers of a subclass come first."""
        if self.wanted in self.model.items:
            self._reveal(self.wanted)
            self.wanted = ""

    def action_rename(self) -> None:
        from agents_view.tui.screens.rename import Rename

        item = self.selected
        if item is None:
            return
        key, sessions = item.row.session_id, self.board_app.client.sessions

        def renamed(name: str | None) -> None:
            if name is not None and self.reachable():
                self.requests.start(key, lambda: sessions.rename(key, name))

        # a field shows what it is given as it is: an escape sequence in it would be obeyed
        self.app.push_screen(Rename(item.title, clean(item.row.name or "")), renamed)

    def action_answer(self) -> None:
        from agents_view.tui.screens.permission import Permission

        item = self.selected
        waiting = self._waiting()
        if not waiting:
            self.tell("nobody waits for you")
        elif item is not None and item.row.session_id in waiting:
            self.app.push_screen(Permission(item.row.session_id))
        else:
            self.app.push_screen(Permission(waiting[0]))

    def action_cancel_turn(self) -> None:
        item = self.selected
        if item is not None and item.row.turn is not None and self.reachable():
            self.guard.deliberately(self.set_timer, lambda: self._cancel_turn(item))

    def _cancel_turn(self, item: Item) -> None:
        key = item.row.session_id
        talk = self.board_app.client.conversation
        self.requests.start(
            key, lambda: talk.cancel_turn(key), lambda: self.tell(f"cancelled: {item.title}")
        )

    def action_wake(self) -> None:
        self._resident(retry=False)

    def action_retry(self) -> None:
        self._resident(retry=True)

    def _resident(self, *, retry: bool) -> None:
        item = self.selected
        if item is None:
            return
        key, sessions = item.row.session_id, self.board_app.client.sessions
        # not `reachable`: a daemon that somebody stopped is started by what is asked of it
        bring = sessions.retry if retry else sessions.wake
        self.requests.start(key, lambda: bring(key, environ=dict(os.environ)))

    # putting away

    def action_archive(self) -> None:
        """Not asked for when nothing works: undo is one key away."""
        item = self.selected
        if item is None or not self.reachable():
            return
        if is_working(item.row) or item.row.running_children:
            from agents_view.tui.screens.confirm import ConfirmArchive

            self.app.push_screen(
                ConfirmArchive(item), lambda yes: self._archive(item) if yes else None
            )
        else:
            self.guard.deliberately(self.set_timer, lambda: self._archive(item))

    def _archive(self, item: Item) -> None:
        key, sessions = item.row.session_id, self.board_app.client.sessions
        if item.row.archived:
            self.requests.start(key, lambda: sessions.restore(key))
            return
        self.requests.start(
            key, lambda: sessions.archive(key), lambda: self._offer_undo("Archived", item)
        )

    def action_delete(self) -> None:
        from agents_view.tui.screens.confirm_delete import ConfirmDelete

        item = self.selected
        if item is not None and self.reachable():
            self.app.push_screen(
                ConfirmDelete(item.row.session_id, item.title),
                lambda done: self._offer_undo("Deleted", item) if done else None,
            )

    def _offer_undo(self, what: str, item: Item) -> None:
        key, sessions = item.row.session_id, self.board_app.client.sessions

        def undo() -> None:
            self.requests.start(
                key, lambda: sessions.restore(key), lambda: self.tell(f"restored: {item.title}")
            )

        self.undo_last = (what, undo)
        window = self.board_app.settings.ui.undo_window
        self.notify(f"{what} {item.title}   u undo", timeout=window, markup=False)

    def action_undo(self) -> None:
        if self.undo_last is None:
            self.tell("nothing to undo")
            return
        if not self.reachable():
            return
        (_, undo), self.undo_last = self.undo_last, None
        undo()

    def action_copy_id(self) -> None:
        item = self.selected
        if item is not None:
            self.app.copy_to_clipboard(item.row.session_id)
            self.tell(f"copied {item.row.session_id}")

    # the board itself

    def action_filter(self) -> None:
        self.filter_input.display = True
        self.filter_input.focus()

    def action_back(self) -> None:
        if self.filter_input.display:
            self.filter_input.value = ""
            self.filter_input.display = False
            self.roster.focus()

    def action_toggle_archived(self) -> None:
        self.model.show_archived = not self.model.show_archived
        self.model.rebuild()
        self.roster.lines_changed()
        self.tell("archived shown" if self.model.show_archived else "archived hidden")

    def action_repaint(self) -> None:
        self.board_app.action_repaint()

    def action_palette(self) -> None:
        from agents_view.tui.screens.palette import ActionPalette

        usable = [action for action in self.usable_actions() if action.palette]
        self.app.push_screen(ActionPalette(usable, self.board_app.keys), self._chosen)

    def _chosen(self, action: Action | None) -> None:
        if action is not None:
            getattr(self, f"action_{action.method}")()

    def action_help(self) -> None:
        from agents_view.tui.screens.help import Help

        usable = self.usable_actions()
        self.app.push_screen(Help("Board", usable, self.board_app.keys))

    def action_quit(self) -> None:
        self.app.exit(return_code=0)
