"""What a screen below another does costs nothing: Textual would repaint the whole screen above."""

from __future__ import annotations

import msgspec
from textual.pilot import Pilot
from textual.screen import Screen

from agents_view.base.settings import Settings
from agents_view.tui.app import AgentsView
from agents_view.tui.screens.board import BoardScreen
from daemon_client import DaemonClient
from daemon_client.connection import Connection
from daemon_client.paths import Paths
from tests.support.recorded_daemon import RecordedDaemon, synthetic_rows


class Cover(Screen[None]):
    """A whole screen that counts how often it is drawn."""

    drawn = 0

    def render(self) -> str:
        self.drawn += 1
        return "cover"


def _app(paths: Paths) -> AgentsView:
    return AgentsView(DaemonClient(Connection(paths.socket)), Settings(), ticking=False)


async def _until(pilot: Pilot, met) -> None:
    for _ in range(200):
        if met():
            return
        await pilot.pause(0.02)
    raise AssertionError("never came true")


async def test_a_covered_board_takes_changes_and_draws_nothing() -> None:
    daemon = RecordedDaemon(synthetic_rows(60, kind="armed"))
    async with daemon as paths:
        app = _app(paths)
        async with app.run_test(size=(100, 30)) as pilot:
            board = app.screen
            assert isinstance(board, BoardScreen)
            await _until(pilot, lambda: len(board.model.items) == 60)
            cover = Cover()
            await app.push_screen(cover)
            await pilot.pause(0.2)
            before = cover.drawn
            first = next(iter(daemon.rows.values()))
            daemon.delta(msgspec.structs.replace(first, turn="tools"))
            await _until(pilot, lambda: board.model.counts.running == 1)
            app._second()
            await pilot.pause(0.2)
            assert cover.drawn == before
            app.pop_screen()
            await _until(pilot, lambda: board.roster.model.lines[2].session_id == first.session_id)
            await pilot.pause(0.1)
            assert "◆ 1 running" in str(board.header.render_line(0).text)
        await app.client.connection.close()


async def test_a_tick_that_changes_nothing_draws_nothing() -> None:
    async with RecordedDaemon(synthetic_rows(20, kind="armed")) as paths:
        app = _app(paths)
        async with app.run_test(size=(100, 30)) as pilot:
            board = app.screen
            assert isinstance(board, BoardScreen)
            await _until(pilot, lambda: len(board.model.items) == 20)
            app._second()
            await pilot.pause(0.2)
            drawn: list[object] = []
            app._display = lambda *args: drawn.append(args[1])
            app._second()
            await pilot.pause(0.2)
            assert [update for update in drawn if update is not None] == []
        await app.client.connection.close()
