"""The board's keys and what comes from the daemon, over a recorded roster (spec 02, 03)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from textual.pilot import Pilot

from agents_view.base.settings import UiSettings
from agents_view.tui.messages import Tick
from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.screens.session import SessionScreen
from agents_view.tui.widgets.roster_list import RosterList
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import AgentInfo, AgentsFound, SessionReply
from daemon_client.roster import RosterRow
from tests.support.board_rows import HOUR, MINUTE, NOW_MS, ROWS, asked, key, row, working
from tests.support.boards import Board, until


@asynccontextmanager
async def shown(board: Board, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Pilot[int]]:
    async with board.app.run_test(size=size, notifications=True) as pilot:
        await board.ready(pilot)
        yield pilot


def got(board: Board, kind: type) -> list:
    return [command for command in board.daemon.received if isinstance(command, kind)]


def toasts(board: Board) -> list[str]:
    return [toast.message for toast in board.app._notifications]


def quiet_rows(count: int) -> list[RosterRow]:
    """s1 on top, then s2, …"""
    return [row(i, f"s{i}", "shell", "x", i * MINUTE) for i in range(1, count + 1)]


def line_of(board: Board, text: str) -> int:
    """Which line of the list shows it."""
    roster = board.screen.roster
    for y in range(roster.size.height):
        if text in roster.render_line(y).text:
            return y
    raise AssertionError(f"{text!r} is not in the list")


def selected(board: Board) -> str:
    item = board.screen.model.items.get(board.screen.roster.selected_session)
    return item.title if item else ""


# --- before the daemon answers


async def test_r41_the_board_stands_before_the_daemon_does_and_opens_nothing() -> None:
    board = Board()
    async with board.app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        await until(pilot, lambda: "the daemon is away" in board.text())
        assert "No agents" not in board.text(), "nobody knows that yet"
        await pilot.press("enter", "r", "d")
        assert isinstance(board.app.screen, BoardScreen)
        await board.ready(pilot)
        await until(pilot, lambda: "api-review" in board.text())
        assert selected(board) == "api-review"


async def test_an_empty_roster_is_said_to_be_empty_once_it_is_complete() -> None:
    board = Board(rows=())
    async with board.app.run_test(size=(100, 30)) as pilot:
        await board.daemon.__aenter__()
        await until(pilot, lambda: "No agents" in board.text())
        board.daemon.delta(ROWS[0])
        await until(pilot, lambda: "api-review" in board.text())
        assert "or in a terminal" not in board.text()


# --- moving


async def test_moving() -> None:
    board = Board()
    async with shown(board) as pilot:
        for keys, expected in (
            ("j", "fix-flaky-tests"), ("k", "api-review"), ("k", "api-review"),
            ("G", "pricing-copy"), ("g", "api-review"), ("end", "pricing-copy"),
            ("home", "api-review"), ("2", "triage"), ("3", "deploy-watch"), ("1", "api-review"),
            ("down", "fix-flaky-tests"), ("up", "api-review"),
        ):  # fmt: skip
            await pilot.press(keys)
            assert selected(board) == expected, keys


async def test_pages_and_the_row_in_view() -> None:
    board = Board(quiet_rows(100))
    async with shown(board, (80, 24)) as pilot:
        for _ in range(20):
            await pilot.press("ctrl+d")
        assert selected(board) == "s100"
        line_of(board, "s100 ")
        await pilot.press("ctrl+u", "pageup", "k")
        await pilot.pause(0.05)
        line_of(board, f"{selected(board)} ")


async def test_the_last_line_says_how_many_follow_and_is_never_the_selected_one() -> None:
    board = Board(quiet_rows(30))
    async with shown(board, (80, 14)) as pilot:
        assert "↓ 22 more" in board.text()
        for number in range(2, 31):
            await pilot.press("j")
            line_of(board, f"s{number} ")
        assert "more" not in board.text().splitlines()[-2]


async def test_tab_goes_around_those_who_wait_also_in_a_folded_tree_and_behind_a_filter() -> None:
    nested = msgspec.structs.replace(ROWS[2], waiting=asked("question", HOUR, "which?"))
    board = Board((*ROWS[:2], nested, *ROWS[3:]))
    async with shown(board) as pilot:
        order = ["bisect-regression", "payments-refactor", "api-review", "bisect-regression"]
        for expected in order:
            await pilot.press("tab")
            assert selected(board) == expected
        await pilot.press("slash", *"triage", "enter")
        await until(pilot, lambda: selected(board) == "triage")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: selected(board) == "bisect-regression")


async def test_unfolding_and_folding() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("j", "l")
        assert "bisect-regression" in board.text()
        await pilot.press("j", "j")
        assert selected(board) == "bisect-regression"
        await pilot.press("h")
        assert selected(board) == "fix-flaky-tests"
        assert "bisect-regression" not in board.text()
        await pilot.press("j", "enter", "j", "o")
        assert selected(board) == "fix-flaky-tests"
        assert "bisect-regression" not in board.text()


# --- the selection


async def test_r40_the_selection_and_its_line_stay_when_others_come_and_go() -> None:
    board = Board(quiet_rows(60))
    async with shown(board, (80, 24)) as pilot:
        for _ in range(15):
            await pilot.press("j")
        line = line_of(board, "s16 ")
        board.daemon.delta(*(row(100 + i, f"n{i}", "shell", "x", 1) for i in range(3)))
        await until(pilot, lambda: key(102) in board.screen.model.items)
        await pilot.pause(0.1)
        assert (selected(board), line_of(board, "s16 ")) == ("s16", line)
        board.daemon.delta(removals=[key(i) for i in range(1, 17)])
        await until(pilot, lambda: selected(board) == "s17")


async def test_what_a_person_has_scrolled_to_stays_too() -> None:
    board = Board(quiet_rows(60))
    async with shown(board, (80, 24)) as pilot:
        board.screen.roster.scroll_to(y=30, animate=False, force=True)
        await pilot.pause(0.05)
        line = line_of(board, "s40 ")
        board.daemon.delta(*(row(100 + i, f"n{i}", "shell", "x", 1) for i in range(3)))
        await until(pilot, lambda: key(102) in board.screen.model.items)
        await pilot.pause(0.1)
        assert line_of(board, "s40 ") == line


async def test_r40_the_selection_survives_a_change_of_section_and_a_reconnect() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("2")
        board.daemon.delta(msgspec.structs.replace(ROWS[8], turn="thinking"))
        await until(pilot, lambda: board.screen.model.counts.running == 7)
        assert selected(board) == "triage"
        await board.daemon.__aexit__(None, None, None)
        await until(pilot, lambda: "the daemon is away" in board.text())
        assert "triage" in board.text()
        await board.ready(pilot)
        await until(pilot, lambda: "7 running" in board.text())
        assert selected(board) == "triage"


async def test_the_mouse_selects_opens_and_scrolls() -> None:
    board = Board(quiet_rows(60))
    async with shown(board, (80, 24)) as pilot:
        await pilot.click(RosterList, offset=(10, 6))
        assert selected(board) == "s4"
        await pilot.click(RosterList, offset=(10, 6), times=2)
        await until(pilot, lambda: isinstance(board.app.screen, SessionScreen))


# --- the filter


async def test_the_filter_is_live_keeps_ancestors_and_goes_with_escape() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("slash", *"bisect")
        assert "fix-flaky-tests" in board.text() and "bisect-regressi" in board.text()
        assert "api-review" not in board.text()
        assert "1 running" in board.text() and "F1 help" in board.text()
        await pilot.press("enter", "j", "j")
        assert selected(board) == "bisect-regression"
        await pilot.press("escape")
        assert "api-review" in board.text()
        assert board.screen.model.filter_text == ""


async def test_letters_in_the_filter_destroy_nothing() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("slash", *"axdy!R")
        await pilot.pause(0.1)
        assert {type(command) for command in board.daemon.received} <= {
            c.RosterSubscribe,
            c.AgentsList,
        }


# --- sessions


async def test_r16_opening_is_lazy_and_returns_to_the_same_selection() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("2", "enter")
        await until(pilot, lambda: isinstance(board.app.screen, SessionScreen))
        await until(pilot, lambda: got(board, c.Seen))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        assert selected(board) == "triage"


SHELL = AgentInfo(id="shell", name="Shell", found=True, command="built in")


async def test_a_new_session_is_started_and_selected_when_it_comes() -> None:
    board = Board()
    fresh = row(50, "fresh", "shell", "src/api", 0)
    board.daemon.answers[c.AgentsList] = AgentsFound(agents=(SHELL,))
    board.daemon.answers[c.Create] = SessionReply(row=fresh)
    async with shown(board) as pilot:
        await pilot.press("n")
        await until(pilot, lambda: "built in" in board.text())
        await pilot.press("enter", *"ls", "enter")
        await until(pilot, lambda: got(board, c.Create))
        command = got(board, c.Create)[0]
        assert (command.agent, command.cwd, command.prompt) == ("shell", "/home/u/src/api", "ls")
        assert not command.draft and command.environ
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        assert selected(board) == "api-review"
        board.daemon.delta(fresh)
        await until(pilot, lambda: selected(board) == "fresh")


async def test_renaming_and_undoing_an_archive() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("2", "r", "end", *"-2", "enter")
        await until(pilot, lambda: got(board, c.Rename))
        assert got(board, c.Rename)[0] == c.Rename(session_id=key(7), name="triage-2")
        await pilot.press("a")
        await until(pilot, lambda: "Archived triage   u undo" in toasts(board))
        await pilot.press("u")
        await until(pilot, lambda: got(board, c.Restore))
        assert got(board, c.Restore)[0].session_id == key(7)
        await pilot.press("u")
        assert "nothing to undo" in toasts(board)


async def test_archiving_what_works_asks_first() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("j", "a")
        assert "At work: this session and 1 subagent." in board.text()
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert not got(board, c.Archive)
        await pilot.press("a")
        await pilot.pause(0.05)
        await pilot.press("y")
        await until(pilot, lambda: got(board, c.Archive))


async def test_cancelling_a_turn_waking_and_copying() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("x")
        await until(pilot, lambda: got(board, c.CancelTurn))
        await pilot.press("3", "w")
        await until(pilot, lambda: got(board, c.Wake))
        await pilot.press("y")
        assert board.app.clipboard == key(10)
        await pilot.press("2", "x")
        await pilot.pause(0.1)
        assert len(got(board, c.CancelTurn)) == 1, "there is no turn to cancel"


async def test_a_request_marks_its_row_until_it_is_over() -> None:
    board = Board()
    async with shown(board) as pilot:
        answer, held = board.daemon._answer, []

        def hold(link, request) -> None:
            held.append((link, request))

        board.daemon._answer = hold
        await pilot.press("x", "r", "end", *"2", "enter")
        await until(pilot, lambda: len(held) == 2)
        assert "api-review …" in board.text()
        answer(*held[0])
        await pilot.pause(0.1)
        assert "api-review …" in board.text(), "the second is still under way"
        answer(*held[1])
        await until(pilot, lambda: "api-review …" not in board.text())


# --- when the daemon is away


@pytest.mark.parametrize("pressed", ["a", "d", "x", "r"])
async def test_keys_that_need_the_daemon_say_so_and_keep_nothing_for_later(pressed: str) -> None:
    board = Board((ROWS[0], *ROWS[13:]))
    async with shown(board) as pilot:
        await board.daemon.__aexit__(None, None, None)
        await until(pilot, lambda: "as of 0s ago" in board.text())
        assert "x cancel turn" not in board.text()
        await pilot.press(pressed, *(["z", "enter"] if pressed == "r" else []))
        await pilot.pause(0.1)
        assert "the daemon is away · nothing was done" in toasts(board)
        await board.ready(pilot)
        await pilot.pause(0.1)
        kept = (c.Archive, c.Delete, c.CancelTurn, c.Rename)
        assert not [command for command in board.daemon.received if isinstance(command, kept)]


# --- keys that are not meant


async def test_a_change_in_view_holds_dangerous_keys_for_a_moment() -> None:
    board = Board(ui=UiSettings(key_guard=0.4))
    async with shown(board) as pilot:
        await pilot.pause(0.5)
        board.daemon.delta(row(60, "newcomer", "shell", "x", 0, **working("tools", 0)))
        await until(pilot, lambda: "newcomer" in board.text())
        await pilot.press("x")
        await pilot.pause(0.1)
        assert not got(board, c.CancelTurn)
        await pilot.pause(0.4)
        await pilot.press("x")
        await until(pilot, lambda: got(board, c.CancelTurn))


async def test_a_change_out_of_view_holds_nothing() -> None:
    rows = [row(i, f"s{i}", "shell", "x", i * MINUTE, **working("tools", i)) for i in range(1, 61)]
    board = Board(rows, ui=UiSettings(key_guard=0.4))
    async with shown(board, (80, 24)) as pilot:
        await pilot.pause(0.5)
        board.daemon.delta(removals=[key(55)])
        await until(pilot, lambda: key(55) not in board.screen.model.items)
        await pilot.press("x")
        await until(pilot, lambda: got(board, c.CancelTurn))


# --- redrawing


async def test_a_second_redraws_only_the_lines_whose_text_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [row(1, "young", "shell", "x", 5_000), row(2, "old", "shell", "x", 5 * HOUR)]
    board = Board(rows)
    async with shown(board) as pilot:
        lines: list[int] = []
        monkeypatch.setattr(board.screen.roster, "refresh_line", lines.append)
        for seconds in range(1, 4):
            board.screen.post_message(Tick(NOW_MS + seconds * 1000, beat=False))
            await pilot.pause(0.02)
        young = board.screen.model.position[key(1)]
        assert lines == [young] * 3


async def test_changes_come_as_one_message_a_frame() -> None:
    board = Board()
    async with shown(board) as pilot:
        seen: list[object] = []
        update = board.screen.model.update

        def counted(changed, removed) -> bool:
            seen.append(None)
            return update(changed, removed)

        board.screen.model.update = counted
        for number in range(50):
            board.daemon.delta(msgspec.structs.replace(ROWS[1], tool_label=f"step {number}"))
            await asyncio.sleep(0.001)
        await until(pilot, lambda: "step 49" in board.text())
        assert len(seen) <= 6


# --- help, palette, keys of one's own


async def test_help_names_only_what_works_here() -> None:
    board = Board()
    async with shown(board, (100, 50)) as pilot:
        await pilot.press("2", "question_mark")
        text = board.text()
        assert "archive" in text and "cancel the turn" not in text and "wake" not in text
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))


async def test_the_palette_does_what_it_lists() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("3", "colon", *"wake", "enter")
        await until(pilot, lambda: got(board, c.Wake))
        await pilot.press("ctrl+p", *"no such thing", "enter")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))


async def test_a_remapped_key_works_everywhere_it_is_named() -> None:
    board = Board(keys={"session.rename": "M", "board.help": "H", "nonsense": "x"})
    async with shown(board, (140, 50)) as pilot:
        assert "[keys] nonsense: no such action" in "".join(toasts(board))
        assert "M rename" in board.text() and "H help" in board.text()
        await pilot.press("r")
        assert isinstance(board.app.screen, BoardScreen)
        await pilot.press("M")
        assert "Rename api-review" in board.text()


async def test_ctrl_c_ends_nothing_and_says_what_does() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("ctrl+c")
        await pilot.pause(0.05)
        assert "q leaves the board · sessions live on" in toasts(board)
        await pilot.press("q")
    assert board.app.return_code == 0


# --- foreign text and sizes

HOSTILE = (
    "bad [/ title", "[red]x[/red]", "[@click=app.quit]x[/]", "a\x1b]0;owned\x07b", "\u202eabc",
    "漢字" * 60, "👩‍👩‍👧‍👦" * 20, "[$primary]", "\\[b]",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_name_is_markup_anywhere(name: str) -> None:
    board = Board([row(1, name, "shell", name, 1, first_message=name, **working("tools", 1, name))])
    async with shown(board, (80, 24)) as pilot:
        for opening in ("r", "d", "a", "question_mark", "colon", "exclamation_mark"):
            await pilot.press(opening)
            await pilot.pause(0.05)
            assert "\x1b" not in board.text() and "\u202e" not in board.text()
            await pilot.press("escape")
            await pilot.pause(0.02)
        assert isinstance(board.app.screen, BoardScreen)


async def test_no_size_crashes_it() -> None:
    board = Board()
    async with shown(board) as pilot:
        for size in ((1, 1), (20, 3), (29, 5), (30, 5), (59, 9), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
            board.text()
        assert selected(board) == "api-review"
        line_of(board, "api-review")
