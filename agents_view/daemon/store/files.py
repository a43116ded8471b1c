"""The files one database consists of, and whether they are what SQLite wrote (spec 07.4)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

SIDES: Final = ("", "-wal", "-shm", "-journal")
"""What belongs together, the main file first."""


def side(database: Path, suffix: str) -> Path:
    """A file beside the database whose name begins like it."""
    return database.with_name(database.name + suffix)


def sync(path: Path) -> None:
    """What was written to the file, or renamed in the directory, survives a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect_existing(database: Path) -> sqlite3.Connection:
    """A plain connection that never creates the database. Raises `sqlite3.Error`."""
    return sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True, timeout=5.0)


def quick_check(connection: sqlite3.Connection) -> str:
    """What is wrong with an open database; "" if nothing. Reads it whole (about 0.5 ms a MB)."""
    try:
        row = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if row is not None and row[0] == "ok" else str(row[0] if row else "no answer")


def inspect(database: Path) -> str:
    """What is wrong with a database file; "" if nothing. Blocking."""
    try:
        with contextlib.closing(connect_existing(database)) as connection:
            return quick_check(connection)
    except sqlite3.Error as error:
        return str(error)
