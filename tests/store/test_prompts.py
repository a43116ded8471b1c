"""Durable prompts: accepted means committed, sent happens at most once (spec 07.4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from agents_view.daemon.store import prompts, sessions, workers
from agents_view.daemon.store.errors import StaleEpoch
from agents_view.daemon.store.prompts import Fence
from tests.store.samples import CHILD, NOW, OTHER, ROOT, queue, session, tree


def order(db: sqlite3.Connection, session_id: str = ROOT) -> list[str]:
    return [prompt.prompt_id for prompt in prompts.queued(db, session_id)]


def state(db: sqlite3.Connection, prompt_id: str) -> str:
    found = prompts.get(db, prompt_id)
    return "" if found is None else found.state


def test_order_of_delivery_and_first(db: sqlite3.Connection) -> None:
    fence = tree(db)
    queue(db, fence, "p1", "p2")
    assert prompts.accept(
        db,
        fence,
        prompt_id="now",
        session_id=ROOT,
        source="agent",
        text="!",
        now_ms=NOW,
        first=True,
    )
    queue(db, fence, "p3")
    assert order(db) == ["now", "p1", "p2", "p3"]
    assert prompts.queued_counts(db) == {ROOT: 4}


def test_accepting_again_changes_nothing(db: sqlite3.Connection) -> None:
    """07.2: a repeated `deliver` neither queues twice nor revives what was sent."""
    fence = tree(db)
    queue(db, fence, "p1")
    assert prompts.mark_sent(db, fence, "p1", NOW + 1)
    again = prompts.accept(
        db, fence, prompt_id="p1", session_id=ROOT, source="person", text="other", now_ms=NOW
    )
    assert not again
    found = prompts.get(db, "p1")
    assert found is not None and (found.state, found.text) == ("sent", "text of p1")
    assert found.intact


def test_sent_once(db: sqlite3.Connection) -> None:
    """Compare-and-set: the second send counts no row."""
    fence = tree(db)
    queue(db, fence, "p1")
    assert [prompts.mark_sent(db, fence, "p1", NOW) for _ in range(2)] == [True, False]
    assert order(db) == []


@pytest.mark.parametrize("ends", ["done", "interrupted"])
def test_ended_once_and_only_after_sent(db: sqlite3.Connection, ends: str) -> None:
    fence = tree(db)
    queue(db, fence, "p1")
    assert not prompts.finish(db, fence, "p1", ends, "end_turn", NOW), "not sent yet"
    prompts.mark_sent(db, fence, "p1", NOW)
    assert prompts.finish(db, fence, "p1", ends, "end_turn", NOW + 2)
    assert not prompts.finish(db, fence, "p1", "done", "again", NOW + 3)
    found = prompts.get(db, "p1")
    assert found is not None
    assert (found.state, found.stop_reason, found.ended_at_ms) == (ends, "end_turn", NOW + 2)


def test_edit_and_remove_only_while_queued(db: sqlite3.Connection) -> None:
    fence = tree(db)
    queue(db, fence, "p1", "p2")
    assert prompts.edit(db, fence, "p1", "better")
    found = prompts.get(db, "p1")
    assert found is not None and found.text == "better" and found.intact
    assert prompts.remove(db, fence, "p2", NOW)
    assert not prompts.remove(db, fence, "p2", NOW)
    assert not prompts.edit(db, fence, "p2", "x")
    assert not prompts.mark_sent(db, fence, "p2", NOW)
    prompts.mark_sent(db, fence, "p1", NOW)
    assert not prompts.edit(db, fence, "p1", "too late")
    assert not prompts.remove(db, fence, "p1", NOW)
    assert (state(db, "p1"), state(db, "p2")) == ("sent", "removed")


def test_after_a_crash_sent_is_interrupted_and_queued_waits(db: sqlite3.Connection) -> None:
    """07.4: over the whole tree, and no other tree."""
    fence, other = tree(db), tree(db, OTHER)
    sessions.create(db, session(CHILD, ROOT))
    queue(db, fence, "p1", "p2")
    queue(db, fence, "c1", session_id=CHILD)
    queue(db, other, "o1")
    for owner, key in ((fence, "p1"), (fence, "c1"), (other, "o1")):
        prompts.mark_sent(db, owner, key, NOW)
    hit = prompts.interrupt_sent(db, ROOT, "worker died", NOW + 9)
    assert {p.prompt_id for p in hit} == {"p1", "c1"}
    assert all((p.state, p.stop_reason) == ("interrupted", "worker died") for p in hit)
    assert prompts.interrupt_sent(db, ROOT, "again", NOW + 10) == []
    assert (state(db, "o1"), order(db)) == ("sent", ["p2"])


WRITES: list[Callable[[sqlite3.Connection, Fence], object]] = [
    lambda db, fence: prompts.accept(
        db, fence, prompt_id="new", session_id=ROOT, source="job", text="", now_ms=NOW
    ),
    lambda db, fence: prompts.mark_sent(db, fence, "p1", NOW),
    lambda db, fence: prompts.finish(db, fence, "p2", "done", "end_turn", NOW),
    lambda db, fence: prompts.edit(db, fence, "p1", "x"),
    lambda db, fence: prompts.remove(db, fence, "p1", NOW),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_replaced_worker_writes_nothing(
    db: sqlite3.Connection, write: Callable[[sqlite3.Connection, Fence], object], epoch: int
) -> None:
    """S3: each write carries its epoch."""
    fence = tree(db)
    queue(db, fence, "p1", "p2")
    prompts.mark_sent(db, fence, "p2", NOW)
    assert workers.begin(db, ROOT, NOW) == 2
    before = db.total_changes
    with pytest.raises(StaleEpoch):
        write(db, Fence(root_id=ROOT, epoch=epoch))
    with pytest.raises(StaleEpoch):
        write(db, Fence(root_id=OTHER, epoch=2))
    assert db.total_changes == before
    write(db, Fence(root_id=ROOT, epoch=2))
    assert db.total_changes == before + 1


def test_rot_in_a_text_is_seen(db: sqlite3.Connection) -> None:
    """B6: `integrity_check` calls a flipped byte in a text fine; the checksum does not."""
    fence = tree(db)
    queue(db, fence, "p1", "p2")
    db.execute("UPDATE prompts SET text = 'text of q1' WHERE prompt_id = 'p1'")
    assert [prompt.intact for prompt in prompts.queued(db, ROOT)] == [False, True]
    db.execute("UPDATE prompts SET text = CAST(x'74ff' AS TEXT) WHERE prompt_id = 'p1'")
    assert [prompt.intact for prompt in prompts.queued(db, ROOT)] == [False, True]


def test_an_unreadable_prompt_hides_no_neighbour(
    db: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    fence = tree(db)
    queue(db, fence, "p1", "p2")
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute("UPDATE prompts SET source = 'ghost' WHERE prompt_id = 'p1'")
    assert order(db) == ["p2"]
    assert "p1" in caplog.text


def test_only_known_states_and_sessions(db: sqlite3.Connection) -> None:
    fence = tree(db)
    queue(db, fence, "p1")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE prompts SET state = 'lost'")
    with pytest.raises(sqlite3.IntegrityError):
        queue(db, fence, "p2", session_id=OTHER)
