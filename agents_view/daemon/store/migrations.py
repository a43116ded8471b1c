"""Numbered, transactional migrations of the schema (spec 07.4).

Each file of `schema/` is applied in one transaction that also sets `user_version`, so that a kill
in the middle leaves the version before, and running again is safe. A store with anything in it is
backed up first.
"""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

from agents_view.base import failpoints
from agents_view.daemon.store import backup
from agents_view.daemon.store.errors import StoreError


def scripts() -> list[tuple[int, str]]:
    """(version, SQL) of every migration, oldest first."""
    folder = resources.files("agents_view.daemon.store").joinpath("schema")
    files = [f for f in folder.iterdir() if f.name.endswith(".sql")]
    files.sort(key=lambda f: f.name)
    return [(int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in files]


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 for an empty one."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection, *, may_migrate: bool) -> None:
    """Bring the schema to the newest version.

    Raises `StoreError` if it is newer than this program, or older and `may_migrate` is false, or
    the backup fails; then nothing is changed.
    """
    steps = scripts()
    newest = steps[-1][0]
    current = version_of(connection)
    if current > newest:
        raise StoreError(
            f"the store has schema {current}, this version knows {newest}: use a newer agents-view"
        )
    if current < newest and not may_migrate:
        raise StoreError(f"the store has schema {current}, not {newest}: run daemon upgrade")
    if 0 < current < newest:
        backup.before_migration(_file_of(connection), current)
    for version, script in steps:
        if version > current:
            _apply(connection, version, script)


def _apply(connection: sqlite3.Connection, version: int, script: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # somebody else may have been faster while we waited for the lock
        if version_of(connection) < version:
            failpoints.reach("store.migrate.begin")
            for statement in _statements(script):
                connection.execute(statement)
                failpoints.reach("store.migrate.step")
            connection.execute(f"PRAGMA user_version = {version}")
            failpoints.reach("store.migrate.commit")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _file_of(connection: sqlite3.Connection) -> Path:
    return Path(connection.execute("PRAGMA database_list").fetchone()[2])


def _statements(script: str) -> list[str]:
    """Single statements: `executescript` would commit the transaction we are in."""
    found: list[str] = []
    buffer = ""
    for line in script.splitlines(keepends=True):
        buffer += line
        if sqlite3.complete_statement(buffer):
            found.append(buffer)
            buffer = ""
    if buffer.strip():
        found.append(buffer)
    return found
