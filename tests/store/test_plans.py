"""The statements the store really sends use their indexes, on the migrated schema (spec 10.5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from agents_view.daemon.store import agent_sessions, prompts, requests, sessions
from agents_view.daemon.store.prompts import Fence
from tests.store.samples import NOW, ROOT, tree

Work = Callable[[sqlite3.Connection], object]


def plans(db: sqlite3.Connection, work: Work) -> list[str]:
    """The plan of each statement `work` sends, taken from the trace and not from a copy of it."""
    sent: list[str] = []
    db.set_trace_callback(sent.append)
    work(db)
    db.set_trace_callback(None)
    wanted = [text for text in sent if text.split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT")]
    assert wanted
    return [row[3] for text in wanted for row in db.execute(f"EXPLAIN QUERY PLAN {text}")]


CASES: dict[str, tuple[Work, str]] = {
    "queued": (lambda db: prompts.queued(db, ROOT), "prompts_open"),
    "queued_counts": (prompts.queued_counts, "prompts_open"),
    "interrupt_sent": (lambda db: prompts.interrupt_sent(db, ROOT, "x", NOW), "prompts_sent"),
    "of_tree": (lambda db: sessions.of_tree(db, ROOT), "sessions_by_root"),
    "trashed": (lambda db: sessions.trashed_before(db, NOW), "sessions_trashed"),
    "latest": (lambda db: agent_sessions.latest_loadable(db, ROOT), "agent_sessions_by_session"),
    "open": (lambda db: agent_sessions.open_of_tree(db, ROOT), "agent_sessions_by_session"),
    "expire": (lambda db: requests.expire(db, NOW), "requests_by_age"),
    "get": (lambda db: sessions.get(db, ROOT), "sqlite_autoindex_sessions_1"),
}


@pytest.mark.parametrize("name", CASES)
def test_uses_its_index_and_scans_no_table(db: sqlite3.Connection, name: str) -> None:
    work, index = CASES[name]
    steps = plans(db, work)
    assert any(index in step for step in steps), steps
    scans = [step for step in steps if step.startswith("SCAN") and "INDEX" not in step]
    assert scans == [], steps


def test_queued_and_latest_need_no_sorting(db: sqlite3.Connection) -> None:
    for name in ("queued", "queued_counts", "latest"):
        assert not [step for step in plans(db, CASES[name][0]) if "B-TREE" in step], name


def test_accepting_does_not_read_the_past(db: sqlite3.Connection) -> None:
    """The next position comes from an index, however many prompts a session had."""
    fence = tree(db)

    def accept(connection: sqlite3.Connection) -> None:
        prompts.accept(
            connection,
            Fence(root_id=ROOT, epoch=fence.epoch),
            prompt_id="p",
            session_id=ROOT,
            source="person",
            text="",
            now_ms=NOW,
        )

    steps = plans(db, accept)
    assert any("prompts_by_session" in step for step in steps), steps


@pytest.mark.parametrize("table", ["prompts", "agent_sessions"])
def test_purge_finds_children_by_index(db: sqlite3.Connection, table: str) -> None:
    """A cascade looks children up by their key: without an index each purge reads the table."""
    steps = db.execute(f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE session_id = 'x'")
    assert [row[3].startswith("SEARCH") for row in steps] == [True]
