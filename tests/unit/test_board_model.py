"""Rows to lines: sections, order, trees, counts, selection (spec 02.4, 02.5, 02.7)."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_view.board.item import title_of
from agents_view.board.model import BoardModel
from daemon_client.roster import RosterRow, Schedule, Waiting
from tests.support.recorded_daemon import synthetic_rows

ARMED = Schedule(active=1)


def row(key: str, **facts: Any) -> RosterRow:
    facts.setdefault("name", key)
    facts.setdefault("created_at_ms", 1_000)
    facts.setdefault("last_activity_at_ms", 1_000)
    return RosterRow(session_id=key, **facts)


def board(*rows: RosterRow, expanded: tuple[str, ...] = ()) -> BoardModel:
    model = BoardModel()
    model.complete = True
    model.airy = False
    model.expanded.update(expanded)
    model.replace(rows)
    return model


def shown(model: BoardModel) -> list[str]:
    """Keys of all lines, headings as their section's name."""
    return [line.section if line.kind == "heading" else line.key for line in model.lines]


def sessions(model: BoardModel) -> list[str]:
    return [line.session_id for line in model.lines if line.kind == "session"]


# --- sections and order


def test_r20_headings_stand_in_order_even_when_empty() -> None:
    model = board(row("a", resident=True))
    assert shown(model) == [
        "running",
        "nothing:running",
        "idle",
        "a",
        "inactive",
        "nothing:inactive",
    ]


def test_r21_running_newest_created_first() -> None:
    model = board(
        row("old", turn="tools", created_at_ms=10, last_activity_at_ms=99),
        row("new", turn="tools", created_at_ms=20, last_activity_at_ms=1),
    )
    assert sessions(model) == ["new", "old"]


@pytest.mark.parametrize("resident", [True, False], ids=["idle", "inactive"])
def test_r21_quiet_ones_by_activity_then_created(resident: bool) -> None:
    model = board(
        row("a", resident=resident, last_activity_at_ms=5, created_at_ms=9),
        row("b", resident=resident, last_activity_at_ms=7, created_at_ms=1),
        row("c", resident=resident, last_activity_at_ms=5, created_at_ms=10),
    )
    assert sessions(model) == ["b", "c", "a"]


def test_r21_inactive_with_an_armed_job_first_own_or_of_a_descendant() -> None:
    model = board(
        row("recent", last_activity_at_ms=99),
        row("own", last_activity_at_ms=1, tree_heartbeats=ARMED, heartbeats=ARMED),
        row("below", last_activity_at_ms=2, tree_crons=ARMED),
        row("paused", last_activity_at_ms=50, tree_heartbeats=Schedule(paused=3)),
    )
    assert sessions(model) == ["below", "own", "recent", "paused"]


def test_r21_ties_by_name_then_id_and_invalid_times_last() -> None:
    model = board(
        row("3", name="same"),
        row("2", name="same"),
        row("1", name="zz"),
        row("0", name="aa", last_activity_at_ms=0),
        row("9", name="aa", last_activity_at_ms=-5),
    )
    assert sessions(model) == ["2", "3", "1", "0", "9"]


def test_r22_a_label_or_a_countdown_moves_nothing() -> None:
    before = row("a", turn="thinking", last_activity_at_ms=1)
    model = board(before, row("b", turn="tools"))
    lines = model.lines
    for facts in (
        {"turn": "tools", "tool_label": "make"},
        {"last_activity_at_ms": 500},
        {"heartbeats": Schedule(active=1, next_at_ms=7)},
        {"unread": True, "recap": "x", "stale": True},
        {"waiting": Waiting(kind="question", since_ms=1)},
    ):
        before = msgspec.structs.replace(before, **facts)
        assert not model.update([before], [])
        assert model.lines is lines, facts
        assert model.items["a"].row == before


def test_r22_the_end_of_a_turn_moves_its_row() -> None:
    model = board(row("a", turn="thinking", resident=True))
    assert model.update([row("a", resident=True)], [])
    assert shown(model)[2:4] == ["idle", "a"]


# --- counts


def test_r23_counts_are_of_the_lines_shown_and_top_level_only() -> None:
    model = board(
        row("p", turn="tools", running_children=1),
        row("c", parent_id="p", turn="tools"),
        row("i", resident=True),
        row("z"),
        row("gone", archived=True),
        expanded=("p",),
    )
    assert model.counts[:3] == (1, 1, 1)
    model.show_archived = True
    model.rebuild()
    assert model.counts[:3] == (1, 1, 2)
    model.set_filter("z")
    assert model.counts[:3] == (0, 0, 1)


