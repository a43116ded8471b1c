"""The board: the first screen (spec 03.1). Thin: the model says what, the list draws it."""

from __future__ import annotations

import time

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input

from agents_view.board.ink import FAINT, TEXT, Piece, spread
from agents_view.board.model import BoardModel
from agents_view.board.paint import label_pieces, row_age
from agents_view.board.transcript.ascii import in_ascii
from agents_view.tui.actions import bindings_for, key_name
from agents_view.tui.bars import Header, header_pieces, key_bar_pieces
from agents_view.tui.guard import KeyGuard
from agents_view.tui.messages import LinkChanged, RosterChanged, Tick
from agents_view.tui.requests import Requests
from agents_view.tui.screens.board_actions import BoardActions
from agents_view.tui.widgets.line import LineBar
from agents_view.tui.widgets.roster_list import RosterList
from daemon_client.connection import Link, LinkState
from daemon_client.errors import DaemonError
from daemon_client.text import clean

_AIRY_FROM = 30
_NARROW = 60


class FilterInput(Input):
    """The filter line: escape leaves it, enter keeps it."""

    BINDINGS = [Binding("escape", "screen.leave_filter", show=False)]


class BoardScreen(BoardActions, Screen[None]):
    """Shows the model, sends keys to their handlers (`BoardActions`)."""

    CSS_PATH = "board.tcss"
    BINDINGS = bindings_for("board")
    AUTO_FOCUS = "RosterList"

    def __init__(self) -> None:
        super().__init__()
        self.model = BoardModel()
        self.undo_last = None
        self._last_seen_ms: int | None = None
        self._unseen = False

    def compose(self) -> ComposeResult:
        app = self.board_app
        self.guard = KeyGuard(app.settings.ui.key_guard, time.monotonic)
        self.requests = Requests(self)
        self.roster = RosterList(self.model, app.look, app.glyphs, app.home)
        self.header = LineBar(self._header, lambda: app.look, id="header")
        self.filter_input = FilterInput(id="filter", placeholder="filter", select_on_focus=False)
        self.filter_input.display = False
        self.info = LineBar(self._info, lambda: app.look, "selblur", id="info")
        self.info.display = False
        self.bar = LineBar(self._key_bar, lambda: app.look, id="keys")
        yield self.header
        yield self.roster
        yield self.info
        yield self.filter_input
        yield self.bar

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._relook())
        self.roster.tick(self.board_app.now(), beat=False)
        self._take_whole()
        self._connect()

    @work(exit_on_error=False)
    async def _connect(self) -> None:
        """Only once the first frame stands: nobody waits for the daemon (R41)."""
        client = self.board_app.client
        client.follow_in_background()
        client.connection.open_in_background()

    @work(exit_on_error=False)
    async def _find_agents(self) -> None:
        """An empty board names what is installed; without an answer it names nothing."""
        try:
            found = await self.board_app.client.service.agents()
        except DaemonError:
            return
        names = (agent.id for agent in found.agents if agent.found and agent.id != "shell")
        self.model.installed = tuple(names)[:4]
        if not self.model.items:
            self.model.rebuild()
            self.roster.lines_changed()

    def _relook(self) -> None:
        self.roster.set_look(self.board_app.look, self.board_app.glyphs)
        self.refresh(layout=True)

    # what comes

    @on(RosterChanged)
    def _roster_changed(self, message: RosterChanged) -> None:
        if self._take(message.changed, message.removed):
            self._lines_moved()
        else:
            self.roster.rows_changed(message.changed)
        self._count_changed()

    def take_unseen(self, changed: frozenset[str], removed: frozenset[str]) -> None:
        """Changes while a whole screen covers the board: drawn when it is shown again."""
        self._take(changed, removed)
        self._unseen = True
        self.board_app.set_window_title(self.model.counts.need_you)

    def on_screen_resume(self) -> None:
        if self._unseen:
            self._unseen = False
            self._lines_moved()
            self._link_stands(self.board_app.client.connection.state)
            self._count_changed()

    def _take(self, changed: frozenset[str], removed: frozenset[str]) -> bool:
        """Into the model; True if lines moved."""
        mirror = self.board_app.client.mirror
        if mirror.complete and not self.model.complete:
            self.model.complete = True
            self.model.replace(mirror)
            if not self.model.items:
                self._find_agents()
            return True
        rows = [row for key in changed if (row := mirror.get(key)) is not None]
        return self.model.update(rows, removed)

    def _lines_moved(self) -> None:
        if self.roster.lines_changed():
            self.guard.changed()
        if not self.roster.selected and self.model.complete:
            self.roster.move_to_end(last=False)

    @on(LinkChanged)
    def _link_changed(self, message: LinkChanged) -> None:
        self._link_stands(message.state)

    def _link_stands(self, state: LinkState) -> None:
        up = state.link is Link.UP
        if not up and self._last_seen_ms is None:
            self._last_seen_ms = self.board_app.now() if self.model.items else None
        elif up:
            self._last_seen_ms = None
        self.roster.set_connected(up or not self.model.items)
        self.header.update()
        self.bar.update()

    @on(Tick)
    def _ticked(self, message: Tick) -> None:
        self.roster.tick(message.now_ms, beat=message.beat)
        self.header.update()
        self.info.update()

    @on(RosterList.Moved)
    def _moved(self, message: RosterList.Moved) -> None:
        if not message.by_person:
            self.guard.changed()
        self.info.update()
        self.bar.update()

    @on(RosterList.Opened)
    def _double_clicked(self) -> None:
        self.action_open()

    def on_key(self, event: events.Key) -> None:
        self.guard.pressed()

    def on_resize(self, event: events.Resize) -> None:
        self.model.airy = event.size.height >= _AIRY_FROM
        if self.model.height != event.size.height:
            self.model.height = event.size.height
            self.model.rebuild()
            self.roster.lines_changed()
        self.info.display = event.size.width < _NARROW
        self.header.refresh()
        self.bar.refresh()

    def _take_whole(self) -> None:
        mirror = self.board_app.client.mirror
        self.model.height = self.app.size.height
        self.model.airy = self.model.height >= _AIRY_FROM
        self.model.complete = mirror.complete
        self.model.replace(mirror)
        self.roster.lines_changed()
        self.roster.move_to_end(last=False)
        self._count_changed()

    def _count_changed(self) -> None:
        self.header.update()
        self.info.update()
        self.bar.update()
        self.board_app.set_window_title(self.model.counts.need_you)

    # filter

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.model.set_filter(event.value)
        self.roster.lines_changed()
        if not self.roster.selected:
            self.roster.move_to_end(last=False)
        self._count_changed()

    @on(Input.Submitted, "#filter")
    def _filter_kept(self) -> None:
        self.roster.focus()

    def action_leave_filter(self) -> None:
        self.filter_input.value = ""
        self.filter_input.display = False
        self.roster.focus()

    # bars

    def _marks(self, pieces: list[Piece]) -> list[Piece]:
        return in_ascii(pieces) if self.board_app.glyphs.ascii else pieces

    def _header(self, width: int) -> list[Piece]:
        app = self.board_app
        soonest = self.model.upcoming.soonest
        item = self.model.items.get(soonest.session_id) if soonest else None
        pieces = header_pieces(
            Header(
                counts=self.model.counts,
                link=app.client.connection.state,
                glyphs=app.glyphs,
                now_ms=app.now(),
                last_seen_ms=self._last_seen_ms,
                embedded=app.embedded,
                soonest=soonest,
                soonest_title=item.title if item else "",
            ),
            width,
        )
        return self._marks(pieces)

    def _info(self, width: int) -> list[Piece]:
        """Below 60 columns: agent, whole label and age of the selected row."""
        item = self.model.items.get(self.roster.selected_session)
        if item is None:
            return []
        now = self.board_app.now()
        agent: Piece = (f" {clean(item.row.agent, 60)}  ", FAINT)
        age: Piece = (row_age(item.row, now), FAINT)
        left = [agent, *label_pieces(item.row, now)]
        return self._marks(spread(left, [age, (" ", TEXT)], width))

    def _key_bar(self, width: int) -> list[Piece]:
        """Only what works now; while the filter is typed that is little."""
        if self.filter_input.has_focus:
            return key_bar_pieces((("enter", "keep"), ("escape", "show all")), "F1", width)
        usable = sorted((a for a in self.usable_actions() if a.bar), key=lambda a: a.bar)
        keys = self.board_app.keys
        hints = [(keys.of(action.id)[0], action.word) for action in usable]
        note = f"filter: {self.model.filter_text}" if self.model.filter_text else ""
        help_key = key_name(keys.of("board.help")[0])
        return self._marks(key_bar_pieces(hints, help_key, width, note))
