"""The dashboard: an app over the daemon's roster. Short on purpose: screens do the work."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

from textual.app import App
from textual.binding import Binding
from textual.screen import ModalScreen, Screen

from agents_view.base.settings import Settings
from agents_view.board.paint import ASCII, UNICODE, Glyphs
from agents_view.tui import terminal
from agents_view.tui.actions import key_name
from agents_view.tui.clock import Now, wall_clock_ms
from agents_view.tui.keymap import Keymap, build_keymap
from agents_view.tui.messages import LinkChanged, RosterChanged, Tick
from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.theme import OURS, Palette
from daemon_client.client import DaemonClient
from daemon_client.connection import Connection, LinkState
from daemon_client.launch import ensure_daemon
from daemon_client.paths import Paths
from daemon_client.roster import RosterChange
from daemon_client.text import clean

_FRAME = 0.1
"""Seconds between two changes of the roster on the screen; the first is shown at once."""
_SETTLED = 1.0
"""Seconds after the start when what lives as long as the program has been made."""


class AgentsView(App[int]):
    """Owns the connection, the mirror, the theme and the clock."""

    TITLE = "agents-view"
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    COMMAND_PALETTE_BINDING = "ctrl+backslash"
    CSS_PATH = "app.tcss"
    BINDINGS = [Binding("ctrl+z", "suspend_process", show=False)]

    def __init__(
        self,
        client: DaemonClient,
        settings: Settings,
        *,
        embedded: bool = False,
        theme: str | None = None,
        banner: str = "",
        now: Now = wall_clock_ms,
        ticking: bool = True,
        home: str = "",
    ) -> None:
        super().__init__()
        self.client = client
        self.settings = settings
        self.embedded = embedded
        self.banner = banner
        self.now = now
        self.home = home
        self.drafts: dict[str, str] = {}
        self.palette_of_theme: Palette | None = None
        self._ticking = ticking
        self._beat = False
        self._changed: set[str] = set()
        self._removed: set[str] = set()
        self._publishing = False
        self._published_at = 0.0
        self._title = ""
        self.keys: Keymap = build_keymap(settings.keys)
        self.animation_level = "none"
        client.mirror.subscribe(self._collect)
        client.connection.on_link(self._link)
        for ours in OURS:
            self.register_theme(ours)
        wanted = theme or settings.ui.theme
        self.theme = wanted if wanted in self.available_themes else OURS[0].name

    # look

    @property
    def look(self) -> Palette:
        """The palette of the theme in use."""
        if self.palette_of_theme is None:
            self.palette_of_theme = Palette(self.current_theme, mono=self.no_color)
        return self.palette_of_theme

    @property
    def glyphs(self) -> Glyphs:
        return ASCII if self.settings.ui.ascii or not _utf8() else UNICODE

    def _theme_changed(self, theme: object) -> None:
        self.palette_of_theme = None

    # life

    def get_default_screen(self) -> Screen[None]:
        """The board itself: a blank screen below it would be drawn first, and again for nothing."""
        return BoardScreen()

    def on_mount(self) -> None:
        if self.no_color:
            self.add_class("-mono")
        self.theme_changed_signal.subscribe(self, self._theme_changed, immediate=True)
        self.set_keymap(self.keys.overrides)
        if self.is_headless:
            return
        terminal.on_signals(lambda code: self.exit(return_code=code))
        terminal.save_title()

    def on_ready(self) -> None:
        if not self.is_headless:
            self.set_timer(_SETTLED, _collect_garbage_again)
        if self._ticking:
            self.set_interval(1.0, self._second)
        for problem in self.keys.problems:
            self.notify(problem, severity="warning", markup=False)
        if self.banner:
            self.notify(self.banner, severity="warning", timeout=20, markup=False)

    def _second(self) -> None:
        if not self.is_headless:
            terminal.leave_if_lost()
        self._beat = not self._beat
        animate = self.settings.ui.animations and not self.no_color and not self.glyphs.ascii
        for screen in self._shown():
            screen.post_message(Tick(self.now(), beat=animate and self._beat))

    def _shown(self) -> list[Screen]:
        """Our screens that can be seen now, the uppermost first.

        A screen below another whole one hears nothing: Textual would repaint all of what is above
        for each message.
        """
        shown: list[Screen] = []
        for screen in reversed(self.screen_stack):
            shown.append(screen)
            if not isinstance(screen, ModalScreen):
                break
        return shown

    def set_window_title(self, need_you: int) -> None:
        """`2 need you · agents-view`, for whoever looks at another window."""
        title = f"{need_you} need you · agents-view" if need_you else "agents-view"
        if title != self._title and not self.is_headless:
            self._title = title
            terminal.set_title(clean(title))

    # the daemon

    def _collect(self, change: RosterChange) -> None:
        """At most one message per frame, however many batches come."""
        self._changed |= change.changed
        self._removed = (self._removed | change.removed) - change.changed
        if not self._publishing:
            self._publishing = True
            wait = self._published_at + _FRAME - time.monotonic()
            if wait > 0:
                self.set_timer(wait, self._publish)
            else:
                self.call_later(self._publish)

    def _publish(self) -> None:
        self._publishing = False
        self._published_at = time.monotonic()
        changed, removed = frozenset(self._changed - self._removed), frozenset(self._removed)
        self._changed.clear()
        self._removed.clear()
        shown = self._shown()
        for screen in shown:
            screen.post_message(RosterChanged(changed, removed, whole=False))
        for screen in self.screen_stack:
            if isinstance(screen, BoardScreen) and screen not in shown:
                screen.take_unseen(changed, removed)

    def _link(self, state: LinkState) -> None:
        for screen in self._shown():
            screen.post_message(LinkChanged(state))

    def action_suspend_process(self) -> None:
        """Back to the shell; `fg` continues."""
        if self.is_headless or not terminal.has_shell():
            self.notify("there is no shell to go back to", markup=False)
            return
        with self.suspend():
            terminal.restore_title()
            os.kill(os.getpid(), signal.SIGSTOP)
            terminal.save_title()
            terminal.set_title(self._title or "agents-view")

    def action_repaint(self) -> None:
        """Write every cell again: another program may have written over them."""
        self.screen.refresh(self.screen.size.region)

    def action_help_quit(self) -> None:
        """ctrl+c never ends anything; it says what does."""
        key = key_name(self.keys.of("app.quit")[0])
        self.notify(f"{key} leaves the board · sessions live on", markup=False)


def _collect_garbage_again() -> None:
    """Without the modules and the roster: a round over all of them would hold up a key for long."""
    gc.freeze()
    gc.enable()


def _utf8() -> bool:
    """Whether the locale can draw our marks."""
    wanted = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return wanted.upper() not in ("C", "POSIX")


def run(
    paths: Paths,
    settings: Settings,
    *,
    embedded: bool = False,
    theme: str | None = None,
    scope: str | None = None,
    banner: str = "",
) -> int:
    """Show the dashboard until it is left; the exit code. A missing daemon is started."""
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # empty means unset, and Textual would obey it

    async def revive() -> None:
        if not embedded:
            await ensure_daemon(paths)

    client = DaemonClient(Connection(paths.socket, revive=revive))
    app = AgentsView(
        client,
        settings,
        embedded=embedded,
        theme=theme,
        banner=banner,
        home=str(Path.home()),
    )
    try:
        app.run(mouse=settings.ui.mouse)
    finally:
        terminal.restore_title()
    return app.return_code or 0
