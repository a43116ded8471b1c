"""The lines around a transcript, and what ↑ and ↓ bring back (look 06)."""

from __future__ import annotations

import msgspec
import pytest

from agents_view.board.ink import Line, width_of
from agents_view.board.recall import Recall
from agents_view.board.session_lines import (
    HeaderFacts,
    Outgoing,
    StatusFacts,
    cut_left,
    header_line,
    queue_lines,
    send_mode,
    short_path,
    status_line,
    waiting_elsewhere,
)
from agents_view.board.transcript.ascii import in_ascii
from daemon_client.protocol.replies import QueuedPrompt
from daemon_client.roster import RosterRow, Waiting

ROW = RosterRow(
    session_id="a1",
    name="fix-flaky-tests",
    agent="codex",
    cwd="/home/u/src/core",
    resident=True,
    turn="tools",
    tool_label="pytest -q tests/net",
    turn_started_at_ms=1_000,
)
FACTS = HeaderFacts(now_ms=42_000, clock="14:18", home="/home/u", others_waiting=2)
QUEUE = (
    QueuedPrompt(prompt_id="q1", text="one"),
    QueuedPrompt(prompt_id="q2", text="fire", source="job"),
    QueuedPrompt(prompt_id="q3", text="three\nlines\x1b[31m"),
)


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


# --- header


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, "‹ fix-flaky-tests   ◆ running tools: pytest -q tests/net  41s"),
        (80, "‹ fix-flaky-tests   ◆ running tools: pytest -q te…   2 need you   codex  14:18"),
        (50, "‹ fix-flaky-tests   ◆ running too…   ? 2   14:18"),
    ],
)
def test_the_header_drops_what_matters_least(width: int, shown: str) -> None:
    line = header_line(ROW, FACTS, width)
    assert text_of(line).strip().startswith(shown) and width_of(line) == width


def test_the_whole_header() -> None:
    assert text_of(header_line(ROW, FACTS, 120)).endswith(
        "  2 need you     codex  ~/src/core  14:18 "
    )


@pytest.mark.parametrize("width", range(10, 140, 7))
def test_bars_fill_the_width_exactly(width: int) -> None:
    assert width_of(header_line(ROW, FACTS, width)) == width
    assert width_of(header_line(None, FACTS, width)) == width


def test_a_lost_daemon_takes_the_place_of_the_label() -> None:
    facts = msgspec.structs.replace(FACTS, trouble="daemon restarting…")
    shown = text_of(header_line(ROW, facts, 120))
    assert "daemon restarting…" in shown and "running tools" not in shown


def test_others_that_wait_come_by_their_waiting_time() -> None:
    def row(key: str, since_ms: int) -> RosterRow:
        return RosterRow(session_id=key, waiting=Waiting(kind="question", since_ms=since_ms))

    rows = [row("a", 30), row("b", 10), row("c", 20), RosterRow(session_id="d")]
    assert [r.session_id for r in waiting_elsewhere(rows, "c")] == ["b", "a"]


def test_paths() -> None:
    assert short_path("/home/u/src", "/home/u") == "~/src"
    assert short_path("/home/user2", "/home/u") == "/home/user2"
    assert cut_left("~/a/very/deep/directory", 18) == "…/deep/directory"


# --- queue


def test_the_queue_is_one_line_each() -> None:
    lines = [text_of(line).rstrip() for line in queue_lines(QUEUE, [], 60, keys=(("↑", "edit"),))]
    assert lines[0].startswith("   Queued  3 ──")
    assert lines[1].startswith("   1 one") and lines[1].endswith("↑ edit")
    assert lines[2:] == ["   2 ♥ fire", "   3 three lines"]
    assert queue_lines((), [], 60) == []


def test_a_long_queue_shows_its_end() -> None:
    queue = [QueuedPrompt(prompt_id=str(n), text=f"p{n}") for n in range(9)]
    lines = [text_of(line).strip() for line in queue_lines(queue, [], 80)]
    assert lines[0].startswith("Queued  9 · first 4 not shown ─") and lines[1:] == [
        "5 p4", "6 p5", "7 p6", "8 p7", "9 p8",
    ]  # fmt: skip


def test_what_is_on_its_way_is_shown_once() -> None:
    outgoing = [Outgoing(prompt_id="q1", text="one"), Outgoing(prompt_id="x", text="new")]
    lines = [text_of(line).strip() for line in queue_lines(QUEUE[:1], outgoing, 60)]
    assert lines[1:] == ["1 one", "… new"]


def test_a_held_prompt_says_why() -> None:
    held = (QueuedPrompt(prompt_id="q", text="x", held=True),)
    assert "held: the agent did not start" in text_of(queue_lines(held, [], 80)[1])


# --- status and enter


def test_the_status_line() -> None:
    row = msgspec.structs.replace(ROW, mode="auto-edit", model="gpt-5")
    facts = StatusFacts(now_ms=0, following=False, new=40, draft=True)
    shown = text_of(status_line(row, facts, 80))
    assert shown.startswith("   auto-edit · gpt-5 ")
    assert shown.endswith("↓ 40 new  G · draft kept")


def test_what_enter_does() -> None:
    idle = msgspec.structs.replace(ROW, turn=None)
    asleep = msgspec.structs.replace(idle, resident=False)
    assert send_mode(ROW, editing=False, connected=True) == "queue"
    assert send_mode(idle, editing=False, connected=True) == "send"
    assert send_mode(asleep, editing=False, connected=True) == "wake"
    assert send_mode(ROW, editing=True, connected=True) == "edit"
    assert send_mode(ROW, editing=False, connected=False) == "wait"


def test_marks_in_ascii_keep_their_width() -> None:
    line = header_line(ROW, FACTS, 100)
    plain = in_ascii(line)
    assert text_of(tuple(plain)).isascii() and width_of(plain) == 100
    assert in_ascii([("漢", line[0][1])])[0][0] == "??"


# --- recall


def test_up_brings_queued_prompts_then_down_leads_back() -> None:
    recall = Recall()
    assert recall.up("", QUEUE, ["old"]) == "three\nlines\x1b[31m" and recall.editing == "q3"
    assert recall.up("changed", QUEUE, ["old"]) == "one" and recall.editing == "q1"
    assert recall.up("one", QUEUE, ["old"]) is None
    assert recall.down("one", QUEUE, ["old"]) is not None and recall.editing == "q3"
    assert recall.down("x", QUEUE, ["old"]) == "" and recall.editing is None


def test_history_keeps_the_draft() -> None:
    recall, history = Recall(), ["first", "second"]
    assert recall.up("draft", (), history) == "second"
    assert recall.is_old("second") and not recall.is_old("second, changed")
    assert recall.up("second", (), history) == "first"
    assert recall.up("first", (), history) is None
    assert recall.down("first", (), history) == "second"
    assert recall.down("second", (), history) == "draft"
    assert recall.down("draft", (), history) is None
    assert not recall.is_old("draft")