def test_r13_r16_who_waits_and_what_is_new_counts_wherever_it_stands() -> None:
    waits = Waiting(kind="permission", since_ms=1)
    model = board(
        row("p", resident=True),
        row("c", parent_id="p", waiting=waits, turn="tools", unread=True),
        row("hidden", archived=True, waiting=waits, unread=True),
    )
    assert (model.counts.need_you, model.counts.unread) == (1, 1)
    model.update([row("c", parent_id="p")], [])
    assert (model.counts.need_you, model.counts.unread) == (0, 0)
    model.update([], ["c"])
    assert model.waiting() == ["hidden"]


def test_r13_next_that_needs_you_is_the_longest_wait_first() -> None:
    model = board(
        *(
            row(key, waiting=Waiting(kind="question", since_ms=since))
            for key, since in (("young", 30), ("old", 10), ("mid", 20))
        )
    )
    assert model.waiting() == ["old", "mid", "young"]


# --- trees

FAMILY = (
    row("root", turn="tools", running_children=1),
    row("first", parent_id="root", created_at_ms=10, resident=True),
    row("second", parent_id="root", created_at_ms=20, turn="thinking", running_children=1),
    row("grand", parent_id="second", created_at_ms=30, turn="thinking"),
)


def test_r30_children_fold_behind_a_summary() -> None:
    model = board(*FAMILY)
    assert shown(model)[:3] == ["running", "root", "below:root"]
    assert sessions(model) == ["root"]
    model.set_expanded("root", True)
    assert shown(model)[1:6] == ["root", "below:root", "first", "second", "below:second"]
    model.set_expanded("second", True)
    assert sessions(model) == ["root", "first", "second", "grand"]
    model.fold_all()
    assert sessions(model) == ["root"]


def test_r30_expansion_is_by_id_and_survives_a_new_roster() -> None:
    model = board(*FAMILY, expanded=("root",))
    model.replace(())
    model.replace(FAMILY)
    assert sessions(model) == ["root", "first", "second"]


def test_r30_guides_lead_to_the_last_child() -> None:
    model = board(*FAMILY, expanded=("root", "second"))
    guides = {line.session_id: line.guide for line in model.lines if line.kind == "session"}
    assert guides == {"root": "", "first": "├ ", "second": "└ ", "grand": "  └ "}


def test_r31_nested_rows_stand_in_the_section_of_their_root() -> None:
    model = board(*FAMILY, expanded=("root", "second"))
    assert {line.section for line in model.lines if line.kind == "session"} == {"running"}


def test_siblings_of_different_sections_in_the_same_millisecond() -> None:
    model = board(
        row("p", turn="tools"),
        row("busy", parent_id="p", turn="tools", created_at_ms=5),
        row("idle", parent_id="p", resident=True, created_at_ms=5, last_activity_at_ms=5),
        row("undated", parent_id="p", created_at_ms=0),
        expanded=("p",),
    )
    assert sessions(model) == ["p", "busy", "idle", "undated"]


def test_r32_a_child_without_its_parent_is_a_root_until_it_comes() -> None:
    model = board(row("c", parent_id="p", resident=True))
    assert sessions(model) == ["c"]
    assert model.counts.idle == 1
    assert model.update([row("p", resident=True)], [])
    assert sessions(model) == ["p"]
    assert model.update([], ["p"])
    assert sessions(model) == ["c"]


def test_r32_an_archived_parent_does_not_take_its_children_along() -> None:
    model = board(row("p", archived=True), row("c", parent_id="p", turn="tools"))
    assert sessions(model) == ["c"]


@pytest.mark.timeout(5)
def test_r32_cycles_hang_nothing() -> None:
    model = board(
        row("self", parent_id="self"),
        row("a", parent_id="b"),
        row("b", parent_id="c"),
        row("c", parent_id="a"),
        row("under", parent_id="c"),
        expanded=("self", "a", "b", "c"),
    )
    assert sorted(sessions(model)) == ["a", "b", "c", "self", "under"]
    assert model.child_count("a") == 3
    model.reveal("under")
    model.set_filter("under")
    assert "under" in sessions(model)


def test_r33_the_number_of_subagents_does_not_depend_on_the_filter() -> None:
    model = board(*FAMILY)
    assert model.child_count("root") == 3
    model.set_filter("grand")
    assert sessions(model) == ["root", "second", "grand"]
    assert model.child_count("root") == 3


