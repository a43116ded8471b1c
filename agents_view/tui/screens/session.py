"""One session: its transcript as it grows, what waits, and where the next prompt is written (3.2).

Thin: the sheet says what is in view, the feed brings what comes, `SessionActions` does what keys
say. Opening only reads: an Inactive session is not woken by it (S33).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime

from textual import events, on, work
from textual.app import ComposeResult

from agents_view.board.ink import Piece
from agents_view.board.recall import Recall
from agents_view.board.session_lines import (
    SEND_WORDS,
    HeaderFacts,
    StatusFacts,
    header_line,
    send_mode,
    status_line,
    waiting_elsewhere,
)
from agents_view.board.transcript.ascii import in_ascii
from agents_view.tui.bars import key_bar_pieces
from agents_view.tui.guard import KeyGuard
from agents_view.tui.messages import LinkChanged, RosterChanged, Tick
from agents_view.tui.requests import Requests
from agents_view.tui.screens.session_actions import SessionActions
from agents_view.tui.session_feed import SessionFeed
from agents_view.tui.widgets.composer import Composer, ComposerArea
from agents_view.tui.widgets.line import LineBar
from agents_view.tui.widgets.permission_panel import PermissionPanel
from agents_view.tui.widgets.queue_list import QueueList
from agents_view.tui.widgets.transcript_view import TranscriptView
from daemon_client.connection import Link
from daemon_client.errors import DaemonError
from daemon_client.protocol.replies import SessionState
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import RosterRow, SessionId
from daemon_client.text import clean

_LOW = 30


class SessionScreen(SessionActions):
    """`session_id` is what it shows, for good; the row may come and go."""

    CSS_PATH = "session.tcss"
    AUTO_FOCUS = "ComposerArea"

    def __init__(self, session_id: SessionId) -> None:
        super().__init__()
        self.session_id = session_id
        self.state = SessionState(session_id=session_id)
        self.recall = Recall()
        self.sending = 0
        self._gone = False

    def compose(self) -> ComposeResult:
        app = self.board_app
        ascii_only = app.glyphs.ascii
        self.guard = KeyGuard(app.settings.ui.key_guard, time.monotonic)
        self.requests = Requests(self)
        self.transcript = TranscriptView(app.look, app.now(), ascii_only=ascii_only)
        self.transcript.placeholder = "reading…"
        self.panel = PermissionPanel(lambda: app.look, self.guard, app.now)
        self.panel.display = False
        self.queue_list = QueueList(app.look, ascii_only=ascii_only)
        self.queue_list.display = False
        draft = app.drafts.get(self.session_id, "")
        self.composer = Composer(draft, ascii_only=ascii_only)
        self.feed = SessionFeed(app.client, self.session_id, self, lambda: self.transcript.last_seq)
        yield LineBar(self._header, lambda: app.look, id="header")
        yield self.transcript
        yield self.panel
        yield self.queue_list
        yield self.composer
        yield LineBar(self._status, lambda: app.look, "bg", id="status")
        yield LineBar(self._key_bar, lambda: app.look, id="keys")

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._relook())
        self._follow()
        self._seen()
        self.update_words()

    def on_unmount(self) -> None:
        self.app.run_worker(self.feed.leave(), exit_on_error=False)

    @work(exit_on_error=False)
    async def _follow(self) -> None:
        await self.feed.run()

    @work(exit_on_error=False)
    async def _seen(self) -> None:
        """Opening is looking: it is not unread any more (R16)."""
        try:
            await self.board_app.client.sessions.seen(self.session_id)
        except DaemonError:
            return  # it stays marked: nobody is misled

    @property
    def row(self) -> RosterRow | None:
        """The facts as the roster has them now."""
        return self.board_app.client.mirror.get(self.session_id)

    # FeedListener

    def feed_entries(self, entries: Iterable[TranscriptEntry], *, tail: bool) -> None:
        self.transcript.feed(entries, now=tail)
        if tail:
            self.transcript.placeholder = "nothing here yet"
            self.transcript.refresh()

    def feed_restarted(self) -> None:
        self.transcript.restart()

    def feed_state(self, state: SessionState) -> None:
        self.state = state
        self.queue_list.show(state.queue)
        if self.recall.editing not in (None, *(prompt.prompt_id for prompt in state.queue)):
            self.recall.reset()  # it has been sent meanwhile: what is written stays, as new text
        asked = [request for request in state.pending if request.options]
        had_focus = self.panel.has_focus
        self.panel.show(asked[0] if asked else None)
        if had_focus and not asked:
            self.composer.area.focus()
        self._prune_outgoing()
        self.update_words()

    def feed_gone(self) -> None:
        if self._gone:
            return
        self._gone = True
        if self.is_current:
            self._leave_gone()

    def feed_failed(self, error: DaemonError) -> None:
        self.tell(clean(error.message, 300), problem=True)

    def _leave_gone(self) -> None:
        row = self.row
        name = clean(row.name, 60) if row is not None and row.name else "the session"
        self.app.pop_screen()
        self.app.notify(f"{name} was deleted", markup=False)

    def on_screen_resume(self) -> None:
        if self._gone:
            self._leave_gone()

    # what comes

    @on(RosterChanged)
    def _roster_changed(self, message: RosterChanged) -> None:
        if self.session_id in message.changed:
            row = self.row
            if row is not None and row.unread and self.is_current:
                self._seen()
        self.update_words()

    @on(LinkChanged)
    def _link_changed(self, message: LinkChanged) -> None:
        self.update_words()

    @on(Tick)
    def _ticked(self, message: Tick) -> None:
        self.transcript.tick(message.now_ms)
        self.update_bars()

    @on(TranscriptView.Changed)
    def _transcript_changed(self) -> None:
        self._prune_outgoing()
        self.update_bars()

    @on(TranscriptView.OlderWanted)
    def _older_wanted(self) -> None:
        if self.feed.has_older:
            self._older()

    @work(exclusive=True, group="older", exit_on_error=False)
    async def _older(self) -> None:
        await self.feed.older()
        self.update_bars()

    @on(Composer.Edited)
    def _edited(self) -> None:
        """Drafts are kept as they are typed, so that nothing can lose one."""
        text = self.composer.text
        if not self.recall.is_old(text):
            if text:
                self.board_app.drafts[self.session_id] = text
            else:
                self.board_app.drafts.pop(self.session_id, None)
        self.update_bars()

    @on(ComposerArea.History)
    def _history(self, message: ComposerArea.History) -> None:
        self.bring_back(message.step)

    @on(ComposerArea.Left)
    def _left(self) -> None:
        self.action_back()

    @on(QueueList.Emptied)
    def _queue_emptied(self) -> None:
        self.composer.area.focus()

    @on(PermissionPanel.Answered)
    def _answered(self, message: PermissionPanel.Answered) -> None:
        request, option = message.request, message.option
        talk = self.board_app.client.conversation
        self.requests.start(
            self.session_id,
            lambda: talk.answer(request.session_id, request.request_id, option.id),
        )

    def on_paste(self, event: events.Paste) -> None:
        """A paste is text, wherever the focus is: it never runs keys (3.3)."""
        event.stop()
        self.composer.area.put(event.text)
        self.composer.area.focus()

    def on_key(self, event: events.Key) -> None:
        self.guard.pressed()

    def on_descendant_focus(self) -> None:
        self.update_words()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < _LOW, "-low")
        self.update_bars()

    def _relook(self) -> None:
        app = self.board_app
        self.transcript.set_look(app.look, ascii_only=app.glyphs.ascii)
        self.queue_list.set_look(app.look, ascii_only=app.glyphs.ascii)
        self.refresh(layout=True)

    # bars

    def update_words(self) -> None:
        """After a change of facts: what enter does now, and the bars."""
        if not self.is_mounted:
            return
        mode = send_mode(
            self.row, editing=self.recall.editing is not None, connected=self.connected
        )
        self.composer.say(SEND_WORDS[mode])
        self.queue_list.editing = self.recall.editing is not None
        if self.recall.editing is not None:
            self.queue_list.chosen = self.recall.editing
        elif not self.queue_list.has_focus:
            self.queue_list.chosen = None
        self.queue_list.update()
        self.update_bars()

    def update_bars(self) -> None:
        """Draw header, status and key bar anew where they differ."""
        for bar in self.query(LineBar):
            bar.update()

    @property
    def connected(self) -> bool:
        return self.board_app.client.connection.state.link is Link.UP

    def _prune_outgoing(self) -> None:
        """What has arrived is shown by the daemon's own word from then on."""
        known = {prompt.prompt_id for prompt in self.state.queue}
        folder = self.transcript.sheet.folder
        outgoing = self.queue_list.outgoing
        left = [
            o for o in outgoing if o.prompt_id not in known and not folder.knows_prompt(o.prompt_id)
        ]
        if len(left) != len(outgoing):
            self.queue_list.outgoing = left
            self.queue_list.update()

    def _header(self, width: int) -> list[Piece]:
        app = self.board_app
        state, now_ms = app.client.connection.state, app.now()
        words = {Link.UP: "", Link.RESTARTING: "daemon restarting…"}
        trouble = words.get(state.link, clean(state.reason, 200) or "connecting…")
        facts = HeaderFacts(
            now_ms=now_ms,
            clock=datetime.fromtimestamp(now_ms / 1000).strftime("%H:%M"),
            home=app.home,
            others_waiting=len(waiting_elsewhere(app.client.mirror, self.session_id)),
            trouble=trouble,
        )
        return self._shown(header_line(self.row, facts, width))

    def _status(self, width: int) -> list[Piece]:
        sheet = self.transcript.sheet
        facts = StatusFacts(
            now_ms=self.board_app.now(),
            following=sheet.following,
            new=sheet.new_below,
            below=sheet.below,
            draft=bool(self.board_app.drafts.get(self.session_id)),
            note="…" if self.sending else "",
        )
        return self._shown(status_line(self.row, facts, width))

    def _key_bar(self, width: int) -> list[Piece]:
        help_key = "F1" if self.composer.area.has_focus else "?"
        return self._shown(key_bar_pieces(self.hints(), help_key, width))

    def _shown(self, pieces: Iterable[Piece]) -> list[Piece]:
        return in_ascii(pieces) if self.board_app.glyphs.ascii else list(pieces)
