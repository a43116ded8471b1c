"""Backups: by the backup API, three kept, none bad, nothing overwritten (spec 07.4, T24)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agents_view.daemon.store import backup, sessions
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreBusy, StoreDamaged, StoreError
from agents_view.daemon.store.files import inspect
from tests.store.processes import run
from tests.store.samples import NOW, ROOT, session

DAY = backup.DAY_MS


def names(store: Database) -> list[str]:
    return sorted(path.name for path in (store.path.parent / "backups").glob("*.db"))


async def test_a_backup_holds_what_was_committed(store: Database) -> None:
    await store.write(lambda db: sessions.create(db, session()))
    made = await asyncio.to_thread(backup.make, store.path, NOW)
    await store.write(lambda db: sessions.rename(db, ROOT, "later", NOW))
    assert made.name == "state-20260101T000000.000Z.db"
    with closing(sqlite3.connect(made)) as copy:
        assert copy.execute("SELECT session_id, name FROM sessions").fetchall() == [(ROOT, None)]
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",), "one file, no sides"
    assert made.stat().st_mode & 0o777 == 0o600
    assert made.parent.stat().st_mode & 0o777 == 0o700


async def test_writers_go_on_during_backups(store: Database) -> None:
    """T24: each copy is one moment of the store, never half a transaction."""
    for number in range(30):
        write = asyncio.ensure_future(
            store.write(
                lambda db, n=number: [sessions.create(db, session(f"{n}{end}")) for end in "ab"]
            )
        )
        made = await asyncio.to_thread(backup.make, store.path, NOW + number)
        await write
        with closing(sqlite3.connect(made)) as copy:
            assert copy.execute("SELECT count(*) FROM sessions").fetchone()[0] % 2 == 0


async def test_three_are_kept(store: Database) -> None:
    for day in range(5):
        backup.make(store.path, NOW + day * DAY)
    assert names(store) == [f"state-2026010{day}T000000.000Z.db" for day in (3, 4, 5)]
    for version in range(1, 6):
        backup.before_migration(store.path, version)
    assert len(names(store)) == 6, "those before migrations are counted apart"


async def test_daily_means_once_a_day(store: Database) -> None:
    assert backup.daily(store.path, NOW) is not None
    assert backup.daily(store.path, NOW + DAY - 1) is None
    assert backup.daily(store.path, NOW + DAY) is not None
    assert backup.daily(store.path, NOW - 30 * DAY) is not None, "a clock set back ends nothing"
    assert backup.daily(store.path, NOW + DAY) is None


async def test_damage_never_becomes_a_backup(tmp_path: Path) -> None:
    """And what was good before stays."""
    database = Database(tmp_path / "state.db")
    await database.open(may_migrate=True)
    await database.write(lambda db: sessions.create(db, session()))
    good = backup.make(database.path, NOW)
    await database.close()
    with database.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 64)
    with pytest.raises(StoreDamaged):
        backup.make(database.path, NOW + 1)
    assert names(database) == [good.name]
    assert backup.newest_good(database.path) == good


async def test_newest_good_passes_over_bad_ones(store: Database) -> None:
    assert backup.newest_good(store.path) is None
    first = backup.make(store.path, NOW)
    second = backup.make(store.path, NOW + 1)
    assert backup.newest_good(store.path) == second
    second.write_bytes(second.read_bytes()[:5000])
    assert backup.newest_good(store.path) == first


async def test_restore_overwrites_nothing(store: Database, tmp_path: Path) -> None:
    made = backup.make(store.path, NOW)
    with pytest.raises(StoreBusy):
        backup.restore(made, store.path)
    await store.close()
    with pytest.raises(StoreError, match="never overwrites"):
        backup.restore(made, store.path)
    other = tmp_path / "other" / "state.db"
    other.parent.mkdir()
    other.with_name("state.db-wal").write_text("of another database")
    with pytest.raises(StoreError, match="never overwrites"):
        backup.restore(made, other)
    made.write_text("rot")
    with pytest.raises(StoreDamaged):
        backup.restore(made, tmp_path / "new" / "state.db")


async def test_a_killed_backup_leaves_no_trace(store: Database) -> None:
    directory = store.path.parent
    assert run("copy", directory, failpoint="store.backup.copied")[0] == -9
    assert names(store) == []
    assert run("copy", directory, 1)[0] == 0
    assert names(store) == ["state-20260101T000000.001Z.db"]
    assert not list((directory / "backups").glob("*.tmp*"))
    assert inspect(directory / "backups" / names(store)[0]) == ""
