"""Workers, agent sessions and requests on real SQLite (S3, S21, A8, A14, 07.2)."""

from __future__ import annotations

import sqlite3

import pytest

from agents_view.daemon.store import agent_sessions, requests, sessions, workers
from agents_view.daemon.store.errors import StaleEpoch
from tests.store.samples import CHILD, NOW, OTHER, ROOT, agent_session, session, tree


def test_each_launch_is_the_next_epoch_without_a_process(db: sqlite3.Connection) -> None:
    assert workers.get(db, ROOT) is None
    assert workers.begin(db, ROOT, NOW) == 1
    assert workers.identify(db, ROOT, 1, 42, 7, "boot")
    assert workers.set_state(db, ROOT, 1, "ready", NOW + 1, crashes=2)
    assert workers.begin(db, ROOT, NOW + 2) == 2
    row = workers.get(db, ROOT)
    assert row is not None
    assert (row.pid, row.start, row.boot_id, row.state) == (None, None, None, "starting")
    assert row.crashes == 2, "a new launch does not forget crashes"


def test_a_moved_on_tree_is_not_touched(db: sqlite3.Connection) -> None:
    """S3: identity and state of an old epoch count no row."""
    workers.begin(db, ROOT, NOW)
    workers.begin(db, ROOT, NOW)
    assert not workers.identify(db, ROOT, 1, 42, 7, "boot")
    assert not workers.set_state(db, ROOT, 1, "failed", NOW)
    assert not workers.set_state(db, OTHER, 1, "failed", NOW)
    row = workers.get(db, ROOT)
    assert row is not None and (row.state, row.pid) == ("starting", None)


def test_state_keeps_crashes_unless_told(db: sqlite3.Connection) -> None:
    workers.begin(db, ROOT, NOW)
    workers.set_state(db, ROOT, 1, "recovering", NOW, cause="died", crashes=3)
    workers.set_state(db, ROOT, 1, "ready", NOW + 1)
    assert [(row.crashes, row.cause) for row in workers.load_all(db)] == [(3, None)]


def test_agent_session_is_replaced_whole(db: sqlite3.Connection) -> None:
    """A8: the agent's own id is durable under the row's id."""
    tree(db)
    agent_sessions.save(db, ROOT, 1, agent_session("a", pid=1))
    agent_sessions.save(db, ROOT, 1, agent_session("a", acp_session_id="theirs", can_load=True))
    assert agent_sessions.latest_loadable(db, ROOT) == agent_session(
        "a", acp_session_id="theirs", can_load=True
    )
    workers.begin(db, ROOT, NOW)
    with pytest.raises(StaleEpoch):
        agent_sessions.save(db, ROOT, 1, agent_session("b"))


def test_latest_loadable_is_the_newest_with_an_id(db: sqlite3.Connection) -> None:
    """A14: a newer row that never got an id hides no older conversation."""
    tree(db)
    for key, at_ms, theirs in (("a", NOW, "x"), ("b", NOW + 1, "y"), ("c", NOW + 2, None)):
        row = agent_session(key, created_at_ms=at_ms, acp_session_id=theirs)
        agent_sessions.save(db, ROOT, 1, row)
    found = agent_sessions.latest_loadable(db, ROOT)
    assert found is not None and found.acp_session_id == "y"
    assert agent_sessions.latest_loadable(db, OTHER) is None


def test_open_ones_of_a_tree_are_interrupted_once(db: sqlite3.Connection) -> None:
    tree(db)
    tree(db, OTHER)
    sessions.create(db, session(CHILD, ROOT))
    agent_sessions.save(db, ROOT, 1, agent_session("a"))
    agent_sessions.save(db, ROOT, 1, agent_session("b", CHILD, process="unknown"))
    agent_sessions.save(db, ROOT, 1, agent_session("c", process="exited", status="completed"))
    agent_sessions.save(db, OTHER, 1, agent_session("d", OTHER))
    assert {row.id for row in agent_sessions.open_of_tree(db, ROOT)} == {"a", "b"}
    agent_sessions.interrupt_open(db, ROOT, NOW + 5)
    assert agent_sessions.open_of_tree(db, ROOT) == []
    assert {row.id for row in agent_sessions.open_of_tree(db, OTHER)} == {"d"}
    states = dict(db.execute("SELECT id, status FROM agent_sessions").fetchall())
    assert states == {"a": "interrupted", "b": "interrupted", "c": "completed", "d": "running"}


def test_a_repeated_request_gets_its_outcome(db: sqlite3.Connection) -> None:
    """07.2: the request id is the idempotency key."""
    assert requests.begin(db, "r1", "rename", NOW) is None
    unfinished = requests.begin(db, "r1", "rename", NOW + 1)
    assert unfinished is not None and unfinished.outcome is None
    assert requests.finish(db, "r1", b"ok")
    repeat = requests.begin(db, "r1", "delete", NOW + 2)
    assert repeat == requests.StoredRequest(
        request_id="r1", command="rename", created_at_ms=NOW, outcome=b"ok"
    )


def test_an_outcome_is_written_once(db: sqlite3.Connection) -> None:
    requests.begin(db, "r1", "rename", NOW)
    assert requests.finish(db, "r1", b"first")
    assert not requests.finish(db, "r1", b"second")
    assert not requests.finish(db, "never", b"x")
    found = requests.begin(db, "r1", "rename", NOW)
    assert found is not None and found.outcome == b"first"


def test_old_requests_are_forgotten(db: sqlite3.Connection) -> None:
    """07.2: outcomes are kept for the retention, then the id is free."""
    for key, at_ms in (("old", NOW - 1), ("new", NOW)):
        requests.begin(db, key, "x", at_ms)
    assert requests.expire(db, NOW) == 1
    assert requests.begin(db, "old", "x", NOW) is None
    assert requests.begin(db, "new", "x", NOW) is not None