def test_reveal_unfolds_all_ancestors() -> None:
    model = board(*FAMILY)
    model.reveal("grand")
    assert "grand" in model.position


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.sampled_from("abcdefx") | st.none(),
            st.sampled_from((None, "tools")),
            st.integers(-1, 2),
        ),
        max_size=12,
    ),
    st.sampled_from(("", "a", "b c", "zz")),
)
def test_whatever_comes_every_session_has_one_line(
    facts: list[tuple[str, str | None, Any, int]], typed: str
) -> None:
    model = board(expanded=tuple("abcdef"))
    model.set_filter(typed)
    for key, parent, turn, at in facts:
        model.update([row(key, parent_id=parent, turn=turn, created_at_ms=at)], [])
        model.update([], ["f"])
    lines = sessions(model)
    assert len(lines) == len(set(lines))
    if not typed:
        assert set(lines) == set(model.items)
    assert model.position == {line.key: index for index, line in enumerate(model.lines)}
    fresh = board(*(item.row for item in model.items.values()), expanded=tuple("abcdef"))
    fresh.set_filter(typed)
    assert model.counts == fresh.counts


# --- selection


def after(model: BoardModel, key: str, *removed: str, fold: bool = False) -> str | None:
    before, index = model.lines, model.position[key]
    if fold:
        model.fold_all()
    model.update([], removed)
    return model.nearest(key, before, index)


TEN = tuple(
    row(f"s{number}", resident=True, last_activity_at_ms=99 - number) for number in range(10)
)


def test_r40_the_selection_is_an_id() -> None:
    model = board(*TEN)
    assert after(model, "s5", "s1", "s2") == "s5"


def test_r40_the_nearest_neighbour_is_taken_however_many_go() -> None:
    assert after(board(*TEN), "s5", "s5") == "s6"
    assert after(board(*TEN), "s5", "s0", "s1", "s2", "s5") == "s6"
    assert after(board(*TEN), "s9", "s9") == "s8"
    assert after(board(*TEN), "s5", "s5", "s6", "s7") == "s4"
    assert after(board(*TEN), "s5", *(f"s{number}" for number in range(10))) is None


def test_r40_a_folded_child_leaves_the_selection_to_its_parent() -> None:
    model = board(*TEN, *FAMILY, expanded=("root", "second"))
    assert after(model, "grand", fold=True) == "root"


# --- titles, what comes next, speed


def test_a_title_is_the_name_else_the_first_message_else_agent_and_id() -> None:
    assert title_of(row("a", name="n", first_message="m")) == "n"
    assert title_of(row("a", name=" \x1b[31m ", first_message="do\nthis")) == "do this"
    assert title_of(row("0123456789abcdef", name=None, agent="codex")) == "codex 89abcdef"


def test_what_fires_next_follows_every_change() -> None:
    def at(key: str, **jobs: int) -> RosterRow:
        return row(key, **{kind: Schedule(active=1, next_at_ms=ms) for kind, ms in jobs.items()})

    model = board(at("a", heartbeats=50), at("b", crons=20, heartbeats=30), row("c"))
    assert model.upcoming.soonest == (20, "b", "cron")
    model.update([at("b", heartbeats=70)], [])
    assert model.upcoming.soonest == (50, "a", "heartbeat")
    model.update([], ["a"])
    assert model.upcoming.soonest == (70, "b", "heartbeat")
    model.update([row("b", heartbeats=Schedule(paused=1, next_at_ms=1))], [])
    assert model.upcoming.soonest is None


def test_an_empty_board_teaches_only_once_it_is_known_to_be_empty() -> None:
    model = BoardModel()
    model.rebuild()
    assert not any(line.kind == "lesson" for line in model.lines)
    model.complete = True
    model.rebuild()
    assert any(line.kind == "lesson" for line in model.lines)
    model.update([row("a")], [])
    assert not any(line.kind == "lesson" for line in model.lines)


def test_ten_thousand_rows_are_rebuilt_in_a_moment() -> None:
    model = board(*synthetic_rows(10_000))
    best = min(_timed(model) for _ in range(5))
    assert best < 0.15, "about 15 ms are usual; far more means something became quadratic"


def _timed(model: BoardModel) -> float:
    begin = time.perf_counter()
    model.rebuild()
    return time.perf_counter() - begin
