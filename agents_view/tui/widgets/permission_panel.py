"""What an agent asks for, and only the answers it offers (spec 03.3, look 07).

What is drawn comes from our own structure: the agent's text is quoted and cannot draw over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Static

from agents_view.board.ink import FAINT, KEY, MUTED, TEXT, Ink, Piece
from agents_view.tui.guard import KeyGuard
from agents_view.tui.theme import Palette
from daemon_client.protocol.replies import PendingRequest, PermissionOption
from daemon_client.status import age_text
from daemon_client.text import clean, clean_lines

_LETTERS: Final = {
    "allow_once": "a",
    "allow_always": "A",
    "reject_once": "r",
    "reject_always": "R",
}
_HEADS: Final = {"permission": "needs approval: ", "question": "asks: ", "login": "needs login: "}
_FOR_GOOD: Final = ("allow_always", "reject_always")


class PermissionPanel(Vertical, can_focus=True):
    """Shows one pending request; answers by number or letter.

    `A` and `R` ask once more, naming the scope. Keys are inert until the request has been drawn
    for a moment, and in a burst.
    """

    DEFAULT_CSS = """
    PermissionPanel { height: auto; max-height: 20; background: $panel; padding: 0 1; }
    PermissionPanel VerticalScroll {
        height: auto; max-height: 10; background: $av-field; scrollbar-size-vertical: 1;
    }
    PermissionPanel Static { width: 1fr; height: auto; background: $panel; }
    PermissionPanel VerticalScroll Static { background: $av-field; padding: 0 1; }
    """

    class Answered(Message):
        """A person chose an option."""

        def __init__(self, request: PendingRequest, option: PermissionOption) -> None:
            super().__init__()
            self.request = request
            self.option = option

    def __init__(
        self, palette: Callable[[], Palette], guard: KeyGuard, now: Callable[[], int]
    ) -> None:
        super().__init__()
        self._palette = palette
        self._guard = guard
        self._now = now
        self._sure: PermissionOption | None = None
        self.request: PendingRequest | None = None

    def compose(self) -> ComposeResult:
        self._head = Static("", markup=False)
        self._command = Static("", markup=False)
        self._scroll = VerticalScroll(self._command, can_focus=False)
        self._options = Static("", markup=False)
        yield self._head
        yield self._scroll
        yield self._options

    def show(self, request: PendingRequest | None) -> None:
        """Show another request; its keys are inert for a moment (a key meant for the last one)."""
        shown = self.request
        if request is not None and shown and request.request_id == shown.request_id:
            self._redraw()
            return
        self.request = request
        self._sure = None
        self._guard.changed()
        self.display = request is not None
        if request is not None:
            self._redraw()
            self.set_timer(0.45, self._redraw)

    def _redraw(self) -> None:
        if self.request is None or not self.is_mounted:
            return
        request = self.request
        waited = age_text(self._now() - request.since_ms)
        head: list[Piece] = [
            (_HEADS.get(request.kind, "asks: "), Ink("attention", bold=True)),
            (clean(request.text, 300), TEXT),
            (f"   waits {waited}", MUTED),
        ]
        self._head.update(self._text(head))
        command = clean_lines(request.command or request.text, 200_000)
        self._command.update(Text(command, style=self._palette().ink_alone(TEXT)))
        self._options.update(self._text(self._offers(request)))

    def _offers(self, request: PendingRequest) -> list[Piece]:
        if self._sure is not None:
            return [
                ("again ", TEXT),
                (_LETTERS[self._sure.kind], KEY),
                (f" to {clean(self._sure.name, 80).lower()}", TEXT),
                (": every later request of this kind in this session", MUTED),
            ]
        ink = KEY if self._guard.allows() else FAINT
        pieces: list[Piece] = []
        for number, option in enumerate(request.options, start=1):
            letter = self._letter(option)
            pieces += [("   " if pieces else "", TEXT), (f"{number}", ink)]
            pieces += [(f" {letter}", ink)] if letter else []
            pieces += [(f" {clean(option.name, 60) or option.kind}", MUTED)]
        return pieces

    def _letter(self, option: PermissionOption) -> str:
        """A letter stands for the first option of its kind."""
        assert self.request is not None
        first = next((o for o in self.request.options if o.kind == option.kind), None)
        return _LETTERS.get(option.kind, "") if first is option else ""

    def on_key(self, event: events.Key) -> None:
        """Numbers and letters answer; up and down scroll a long command."""
        self._guard.pressed()
        if event.key in ("down", "up", "pagedown", "pageup"):
            step = {"down": 1, "up": -1, "pagedown": 8, "pageup": -8}[event.key]
            self._scroll.scroll_relative(y=step, animate=False, force=True)
            event.stop()
            return
        option = self._option_of(event.character or "")
        if option is None:
            self._sure = None
            self._redraw()
            return
        event.stop()
        request = self.request
        self._guard.deliberately(self.set_timer, lambda: self._choose(request, option))

    def _option_of(self, character: str) -> PermissionOption | None:
        if self.request is None:
            return None
        for number, option in enumerate(self.request.options, start=1):
            if character and character in (str(number), self._letter(option)):
                return option
        return None

    def _choose(self, asked: PendingRequest | None, option: PermissionOption) -> None:
        """Answers what was drawn when the key came, never what has taken its place since."""
        if asked is None or asked is not self.request:
            return
        if option.kind in _FOR_GOOD and self._sure != option:
            self._sure = option
            self._redraw()
            return
        self._sure = None
        self.post_message(self.Answered(asked, option))

    def _text(self, pieces: list[Piece]) -> Text:
        text = Text(end="")
        for part, ink in pieces:
            text.append(part, self._palette().ink_alone(ink))
        return text
