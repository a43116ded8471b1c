"""Deleting, answering, starting: nothing happens that was not meant (spec 02.8, 03.3, 03.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from agents_view.base.settings import UiSettings
from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.screens.confirm_delete import ConfirmDelete
from agents_view.tui.screens.new_session import Directories
from daemon_client.errors import ErrorCode
from daemon_client.protocol import Failure, WireError
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    AgentInfo,
    AgentsFound,
    DeletePlan,
    PendingRequest,
    PendingRequests,
    PermissionOption,
)
from daemon_client.roster import Schedule, TaskFacts
from tests.support.board_rows import MINUTE, NOW_MS, ROWS, key
from tests.support.boards import Board, until

GUARD = UiSettings(key_guard=0.3)
PLAN = DeletePlan(
    session_id=key(2), title="fix-flaky-tests", agent="codex", cwd="/home/u/src/core",
    working=True, subagents=2, subagents_working=("bisect-regression",), fingerprint="one",
)  # fmt: skip


@asynccontextmanager
async def shown(board: Board, size: tuple[int, int] = (100, 34)) -> AsyncIterator[Pilot[int]]:
    async with board.app.run_test(size=size, notifications=True) as pilot:
        await board.ready(pilot)
        yield pilot


def got(board: Board, kind: type) -> list:
    return [command for command in board.daemon.received if isinstance(command, kind)]


def refuse(board: Board, kind: type, code: ErrorCode, message: str) -> Callable[[], None]:
    """The daemon refuses such commands until the returned function is called."""
    answer = board.daemon._answer
    refusing = [True]

    def refusal(link, request) -> None:
        if not (refusing[0] and isinstance(request.body, kind)):
            answer(link, request)
            return
        failure = Failure(
            request_id=request.request_id, error=WireError(code=code, message=message)
        )
        link.send(board.daemon._codec.encode(failure))

    board.daemon._answer = refusal
    return lambda: refusing.__setitem__(0, False)


def paste(board: Board, text: str) -> None:
    """As a terminal without bracketed paste sends it."""
    for letter in text:
        board.app.post_message(events.Key({" ": "space"}.get(letter, letter), letter))


# --- deleting


def deleting(plan: DeletePlan = PLAN, ui: UiSettings | None = None) -> Board:
    board = Board(ui=ui)
    board.daemon.answers[c.DeletePreview] = plan
    return board


async def test_r50_the_dialog_names_the_session_and_what_goes_with_it() -> None:
    jobs = Schedule(active=1, paused=1, next_at_ms=NOW_MS + 5 * MINUTE)
    crons = Schedule(active=2, next_at_ms=NOW_MS - 1)
    task = TaskFacts(task_id="t", status="running")
    row = msgspec.structs.replace(ROWS[1], tree_heartbeats=jobs, tree_crons=crons, task=task)
    board = Board((*ROWS[:1], row, *ROWS[2:]))
    board.daemon.answers[c.DeletePreview] = msgspec.structs.replace(
        PLAN, queued=("then update CHANGELOG.md", "and push"), background=2
    )
    async with shown(board) as pilot:
        await pilot.press("j", "d")
        await until(pilot, lambda: "Goes with it" in board.text())
        text = board.text()
        for said in (
            "Delete fix-flaky-tests?",
            "codex · ~/src/core · running tools: pytest",
            "this session          working — stopped first",
            "2 subagents           1 working: bisect-regression",
            "2 queued prompts      then update CHANGELOG.md",
            "2 background processes",
            "1 paused heartbeat    will be cancelled",
            "task in progress      will be cancelled",
            "♥ armed heartbeat — next in 5m — will be cancelled",
            "◷ 2 armed crons — due now — will be cancelled",
            "Stays  ~/src/core and every file in it",
            "u for 10s, then 7 days in the trash",
        ):
            assert said in text, said
        assert "armed" not in text.split("Goes with it")[0]


async def test_r51_confirming_sends_what_was_shown_and_undo_is_offered() -> None:
    board = deleting()
    async with shown(board) as pilot:
        await pilot.press("j", "d")
        await until(pilot, lambda: "Goes with it" in board.text())
        await pilot.press("d")
        await pilot.pause(0.1)
        assert not got(board, c.Delete), "d again does nothing"
        await pilot.press("y")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        assert got(board, c.Delete) == [c.Delete(session_id=key(2), expected="one")]
        board.daemon.delta(removals=[key(2), key(20), key(21)])
        await until(pilot, lambda: key(2) not in board.screen.model.items)
        await pilot.press("u")
        await until(pilot, lambda: got(board, c.Restore))
        assert got(board, c.Restore)[0].session_id == key(2)


async def test_r51_facts_that_changed_are_shown_again_and_held_for_a_moment() -> None:
    board = deleting(ui=GUARD)
    relent = refuse(board, c.Delete, ErrorCode.CONFLICT, "it changed")
    async with shown(board) as pilot:
        await pilot.pause(0.35)
        await pilot.press("j", "d")
        await until(pilot, lambda: "Goes with it" in board.text())
        await pilot.pause(0.35)
        board.daemon.answers[c.DeletePreview] = msgspec.structs.replace(
            PLAN, subagents=5, fingerprint="two"
        )
        await pilot.press("y")
        await until(pilot, lambda: "changed since you asked" in board.text())
        assert "5 subagents" in board.text()
        relent()
        await pilot.press("y")
        await pilot.pause(0.1)
        assert [command.expected for command in got(board, c.Delete)] == ["one"]
        assert isinstance(board.app.screen, ConfirmDelete)
        await pilot.pause(0.3)
        await pilot.press("y")
        await until(pilot, lambda: len(got(board, c.Delete)) == 2)
        assert got(board, c.Delete)[1].expected == "two"


async def test_r53_a_refusal_is_said_and_nothing_is_gone() -> None:
    board = deleting()
    refuse(board, c.Delete, ErrorCode.BUSY, "a job could not be cancelled")
    async with shown(board) as pilot:
        await pilot.press("j", "d")
        await until(pilot, lambda: "Goes with it" in board.text())
        await pilot.press("y")
        await until(pilot, lambda: "nothing was deleted: a job could not" in board.text())
        await pilot.press("escape")
        assert "u undo" not in board.text()


async def test_escape_keeps_and_has_the_focus() -> None:
    board = deleting()
    async with shown(board) as pilot:
        await pilot.press("j", "d")
        await until(pilot, lambda: "Goes with it" in board.text())
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        assert not got(board, c.Delete)


@pytest.mark.parametrize("text", ["d" + "y" * 60, "dyaxdyaxdyax deploy my app", "yyyyyyyyyyy"])
async def test_a_paste_over_the_board_destroys_nothing(text: str) -> None:
    board = Board((ROWS[0], *ROWS[13:]), ui=UiSettings(key_guard=0.4))
    board.daemon.answers[c.DeletePreview] = PLAN
    async with shown(board) as pilot:
        await pilot.pause(0.45)
        paste(board, text)
        await pilot.pause(0.6)
        destroyed = (c.Delete, c.Archive, c.CancelTurn, c.Answer)
        assert not [command for command in board.daemon.received if isinstance(command, destroyed)]


@pytest.mark.parametrize("first", ["a", "x"])
async def test_not_even_the_first_letter_of_a_paste_acts(first: str) -> None:
    board = Board((ROWS[0], *ROWS[13:]))
    async with shown(board) as pilot:
        await pilot.press("x" if first == "x" else "G")
        await pilot.pause(0.1)
        before = len(board.daemon.received)
        paste(board, first + "kkkkkkkkkk")
        await pilot.pause(0.3)
        assert len(board.daemon.received) == before


# --- answering

REQUEST = PendingRequest(
    session_id=key(1),
    request_id="r1",
    kind="permission",
    text="run `make migrate`",
    since_ms=NOW_MS - 3 * MINUTE,
    command="\n".join(f"line {number}" for number in range(1, 41)),
    options=(
        PermissionOption(id="once", kind="allow_once", name="Allow once"),
        PermissionOption(id="always", kind="allow_always", name="Allow always"),
        PermissionOption(id="no", kind="reject_once", name="Reject"),
    ),
)


@asynccontextmanager
async def asking(*requests: PendingRequest, wait: bool = True) -> AsyncIterator[tuple]:
    board = Board(ui=GUARD if wait else UiSettings(key_guard=2.0))
    board.daemon.answers[c.Pending] = PendingRequests(requests=requests or (REQUEST,))
    async with shown(board) as pilot:
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "line 1" in board.text())
        await pilot.pause(0.35 if wait else 0)
        yield board, pilot


def answers(board: Board) -> list[tuple[str, str]]:
    return [(command.waiting_id, command.option_id) for command in got(board, c.Answer)]


@pytest.mark.parametrize(("pressed", "option"), [("a", "once"), ("1", "once"), ("3", "no")])
async def test_a_number_or_a_letter_answers_by_the_id_of_the_request(
    pressed: str, option: str
) -> None:
    async with asking() as (board, pilot):
        await pilot.press(pressed)
        await until(pilot, lambda: answers(board))
        assert answers(board) == [("r1", option)]


async def test_on_a_quiet_row_the_longest_wait_is_answered_and_the_selection_stays() -> None:
    board = Board()
    async with shown(board) as pilot:
        await pilot.press("2", "exclamation_mark")
        await until(pilot, lambda: got(board, c.Pending))
        assert got(board, c.Pending)[0].session_id == key(3)
        assert "payments-refactor" in board.text()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(board.app.screen, BoardScreen))
        assert board.screen.roster.selected_session == key(7)


async def test_what_is_not_offered_cannot_be_answered() -> None:
    async with asking() as (board, pilot):
        await pilot.press("R", "4", "y")
        await pilot.pause(0.15)
        assert answers(board) == []


async def test_always_asks_once_more_and_names_the_scope() -> None:
    async with asking() as (board, pilot):
        await pilot.press("A")
        await until(pilot, lambda: "every later request of this kind" in board.text())
        assert answers(board) == []
        await pilot.press("A")
        await until(pilot, lambda: answers(board))
        assert answers(board) == [("r1", "always")]


async def test_another_key_takes_always_back() -> None:
    async with asking() as (board, pilot):
        await pilot.press("A")
        await until(pilot, lambda: "every later request" in board.text())
        await pilot.press("j", "A")
        await pilot.pause(0.15)
        assert answers(board) == []


async def test_keys_are_inert_until_the_request_has_been_there_for_a_moment() -> None:
    async with asking(wait=False) as (board, pilot):
        await pilot.press("a")
        await pilot.pause(0.1)
        assert answers(board) == []
        await pilot.pause(2.0)
        await pilot.press("a")
        await until(pilot, lambda: answers(board))


async def test_a_paste_answers_nothing() -> None:
    async with asking() as (board, pilot):
        paste(board, "a" * 30)
        await pilot.pause(0.5)
        assert answers(board) == []


async def test_the_whole_command_can_be_read() -> None:
    async with asking() as (board, pilot):
        assert "line 40" not in board.text()
        for _ in range(8):
            await pilot.press("pagedown")
        await until(pilot, lambda: "line 40" in board.text())


async def test_an_answer_that_came_too_late_says_so() -> None:
    async with asking() as (board, pilot):
        refuse(board, c.Answer, ErrorCode.CONFLICT, "already answered")
        await pilot.press("a")
        await until(pilot, lambda: "already answered" in board.text())


async def test_the_next_request_is_shown_and_held_again() -> None:
    second = msgspec.structs.replace(REQUEST, request_id="r2", command="line 1 of another")
    async with asking() as (board, pilot):
        board.daemon.answers[c.Pending] = PendingRequests(requests=(second,))
        await pilot.press("a")
        await until(pilot, lambda: "line 1 of another" in board.text())
        await pilot.press("a")
        await pilot.pause(0.1)
        assert answers(board) == [("r1", "once")]


async def test_a_question_is_called_a_question() -> None:
    async with asking(msgspec.structs.replace(REQUEST, kind="question")) as (board, _):
        assert "asks: run `make migrate`" in board.text()


# --- starting

NO_CLAUDE = AgentInfo(
    id="claude", name="Claude Code", found=False, command="claude", hint="npm i -g something"
)
SHELL = AgentInfo(id="shell", name="Shell", found=True, command="built in")


async def test_agents_that_are_not_found_cannot_be_chosen_and_say_how_to_get_them() -> None:
    board = Board()
    board.daemon.answers[c.AgentsList] = AgentsFound(agents=(NO_CLAUDE, SHELL))
    async with shown(board) as pilot:
        await pilot.press("n")
        await until(pilot, lambda: "npm i -g something" in board.text())
        await pilot.press("up", "up", "enter", "enter")
        await until(pilot, lambda: got(board, c.Create))
        assert got(board, c.Create)[0].agent == "shell"
        assert got(board, c.Create)[0].draft, "without a prompt it is a draft"


async def test_an_error_of_the_start_stays_in_the_dialog_with_its_cause() -> None:
    board = Board()
    board.daemon.answers[c.AgentsList] = AgentsFound(agents=(SHELL,))
    refuse(board, c.Create, ErrorCode.AGENT_FAILED, "/gone is no directory")
    async with shown(board) as pilot:
        await pilot.press("n")
        await until(pilot, lambda: "built in" in board.text())
        await pilot.press("enter", *"ls", "enter")
        await until(pilot, lambda: "✗ /gone is no directory" in board.text())
        assert "ls" in board.text(), "what was typed is kept"


async def test_directories_are_completed(tmp_path: Path) -> None:
    for name in ("alpha", "beta", ".hidden", "be\x1b[31mta"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-file").touch()
    suggest = Directories().get_suggestion
    assert await suggest(f"{tmp_path}/al") == f"{tmp_path}/alpha"
    assert await suggest(f"{tmp_path}/b") == f"{tmp_path}/beta"
    assert await suggest(f"{tmp_path}/a-") is None
    assert await suggest(f"{tmp_path}/") == f"{tmp_path}/alpha"
    assert await suggest(f"{tmp_path}/.h") == f"{tmp_path}/.hidden"
    assert await suggest("/no/such/place/") is None
    assert await suggest("") is None
