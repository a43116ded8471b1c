"""Migrations: a backup first, idempotent under kill -9 in each step (spec 07.4, T19)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agents_view.daemon.store import backup, migrations, sessions
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreError
from agents_view.daemon.store.files import inspect
from tests.store import driver
from tests.store.processes import run
from tests.store.samples import NOW, ROOT, session

NEWEST = migrations.scripts()[-1][0]


async def a_store(directory: Path) -> Path:
    """A store of today's schema with one session, closed."""
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    await database.write(lambda db: sessions.create(db, session()))
    await database.close()
    return database.path


def schema(path: Path) -> list[tuple]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 2"
        ).fetchall()


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return migrations.version_of(db)


def has_extra(path: Path) -> bool:
    return any(row[1] == "extra" for row in schema(path))


POINTS = [
    "store.backup.copied",
    *(f"store.migrate.begin:{n}" for n in (1, 2)),
    *(f"store.migrate.step:{n}" for n in range(1, 7)),
    *(f"store.migrate.commit:{n}" for n in (1, 2)),
]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_in_each_step_and_run_again(tmp_path: Path, point: str) -> None:
    """What a kill leaves is a whole schema of one version, and the next start goes to the end."""
    path = await a_store(tmp_path)
    assert run("migrate", tmp_path, failpoint=point)[0] == -9
    assert inspect(path) == ""
    assert has_extra(path) == (version(path) > NEWEST)
    assert run("migrate", tmp_path)[0] == 0
    assert (inspect(path), version(path)) == ("", NEWEST + 2)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM extra").fetchall() == [(ROOT, NOW + 1)]
        assert db.execute("SELECT session_id, later FROM sessions").fetchall() == [(ROOT, 7)]
    old = tmp_path / "backups" / f"state-v{NEWEST}.db"
    assert (inspect(old), version(old), has_extra(old)) == ("", NEWEST, False)
    assert not list(old.parent.glob("*.tmp"))


async def test_upgraded_equals_fresh(tmp_path: Path) -> None:
    """10.5: the same tables and indexes whichever way one got there."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    upgraded = await a_store(tmp_path / "a")
    run("migrate", tmp_path / "a")
    run("migrate", tmp_path / "b")
    fresh = schema(tmp_path / "b" / "state.db")
    assert {row[:3] for row in schema(upgraded)} == {row[:3] for row in fresh}
    assert not (tmp_path / "b" / "backups").exists(), "an empty store needs no backup"


async def test_newer_schema_is_refused_politely(tmp_path: Path) -> None:
    path = await a_store(tmp_path)
    run("migrate", tmp_path)
    before = path.read_bytes()
    database = Database(path)
    with pytest.raises(StoreError, match="use a newer agents-view"):
        await database.open(may_migrate=True)
    await database.close()
    assert path.read_bytes() == before


async def test_a_worker_does_not_migrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await a_store(tmp_path)
    steps = [*migrations.scripts(), (NEWEST + 1, driver.LATER[0])]
    monkeypatch.setattr(migrations, "scripts", lambda: steps)
    database = Database(path)
    with pytest.raises(StoreError, match="run daemon upgrade"):
        await database.open(may_migrate=False)
    await database.close()
    assert version(path) == NEWEST


async def test_no_backup_no_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that could not be saved first stays as it is."""
    path = await a_store(tmp_path)
    steps = [*migrations.scripts(), (NEWEST + 1, driver.LATER[0])]
    monkeypatch.setattr(migrations, "scripts", lambda: steps)

    def fails(database: Path, version: int) -> Path:
        raise StoreError("no room")

    monkeypatch.setattr(backup, "before_migration", fails)
    database = Database(path)
    with pytest.raises(StoreError, match="no room"):
        await database.open(may_migrate=True)
    await database.close()
    assert version(path) == NEWEST


async def test_a_failing_script_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await a_store(tmp_path)
    broken = "CREATE TABLE extra (key TEXT) STRICT;\nSELECT nonsense FROM nowhere;\n"
    steps = [*migrations.scripts(), (NEWEST + 1, broken)]
    monkeypatch.setattr(migrations, "scripts", lambda: steps)
    database = Database(path)
    with pytest.raises(StoreError, match="nowhere"):
        await database.open(may_migrate=True)
    await database.close()
    assert (version(path), has_extra(path)) == (NEWEST, False)
