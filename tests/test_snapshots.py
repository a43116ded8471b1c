"""Every screen and dialog of the board as a picture, with its text asserted beside it (3.9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from agents_view.base.settings import UiSettings
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    AgentInfo,
    AgentsFound,
    DeletePlan,
    PendingRequest,
    PendingRequests,
    PermissionOption,
)
from tests.support.board_rows import MINUTE, NOW_MS, key
from tests.support.boards import Board, Keys, until

Compare = Callable[..., bool]


@pytest.fixture
def picture(snap_compare: Compare):
    def take(
        board: Board, *says: str, size: tuple[int, int] = (120, 36), keys: Keys | None = None
    ) -> None:
        async def before(pilot: Pilot[int]) -> None:
            await board.ready(pilot)
            if keys is not None:
                await keys(pilot)
                await pilot.pause(0.05)
            shown = board.text()
            for text in says:
                assert text in shown, f"{text!r} is not on screen:\n{shown}"
            assert all(len(line) <= size[0] for line in shown.splitlines())

        assert snap_compare(board.app, terminal_size=size, run_before=before)

    return take


def pressing(*names: str, then: Callable[[], object] | None = None) -> Keys:
    async def press(pilot: Pilot[int]) -> None:
        await pilot.press(*names)
        if then is not None:
            await until(pilot, then)

    return press


SAYS = (
    " 2 need you ",
    "◆ 6 running  ● 3 idle  ○ 5 inactive  • 3 new",
    "• ◆ api-review                claude    needs approval: run `make migrate`     ? 3m  ♥ 1·25m",
    "▸ 1 of 2 subagents running · 1 heartbeat",
    "◇ edge-proxy                opencode  last heard 40s ago",
    "● triage                    claude    heartbeat · next 5m                    ♥ 1·5m",
    "○ deploy-watch              shell     asleep · wakes in 2h                   ♥ 1·2h",
    "✗ import-legacy             claude    failed: migration 0042 timed out",
)


def test_board_120x36(picture) -> None:
    picture(Board(), *SAYS)


def test_board_light_120x36(picture) -> None:
    picture(Board(theme="agents-view-light"), *SAYS)


def test_board_tree_unfolded(picture) -> None:
    picture(
        Board(),
        "▾ 1 of 2 subagents running · 1 heartbeat",
        "├ ◆ bisect-regression",
        "└ ● docs-check",
        keys=pressing("j", "l"),
    )


def test_board_80x24(picture) -> None:
    picture(
        Board(),
        "◆ api-review            needs approval: run `make migrat…  ? 3m ♥ 1·25m   3m",
        "pricing-copy",
        size=(80, 24),
    )


def test_board_50x16(picture) -> None:
    picture(Board(), "api-review", "? 3m", "claude  needs approval: run", size=(50, 16))


def test_board_mono_80x24(picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    picture(Board(), "♥ 1p", "◇ edge-proxy", size=(80, 24))


def test_board_ascii_80x24(picture) -> None:
    ui = UiSettings(ascii=True, key_guard=0.01)
    picture(Board(ui=ui), "R api-review", "- pricing-copy", "X import-legacy", size=(80, 24))


def test_empty_board_100x28(picture) -> None:
    board = Board(rows=())
    board.daemon.answers[c.AgentsList] = AGENTS
    keys = pressing(then=lambda: "qwen is installed" in board.text())
    says = ("Running  0", "No agents", "n  new session", "A heartbeat alone never")
    picture(board, *says, size=(100, 28), keys=keys)


def test_tiny_terminal(picture) -> None:
    picture(Board(), "too small", size=(28, 4))


def test_filter(picture) -> None:
    picture(
        Board(),
        "bisect-regressi…",
        "fix-flaky-tests",
        "Idle  0",
        size=(80, 24),
        keys=pressing("slash", *"bisect"),
    )


def test_disconnected(picture) -> None:
    board = Board()

    async def cut(pilot: Pilot[int]) -> None:
        await board.daemon.__aexit__(None, None, None)
        await until(pilot, lambda: "as of 0s ago" in board.text())

    picture(board, "the daemon", "api-review", size=(80, 24), keys=cut)


PLAN = DeletePlan(
    session_id=key(2),
    title="fix-flaky-tests",
    agent="codex",
    cwd="/home/u/src/core",
    working=True,
    subagents=2,
    subagents_working=("bisect-regression",),
    queued=("then update CHANGELOG.md",),
    fingerprint="f",
)


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=["120x36", "80x24"])
def test_delete_dialog(picture, size: tuple[int, int]) -> None:
    board = Board()
    board.daemon.answers[c.DeletePreview] = PLAN
    picture(
        board,
        "Delete fix-flaky-tests?",
        "2 subagents           1 working: bisect-regression",
        "1 queued prompt       then update CHANGELOG.md",
        "~/src/core and every file in it",
        "7 days in the trash",
        size=size,
        keys=pressing("j", "d", then=lambda: "Goes with it" in board.text()),
    )


def test_archive_dialog(picture) -> None:
    picture(Board(), "Archive fix-flaky-tests?", "cut off", keys=pressing("j", "a"))


AGENTS = AgentsFound(
    agents=(
        AgentInfo(id="shell", name="Shell", found=True, command="built in"),
        AgentInfo(id="qwen", name="Qwen Code", found=True, command="qwen --acp"),
        AgentInfo(
            id="claude",
            name="Claude Code",
            found=False,
            command="claude-agent-acp",
            hint="npm i -g @agentclientprotocol/claude-agent-acp",
        ),
    )
)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (50, 20)], ids=["120", "80", "50"])
def test_new_session_dialog(picture, size: tuple[int, int]) -> None:
    board = Board()
    board.daemon.answers[c.AgentsList] = AGENTS
    picture(
        board,
        "New session",
        "Shell",
        "Claude Code",
        "directory",
        size=size,
        keys=pressing("n", then=lambda: "Qwen Code" in board.text()),
    )


PENDING = PendingRequests(
    requests=(
        PendingRequest(
            session_id=key(1),
            request_id="r",
            kind="permission",
            text="run `make migrate`",
            since_ms=NOW_MS - 3 * MINUTE,
            command="set -e\ncd services/api\nmake migrate",
            options=(
                PermissionOption(id="1", kind="allow_once", name="Allow once"),
                PermissionOption(id="2", kind="allow_always", name="Allow always"),
                PermissionOption(id="3", kind="reject_once", name="Reject"),
            ),
        ),
    )
)


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=["120x36", "80x24"])
def test_permission_dialog(picture, size: tuple[int, int]) -> None:
    board = Board()
    board.daemon.answers[c.Pending] = PENDING

    async def ask(pilot: Pilot[int]) -> None:
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "cd services/api" in board.text())
        await pilot.pause(0.6)  # until its keys are live

    picture(
        board, "needs approval:", "waits 3m", "1 a Allow once", "3 r Reject", size=size, keys=ask
    )


def test_rename_dialog(picture) -> None:
    picture(Board(), "Rename api-review", size=(80, 24), keys=pressing("r"))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_help(picture, size: tuple[int, int]) -> None:
    picture(Board(), "Keys on Board", "Move", size=size, keys=pressing("question_mark"))


def test_palette(picture) -> None:
    picture(Board(), "archive", size=(80, 24), keys=pressing("ctrl+p", *"arch"))


def test_toast_offers_undo(picture) -> None:
    board = Board()
    keys = pressing("G", "a", then=lambda: "u undo" in board.text())
    picture(board, "Archived pricing-copy   u undo", size=(80, 24), keys=keys)
