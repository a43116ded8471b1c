"""One line of the board as cells: columns, glyphs, emphasis, badges (look.md 2–4, spec 02.3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agents_view.board.columns import LEFT, RIGHT, columns_for
from agents_view.board.ink import Piece, cut, width_of
from agents_view.board.model import BoardModel
from agents_view.board.paint import ASCII, UNICODE, Painting, paint, state_mark
from agents_view.board.steady import steady
from agents_view.board.transcript.ascii import in_ascii
from daemon_client.roster import RosterRow, Schedule, TaskFacts, Waiting
from tests.support.board_rows import HOUR, MINUTE, NOW_MS, ROWS
from tests.support.board_rows import row as made

WIDTHS = (30, 45, 59, 60, 71, 72, 80, 87, 88, 95, 96, 103, 104, 110, 115, 116, 120, 139, 140, 200)


def painting(width: int, **facts: Any) -> Painting:
    return Painting(width=width, columns=columns_for(width), now_ms=NOW_MS, home="/home/u", **facts)


def model_of(*rows: RosterRow) -> BoardModel:
    model = BoardModel()
    model.complete = True
    model.expanded.update(row.session_id for row in rows)
    model.replace(rows)
    return model


def pieces_of(row: RosterRow, width: int = 120, **facts: Any) -> list[Piece]:
    model = model_of(row)
    line = model.lines[model.position[row.session_id]]
    return paint(line, model, painting(width, **facts))


def text_of(row: RosterRow, width: int = 120, **facts: Any) -> str:
    return "".join(text for text, _ in pieces_of(row, width, **facts))


def ink_of(text: str, pieces: list[Piece]):
    return next(ink for piece, ink in pieces if text in piece)


# --- columns


@pytest.mark.parametrize(
    ("width", "title", "agent", "label", "badges", "age", "cwd"),
    [
        (140, 30, 8, 42, 18, 4, 22),
        (120, 24, 8, 37, 15, 4, 16),
        (110, 22, 8, 35, 14, 3, 12),
        (96, 22, 8, 35, 14, 3, 0),
        (92, 24, 0, 39, 14, 3, 0),
        (80, 20, 0, 33, 13, 3, 0),
        (60, 18, 0, 23, 9, 0, 0),
    ],
)
def test_the_width_alone_decides_the_columns(
    width: int, title: int, agent: int, label: int, badges: int, age: int, cwd: int
) -> None:
    columns = columns_for(width)
    assert (columns.title, columns.agent, columns.badges) == (title, agent, badges)
    assert (columns.age, columns.cwd) == (age, cwd)
    assert columns.label == label
    assert columns.countdowns == (width >= 72)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_line_fits_and_the_columns_never_move(width: int) -> None:
    model = model_of(*ROWS)
    for line in model.lines:
        assert width_of(paint(line, model, painting(width))) <= width
    columns = columns_for(width)
    if not columns.narrow:
        start = LEFT + columns.title + 2
        for row in (ROWS[0], ROWS[5], ROWS[13]):
            agent = text_of(row, width)[start : start + columns.agent]
            assert agent.strip() == (row.agent if columns.agent else "")


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from(WIDTHS))
def test_no_text_makes_a_line_longer_than_the_screen(name: str, label: str, width: int) -> None:
    row = made(1, name, label[:8], label, HOUR, turn="tools", tool_label=label, first_message=name)
    assert width_of(pieces_of(row, width)) <= width


def test_wide_characters_are_measured_in_cells() -> None:
    row = made(1, "漢字" * 30, "claude", "src", HOUR)
    text = text_of(row, 120)
    assert cell_len(text[: text.index("claude")]) == LEFT + 24 + 2


@pytest.mark.parametrize(
    "cluster",
    ["\U0001f1e9\U0001f1ea", "\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "e\u0301", "漢"],
    ids=ascii,
)
def test_a_cut_leaves_no_half_of_a_character(cluster: str) -> None:
    for width in range(1, 40):
        shown = cut(cluster * 30, width)
        assert cell_len(shown) <= width
        assert set(shown.split(cluster)) <= {"", "…"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family", "\U0001f469 family"),
        ("\U0001f44d\U0001f3fd ok", "\U0001f44d ok"),
        ("\u2764\ufe0f", "\u2764"),
        ("\U0001f1e9\U0001f1ea\U0001f1eb", "DEF"),
        ("1\ufe0f\u20e3", "1"),
        ("漢字 e\u0301", "漢字 e\u0301"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("a\x1b[31mb\n", "ab "),
    ],
    ids=ascii,
)
def test_emoji_are_reduced_to_what_every_terminal_draws_alike(text: str, shown: str) -> None:
    assert steady(text) == shown


def test_a_path_is_cut_from_the_left() -> None:
    text = text_of(made(1, "a", "claude", "src/some/very/deep/directory", HOUR), 120)
    assert text.rstrip().endswith("…/deep/directory")


# --- state and emphasis


@pytest.mark.parametrize(
    ("facts", "mark", "ink"),
    [
        ({"turn": "tools"}, "◆", "running"),
        ({"running_children": 1}, "◆", "running"),
        ({"turn": "tools", "waiting": Waiting(kind="question", since_ms=1)}, "◆", "attention"),
        ({}, "●", "muted"),
        ({"resident": False}, "○", "muted"),
        ({"heartbeats": Schedule(active=1)}, "●", "muted"),
        ({"turn": "tools", "stale": True}, "◇", "muted"),
        ({"stale": True}, "◇", "muted"),
        ({"resident": False, "exit_cause": "agent exited: code 1"}, "✗", "error"),
        ({"task": TaskFacts(task_id="t", status="failed")}, "✗", "error"),
    ],
)
def test_shape_says_the_state(facts: dict[str, Any], mark: str, ink: str) -> None:
    shown, how = state_mark(made(1, "a", "x", "y", 1, **facts), UNICODE)
    assert (shown, how.fg) == (mark, ink)


def test_only_working_rows_move() -> None:
    busy = made(1, "a", "x", "y", 1, turn="tools")
    asks = msgspec.structs.replace(busy, waiting=Waiting(kind="permission", since_ms=1))
    assert "◈" in text_of(busy, beat=True)
    assert "◈" not in text_of(asks, beat=True)


def test_r16_unread_is_bold_and_has_a_mark_of_its_own() -> None:
    pieces = pieces_of(made(1, "named", "x", "y", 1, unread=True))
    assert ink_of("named", pieces).bold
    assert pieces[1][0] == "•"
    assert not ink_of("named", pieces_of(made(1, "named", "x", "y", 1))).bold


def test_colour_covers_the_keyword_never_the_sentence() -> None:
    pieces = pieces_of(ROWS[0])
    keyword, sentence = ink_of("needs approval:", pieces), ink_of("make migrate", pieces)
    assert (keyword.fg, keyword.bold) == ("attention", True)
    assert (sentence.fg, sentence.bold) == ("text", False)


def test_r11_a_paused_heartbeat_is_faint_and_in_monochrome_says_so() -> None:
    row = made(1, "a", "x", "y", 1, tree_heartbeats=Schedule(paused=2))
    assert ink_of("♥ 2", pieces_of(row)).fg == "faint"
    assert "♥ 2p" in text_of(row, mono=True)
    armed = made(1, "a", "x", "y", 1, tree_heartbeats=Schedule(active=2))
    assert ink_of("♥ 2", pieces_of(armed)).fg == "schedule"
    assert "2p" not in text_of(armed, mono=True)


def test_r13_badges_stand_in_their_order_and_lose_countdowns_from_the_right() -> None:
    jobs = Schedule(active=1, next_at_ms=NOW_MS + 25 * MINUTE)
    row = made(
        1, "a", "x", "y", 1, turn="tools", tree_heartbeats=jobs, tree_crons=jobs,
        waiting=Waiting(kind="question", since_ms=NOW_MS - 3 * MINUTE),
    )  # fmt: skip
    assert "? 3m  ♥ 1·25m  ◷ 1  " in text_of(row, 140)
    assert "? 3m  ♥ 1  ◷ 1" in text_of(row, 120)
    assert "? 3m ♥ 1 ◷ 1  " in text_of(row, 80)
    assert text_of(row, 64).rstrip().endswith("? 3m  ♥ 1")


def test_without_a_daemon_nothing_has_a_colour() -> None:
    assert {ink.fg for _, ink in pieces_of(ROWS[0], connected=False)} == {"faint"}


def test_a_request_under_way_has_its_mark_behind_the_title() -> None:
    model = model_of(ROWS[0])
    line = model.lines[model.position[ROWS[0].session_id]]
    text = "".join(part for part, _ in paint(line, model, painting(120), pending=True))
    assert "api-review …" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_ascii_mode_has_nothing_else(width: int) -> None:
    model = model_of(*ROWS)
    for line in model.lines:
        pieces = in_ascii(paint(line, model, painting(width, glyphs=ASCII)))
        assert "".join(text for text, _ in pieces).isascii()
        assert width_of(pieces) <= width


def test_r30_the_summary_says_how_many_work_and_that_a_heartbeat_is_armed() -> None:
    model = model_of(*ROWS)
    key = f"below:{ROWS[1].session_id}"
    line = model.lines[model.position[key]]
    text = "".join(part for part, _ in paint(line, model, painting(120)))
    assert text.strip() == "▾ 1 of 2 subagents running · 1 heartbeat"
    assert text.index("▾") == LEFT


def test_headings_have_their_count_and_reach_the_margin() -> None:
    model = model_of(*ROWS)
    line = next(line for line in model.lines if line.kind == "heading")
    pieces = paint(line, model, painting(120))
    assert "".join(text for text, _ in pieces).startswith("   Running  6 ─")
    assert width_of(pieces) == 120 - RIGHT
