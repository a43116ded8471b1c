"""The supervisor's roster and the client's mirror (R2–R7, R33, 07.2)."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agents_view.daemon.policy.rows import Coverage, without_work
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.supervisor.roster import Roster
from agents_view.daemon.wire import SessionFacts
from daemon_client.roster import RosterMirror, RosterRow, Waiting
from daemon_client.status import label_of, section_of


def session(key: str, parent: str | None = None, root: str = "root") -> Session:
    return Session(
        session_id=key,
        agent="shell",
        cwd="/w",
        store="",
        root_id=root,
        parent_id=parent,
        depth=0 if parent is None else 1,
        created_at_ms=1,
        last_activity_at_ms=1,
    )


def busy(key: str) -> SessionFacts:
    return SessionFacts(session_id=key, resident=True, worker_state="ready", turn="thinking")


def quiet(key: str) -> SessionFacts:
    return SessionFacts(session_id=key, resident=True, worker_state="ready")


def tree_of_three() -> Roster:
    roster = Roster("g")
    roster.put(session("root"), session("child", "root"), session("grand", "child"))
    roster.put_facts([quiet("root"), quiet("child"), quiet("grand")])
    roster.flush()
    return roster


def test_r33_a_working_grandchild_counts_once_at_every_level() -> None:
    roster = tree_of_three()
    roster.put_facts([busy("grand")])
    batch = roster.flush()
    assert batch is not None
    assert {row.session_id: row.running_children for row in batch.upserts} == {
        "root": 1,
        "child": 1,
        "grand": 0,
    }
    roster.put_facts([busy("child")])
    roster.flush()
    assert roster.row("root").running_children == 2
    roster.put_facts([quiet("grand"), quiet("child")])
    roster.flush()
    assert roster.row("root").running_children == 0
    assert section_of(roster.row("root")) == "idle"


def test_r33_a_deleted_working_child_stops_counting() -> None:
    roster = tree_of_three()
    roster.put_facts([busy("grand")])
    roster.flush()
    roster.remove(["grand"])
    batch = roster.flush()
    assert batch is not None and batch.removals == ("grand",)
    assert roster.row("root").running_children == 0


def test_r5_a_change_of_any_fact_republishes_the_row() -> None:
    roster = tree_of_three()
    for name, value in {
        "recap": "x",
        "exit_cause": "y",
        "waiting": Waiting(kind="permission", since_ms=1),
        "background": 1,
        "model": "m",
    }.items():
        roster.put_facts([msgspec.structs.replace(quiet("root"), **{name: value})])
        batch = roster.flush()
        assert batch is not None, name
        assert [row.session_id for row in batch.upserts] == ["root"]


def test_nothing_changed_nothing_sent() -> None:
    roster = tree_of_three()
    roster.put_facts([quiet("root")])
    roster.put(session("root"))
    assert roster.flush() is None


def test_r6_a_recovering_worker_hides_nothing_and_clears_the_turn() -> None:
    roster = tree_of_three()
    roster.put_facts([busy("root")])
    roster.map_facts("root", without_work)
    roster.cover("root", Coverage(state="recovering"))
    row = roster.row("root")
    assert (section_of(row), label_of(row, 0)) == ("idle", "recovering")


def test_r6_a_failed_worker_says_why() -> None:
    roster = tree_of_three()
    roster.cover("root", Coverage(state="failed", cause="worker ended: killed"))
    row = roster.row("root")
    assert label_of(row, 0) == "failed: worker ended: killed"


def test_r7_stale_is_neither_idle_nor_running_by_itself() -> None:
    roster = tree_of_three()
    roster.put_facts([busy("root")])
    roster.cover("root", Coverage(state="ready", stale=True, last_heard_at_ms=1000))
    row = roster.row("root")
    assert (section_of(row), label_of(row, 41_000)) == ("running", "last heard 40s ago")


def test_a_tree_without_worker_is_inactive() -> None:
    roster = tree_of_three()
    roster.put_facts([busy("child")])
    roster.drop_facts("root")
    roster.flush()
    assert [section_of(roster.row(k)) for k in ("root", "child", "grand")] == ["inactive"] * 3


def test_since_returns_just_what_was_missed() -> None:
    roster = tree_of_three()
    at = roster.sequence
    roster.put_facts([busy("grand")])
    roster.flush()
    roster.remove(["child"])
    roster.flush()
    missed = roster.since(at)
    assert missed is not None
    assert {row.session_id for row in missed.upserts} == {"root", "grand"}
    assert missed.removals == ("child",)


def test_r41_mirror_shows_the_old_rows_until_the_new_snapshot_is_whole() -> None:
    mirror = RosterMirror()
    mirror.begin("g")
    mirror.chunk([RosterRow(session_id="a")])
    assert not mirror.complete and len(mirror) == 0
    mirror.end(1)
    assert mirror.complete and mirror.get("a") is not None
    mirror.begin("h")
    mirror.chunk([RosterRow(session_id="b")])
    assert mirror.get("a") is not None and mirror.get("b") is None
    mirror.end(7)
    assert mirror.get("a") is None and mirror.get("b") is not None


def test_mirror_ignores_a_repeat_and_notifies_once_per_batch() -> None:
    mirror = RosterMirror()
    mirror.begin("g")
    mirror.end(1)
    seen = []
    mirror.subscribe(seen.append)
    mirror.delta(2, [RosterRow(session_id="a"), RosterRow(session_id="b")], [])
    mirror.delta(2, [RosterRow(session_id="c")], [])
    assert len(seen) == 1 and seen[0].changed == {"a", "b"}
    assert mirror.get("c") is None


@given(st.lists(st.tuples(st.sampled_from(["root", "child", "grand"]), st.booleans())))
def test_a_mirror_fed_with_deltas_equals_the_roster(steps: list[tuple[str, bool]]) -> None:
    roster, mirror = tree_of_three(), RosterMirror()
    mirror.begin("g")
    mirror.chunk(roster.rows())
    mirror.end(roster.sequence)
    for key, working in steps:
        roster.put_facts([busy(key) if working else quiet(key)])
        if batch := roster.flush():
            mirror.delta(batch.sequence, batch.upserts, batch.removals)
    assert {row.session_id: row for row in mirror} == {r.session_id: r for r in roster.rows()}


def test_equal_texts_of_a_snapshot_are_kept_once() -> None:
    """Ten thousand rows name the same few directories: that is megabytes of memory."""
    codec = msgspec.msgpack.Decoder(list[RosterRow])
    encoded = msgspec.msgpack.encode(
        [RosterRow(session_id=k, root_id=k, cwd="/home/u/src", store="/st") for k in "ab"]
    )
    mirror = RosterMirror()
    mirror.begin("g")
    mirror.chunk(codec.decode(encoded))
    mirror.end(1)
    one, other = mirror.get("a"), mirror.get("b")
    assert one.cwd is other.cwd and one.store is other.store
    assert one.root_id is one.session_id
