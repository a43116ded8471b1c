"""Numbered, transactional migrations of the schema (spec 07.4).

Each file of `schema/` is applied in one transaction that also sets `user_version`, so that a kill
in the middle leaves the version before, and running again is safe.
"""

from __future__ import annotations

import sqlite3
from importlib import resources

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

    Raises `StoreError` if it is newer than this program, or older and `may_migrate` is false.
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
    for version, script in steps:
        if version > current:
            _apply(connection, version, script)


def _apply(connection: sqlite3.Connection, version: int, script: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # somebody else may have been faster while we waited for the lock
        if version_of(connection) < version:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


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
