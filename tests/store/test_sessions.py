"""Sessions and the spawn ledger on real SQLite (spec 01, 07.4)."""

from __future__ import annotations

import sqlite3

import pytest

from agents_view.daemon.store import agent_sessions, prompts, sessions, spawn_ledger, workers
from agents_view.daemon.store.errors import StaleEpoch
from agents_view.daemon.store.sessions import Counters
from tests.store.samples import CHILD, NOW, OTHER, ROOT, agent_session, queue, session, tree

COUNTERS = Counters(
    last_activity_at_ms=NOW + 5, first_message="hi", message_count=2, model="m", mode="ask"
)


def edges(db: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = db.execute("SELECT edge, session_id FROM spawn_ledger ORDER BY entry_id")
    return [(row[0], row[1]) for row in rows]


def test_what_is_created_is_read_back_whole(db: sqlite3.Connection) -> None:
    """07.4: a record survives its row, every field of it."""
    made = session(
        name="n", draft=True, owner_client_id="c", env_names='["A"]', env_kept='{"PATH":"/bin"}'
    )
    sessions.create(db, made)
    assert sessions.get(db, ROOT) == made
    assert (made.names, made.kept) == (("A",), {"PATH": "/bin"})
    assert sessions.get(db, OTHER) is None


def test_creating_again_changes_nothing(db: sqlite3.Connection) -> None:
    """07.2: a repeated request finds its session, with one spawn edge."""
    sessions.create(db, session(name="first"))
    sessions.create(db, session(name="second"))
    found = sessions.get(db, ROOT)
    assert found is not None and found.name == "first"
    assert edges(db) == [("spawn", ROOT)]


def test_tree_has_its_living_members_root_first(db: sqlite3.Connection) -> None:
    sessions.create(db, session(CHILD, ROOT))
    sessions.create(db, session(ROOT))
    sessions.create(db, session(OTHER))
    assert [s.session_id for s in sessions.of_tree(db, ROOT)] == [ROOT, CHILD]
    sessions.set_deleted(db, [CHILD], NOW, NOW)
    assert [s.session_id for s in sessions.of_tree(db, ROOT)] == [ROOT]


def test_rename_is_an_edge_and_no_activity(db: sqlite3.Connection) -> None:
    """01: renames never move `last_activity_at_ms`; a name makes a draft a session."""
    sessions.create(db, session(draft=True))
    assert sessions.rename(db, ROOT, "new", NOW + 9)
    found = sessions.get(db, ROOT)
    assert found is not None
    assert (found.name, found.draft, found.last_activity_at_ms) == ("new", False, NOW)
    assert edges(db) == [("spawn", ROOT), ("rename", ROOT)]
    assert not sessions.rename(db, OTHER, "nobody", NOW)
    assert edges(db) == [("spawn", ROOT), ("rename", ROOT)]


def test_archive_and_back(db: sqlite3.Connection) -> None:
    sessions.create(db, session())
    sessions.set_archived(db, [ROOT], NOW + 1)
    assert sessions.get(db, ROOT) == session(archived_at_ms=NOW + 1)
    sessions.set_archived(db, [ROOT], None)
    assert sessions.get(db, ROOT) == session()


def test_trash_keeps_its_first_time_and_one_edge(db: sqlite3.Connection) -> None:
    """07.4, affected rows: a repeated delete neither prolongs retention nor repeats its edge."""
    sessions.create(db, session())
    sessions.set_deleted(db, [ROOT], NOW + 1, NOW + 1)
    sessions.set_deleted(db, [ROOT], NOW + 2, NOW + 2)
    assert sessions.get(db, ROOT) == session(deleted_at_ms=NOW + 1)
    sessions.set_deleted(db, [ROOT, OTHER], None, NOW + 3)
    sessions.set_deleted(db, [ROOT, OTHER], None, NOW + 4)
    assert sessions.get(db, ROOT) == session()
    assert edges(db) == [("spawn", ROOT), ("delete", ROOT), ("restore", ROOT)]


def test_purge_takes_only_trash_and_all_that_hangs_on_it(db: sqlite3.Connection) -> None:
    """07.4: prompts and agent sessions go with their session; the ledger keeps its edges."""
    fence, other = tree(db), tree(db, OTHER)
    queue(db, fence, "p1", "p2")
    queue(db, other, "p3")
    agent_sessions.save(db, ROOT, 1, agent_session("a1"))
    agent_sessions.save(db, OTHER, 1, agent_session("a2", OTHER))
    sessions.purge(db, [ROOT, OTHER])
    assert sessions.get(db, ROOT) is not None, "not in the trash: not purged"
    sessions.set_deleted(db, [ROOT], NOW, NOW)
    sessions.purge(db, [ROOT, OTHER])
    assert sessions.get(db, ROOT) is None
    assert [row[0] for row in db.execute("SELECT prompt_id FROM prompts")] == ["p3"]
    assert [row[0] for row in db.execute("SELECT id FROM agent_sessions")] == ["a2"]
    assert ("spawn", ROOT) in edges(db)


def test_retention_sees_what_is_over(db: sqlite3.Connection) -> None:
    for key, at_ms in ((ROOT, NOW - 10), (CHILD, NOW), (OTHER, None)):
        sessions.create(db, session(key, deleted_at_ms=at_ms))
    assert sessions.trashed_before(db, NOW) == [ROOT]


def test_unread_and_environment(db: sqlite3.Connection) -> None:
    """R16, A9: names of variables, values only of the few that are no secrets."""
    sessions.create(db, session())
    sessions.set_unread(db, ROOT, True)
    sessions.set_environment(db, ROOT, ["KEY", "PATH"], {"PATH": "/bin"})
    found = sessions.get(db, ROOT)
    assert found is not None and found.unread
    assert (found.names, found.kept) == (("KEY", "PATH"), {"PATH": "/bin"})
    sessions.set_unread(db, ROOT, False)
    found = sessions.get(db, ROOT)
    assert found is not None and not found.unread


def test_counters_end_the_draft_and_name_what_they_may(db: sqlite3.Connection) -> None:
    """07.4: a worker's counters touch nothing that is the supervisor's."""
    tree(db)
    sessions.rename(db, ROOT, "kept", NOW)
    db.execute("UPDATE sessions SET draft = 1, unread = 1")
    sessions.save_counters(db, ROOT, 1, ROOT, COUNTERS)
    assert sessions.get(db, ROOT) == session(
        name="kept",
        unread=True,
        draft=False,
        last_activity_at_ms=NOW + 5,
        first_message="hi",
        message_count=2,
        model="m",
        mode="ask",
    )


def test_a_worker_writes_its_own_tree_only(db: sqlite3.Connection) -> None:
    """07.4: the right epoch of one tree opens no session of another."""
    tree(db)
    tree(db, OTHER)
    sessions.save_counters(db, ROOT, 1, OTHER, COUNTERS)
    sessions.save_exit(db, ROOT, 1, OTHER, "gone", NOW)
    assert sessions.get(db, OTHER) == session(OTHER)


def test_exit_is_set_and_cleared(db: sqlite3.Connection) -> None:
    tree(db)
    sessions.save_exit(db, ROOT, 1, ROOT, "exit 1", NOW + 3)
    assert sessions.get(db, ROOT) == session(exit_cause="exit 1", exit_at_ms=NOW + 3)
    sessions.save_exit(db, ROOT, 1, ROOT, None, NOW + 4)
    assert sessions.get(db, ROOT) == session()


def test_stale_epoch_writes_nothing(db: sqlite3.Connection) -> None:
    """S3: counters and exits of a worker that was replaced are refused."""
    tree(db)
    workers.begin(db, ROOT, NOW)
    with pytest.raises(StaleEpoch):
        sessions.save_counters(db, ROOT, 1, ROOT, COUNTERS)
    with pytest.raises(StaleEpoch):
        sessions.save_exit(db, ROOT, 1, ROOT, "x", NOW)
    assert sessions.get(db, ROOT) == session()


def test_one_bad_row_hides_no_neighbour(db: sqlite3.Connection) -> None:
    """House rule: a failure of one row never fails its neighbours, and is named."""
    for key in (ROOT, CHILD, OTHER):
        sessions.create(db, session(key))
    db.execute("UPDATE sessions SET draft = 7 WHERE session_id = ?", (CHILD,))
    good, bad = sessions.load_all(db)
    assert {s.session_id for s in good} == {ROOT, OTHER}
    assert len(bad) == 1 and bad[0].startswith(CHILD)


def test_a_flipped_byte_in_a_text_hides_no_neighbour(db: sqlite3.Connection) -> None:
    """B6: SQLite does not notice rot inside a text; it must not make whole lists unreadable."""
    for key in (ROOT, OTHER):
        sessions.create(db, session(key))
    db.execute("UPDATE sessions SET name = CAST(x'41ff42' AS TEXT) WHERE session_id = ?", (ROOT,))
    good, bad = sessions.load_all(db)
    assert bad == []
    assert {s.name for s in good} == {"A\N{REPLACEMENT CHARACTER}B", None}


def test_strict_types(db: sqlite3.Connection) -> None:
    """07.4: a text never becomes a time."""
    sessions.create(db, session())
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE sessions SET created_at_ms = 'yesterday'")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE sessions SET agent = NULL")


