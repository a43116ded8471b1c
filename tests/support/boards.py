"""The dashboard over a recorded roster, for pilot tests and pictures of the board."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from textual.pilot import Pilot

from agents_view.base.settings import Settings, UiSettings
from agents_view.tui.app import AgentsView
from agents_view.tui.screens.board import BoardScreen
from daemon_client.client import DaemonClient
from daemon_client.connection import ClientLimits, Connection
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.paths import paths_for
from daemon_client.roster import RosterRow
from tests.support.board_rows import NOW_MS, ROWS
from tests.support.recorded_daemon import RecordedDaemon

Keys = Callable[[Pilot[int]], Awaitable[None]]


class Board:
    """An app and the daemon it talks to; both end with the app's loop."""

    def __init__(
        self,
        rows: Iterable[RosterRow] = ROWS,
        *,
        theme: str | None = None,
        ui: UiSettings | None = None,
        keys: dict[str, str] | None = None,
    ) -> None:
        self.daemon = RecordedDaemon(rows)
        paths = paths_for(self.daemon.home)
        limits = ClientLimits(retry_first=0.02, retry_most=0.05)
        self.client = DaemonClient(Connection(paths.socket, revive=self._revive, limits=limits))
        settings = Settings(ui=ui or UiSettings(key_guard=0.01), keys=keys or {})
        self.app = AgentsView(
            self.client, settings, now=lambda: NOW_MS, ticking=False, home="/home/u", theme=theme
        )
        self._close_with_app()

    async def _revive(self) -> None:
        if not self.daemon.listening:
            raise DaemonError(ErrorCode.UNAVAILABLE, "the daemon is away")

    def _close_with_app(self) -> None:
        """The loop is the app's own in a picture: both ends have to go with it."""
        shutdown = self.app._shutdown

        async def close() -> None:
            await shutdown()
            await self.client.connection.close()
            await self.daemon.__aexit__(None, None, None)
            await asyncio.sleep(0.01)  # transports close on the loop's next rounds

        self.app._shutdown = close

    @property
    def screen(self) -> BoardScreen:
        screen = self.app.screen_stack[0]
        assert isinstance(screen, BoardScreen)
        return screen

    async def ready(self, pilot: Pilot[int]) -> None:
        """The roster is complete and drawn."""
        await self.daemon.__aenter__()
        await until(pilot, lambda: self.client.mirror.complete)
        await until(pilot, lambda: len(self.screen.model.items) == len(self.daemon.rows))
        await pilot.pause(0.05)

    def text(self) -> str:
        """What is on screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def until(pilot: Pilot[int], met: Callable[[], object]) -> None:
    """Wait for something to come about, bounded."""
    for _ in range(400):
        if met():
            return
        await pilot.pause(0.01)
    raise AssertionError("did not come about")
