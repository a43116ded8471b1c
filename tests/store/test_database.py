"""One writer, one reader, and what the disk may do to them (spec 07.4)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from agents_view.daemon.store import sessions
from agents_view.daemon.store.ballast import SIZE, ballast_path
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreError
from tests.store.samples import NOW, OTHER, ROOT, session


async def count(store: Database) -> int:
    return await store.read(lambda db: db.execute("SELECT count(*) FROM sessions").fetchone()[0])


async def test_settings_of_every_connection(store: Database) -> None:
    """07.4: WAL, FULL, foreign keys, 5 s of patience."""
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")

    def settings(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store.write(settings) == ["wal", 2, 1, 5000]
    assert await store.read(settings) == ["wal", 2, 1, 5000]


async def test_files_are_private(store: Database) -> None:
    """T17: under any umask."""
    await store.write(lambda db: sessions.create(db, session()))
    found = {p.name: p.stat().st_mode & 0o777 for p in store.path.parent.iterdir()}
    assert found == dict.fromkeys(
        ("ballast", "state.db", "state.db-shm", "state.db-wal", "store.lock"), 0o600
    )


async def test_an_exception_rolls_everything_back(store: Database) -> None:
    def half(db: sqlite3.Connection) -> None:
        sessions.create(db, session())
        raise ValueError("second thoughts")

    with pytest.raises(ValueError, match="second thoughts"):
        await store.write(half)
    assert await count(store) == 0
    assert store.recording == "", "our own mistakes are not the disk's"


async def test_a_cancelled_caller_does_not_undo(store: Database) -> None:
    """Accepted is committed, also when the one who asked has gone, even before it began."""
    gate = threading.Event()
    blocker = asyncio.ensure_future(store.write(lambda db: gate.wait(10)))
    waiting = asyncio.ensure_future(store.write(lambda db: sessions.create(db, session())))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await blocker
    await store.write(lambda db: None)
    assert await count(store) == 1


async def test_a_read_is_one_snapshot_and_delays_no_write(store: Database) -> None:
    began, go_on = threading.Event(), threading.Event()

    def twice(db: sqlite3.Connection) -> list[int]:
        query = "SELECT count(*) FROM sessions"
        first = db.execute(query).fetchone()[0]
        began.set()
        assert go_on.wait(10)
        return [first, db.execute(query).fetchone()[0]]

    reading = asyncio.ensure_future(store.read(twice))
    await asyncio.to_thread(began.wait, 10)
    await store.write(lambda db: sessions.create(db, session()))
    go_on.set()
    assert await reading == [0, 0]
    assert await count(store) == 1


async def test_reading_cannot_write(store: Database) -> None:
    with pytest.raises(StoreError):
        await store.read(lambda db: sessions.create(db, session()))
    assert await count(store) == 0


async def test_two_processes_worth_of_databases(store: Database) -> None:
    """Supervisor and worker write the same file; neither loses a write of the other."""
    worker = Database(store.path)
    await worker.open(may_migrate=False)

    async def some(database: Database, name: str) -> None:
        for number in range(50):
            row = session(f"{name}{number}")
            await database.write(lambda db, row=row: sessions.create(db, row))

    async with asyncio.TaskGroup() as group:
        group.create_task(some(store, "a"))
        group.create_task(some(worker, "b"))
    assert (await count(store), await count(worker)) == (100, 100)
    await worker.close()


async def test_a_worker_creates_no_store(tmp_path: Path) -> None:
    """An empty database in the place of one that was moved away would be believed."""
    database = Database(tmp_path / "state.db")
    with pytest.raises(StoreError, match="no store"):
        await database.open(may_migrate=False)
    await database.close()
    assert not database.path.exists()


async def test_opening_may_be_tried_again(tmp_path: Path) -> None:
    """After damage was set aside the same object serves."""
    database = Database(tmp_path / "state.db")
    database.path.write_text("no database, for certain")
    with pytest.raises(StoreError):
        await database.open(may_migrate=True)
    database.path.unlink()
    await database.open(may_migrate=True)
    assert await count(database) == 0
    await database.close()
    await database.close()


async def test_probe_costs_nothing_while_all_is_well(store: Database) -> None:
    await store.write(lambda db: sessions.create(db, session()))
    before = await store.write(lambda db: db.total_changes)
    sizes = [p.stat().st_size for p in sorted(store.path.parent.iterdir())]
    assert await store.probe() == ""
    assert await store.write(lambda db: db.total_changes) == before
    assert [p.stat().st_size for p in sorted(store.path.parent.iterdir())] == sizes


async def test_probe_restores_the_ballast(store: Database) -> None:
    """The keeper of the store does; a worker does not."""
    ballast = ballast_path(store.path)
    assert ballast.stat().st_size == SIZE
    ballast.unlink()
    worker = Database(store.path)
    await worker.open(may_migrate=False)
    await worker.probe()
    await worker.close()
    assert not ballast.exists()
    assert await store.probe() == ""
    assert ballast.stat().st_size == SIZE


async def test_a_locked_store_is_said_to_be_locked(store: Database) -> None:
    await store.write(lambda db: db.execute("PRAGMA busy_timeout = 50") and None)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another process"):
        await store.write(lambda db: sessions.create(db, session(OTHER)))
    other.execute("ROLLBACK")
    other.close()
    assert store.recording == "", "a lock is no fault of the disk"
    await store.write(lambda db: sessions.create(db, session(ROOT, created_at_ms=NOW)))