@pytest.mark.parametrize(
    "table", ["sessions", "spawn_ledger", "prompts", "workers", "agent_sessions", "requests"]
)
def test_every_table_is_strict(db: sqlite3.Connection, table: str) -> None:
    rows = db.execute("SELECT strict FROM pragma_table_list WHERE name = ?", (table,)).fetchall()
    assert [row[0] for row in rows] == [1]


def test_descendants_nearest_first_and_a_cycle_ends(db: sqlite3.Connection) -> None:
    """01: the ledger is the truth for parenthood; damage in it ends the walk."""
    for depth, (key, parent) in enumerate([("a", None), ("b", "a"), ("c", "b"), ("d", "a")]):
        edge = spawn_ledger.Edge(
            at_ms=NOW, edge="spawn", session_id=key, parent_id=parent, root_id="a",
            depth=depth, name=None,
        )  # fmt: skip
        spawn_ledger.append(db, edge)
    assert spawn_ledger.descendants(db, "a") == ["b", "d", "c"]
    assert spawn_ledger.descendants(db, "c") == []
    cycle = spawn_ledger.Edge(
        at_ms=NOW, edge="spawn", session_id="a", parent_id="c", root_id="a", depth=9, name=None
    )
    spawn_ledger.append(db, cycle)
    assert spawn_ledger.descendants(db, "a") == ["b", "d", "c"]


def test_ledger_outlives_a_purge(db: sqlite3.Connection) -> None:
    sessions.create(db, session())
    sessions.create(db, session(CHILD, ROOT))
    sessions.set_deleted(db, [CHILD], NOW, NOW)
    sessions.purge(db, [CHILD])
    assert spawn_ledger.descendants(db, ROOT) == [CHILD]
    assert prompts.queued_counts(db) == {}
