"""One SQLite database, one writer thread (spec 07.4).

Store functions are plain functions of a connection; `Database.write` runs one (or a closure of
several) inside `BEGIN IMMEDIATE … COMMIT` on the writer thread, `Database.read` runs one on a
second connection, so that a long read never delays a write.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agents_view.daemon.store.migrations import migrate

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Transaction = sqlite3.Connection
"""What store functions take. Only this room looks inside."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection with the settings every process uses: WAL, FULL, foreign keys, 5 s patience."""
    connection = sqlite3.connect(
        path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


class Database:
    """Safe to use from one event loop; the work runs on two threads of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-read")
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None

    async def open(self, *, may_migrate: bool) -> None:
        """Open, and bring the schema up to date if allowed.

        Raises `StoreError` for a schema that is newer, or older where migrating is not allowed.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._open, may_migrate)

    def _open(self, may_migrate: bool) -> None:
        self._write_connection = connect(self.path)
        self.path.chmod(0o600)
        migrate(self._write_connection, may_migrate=may_migrate)
        self._read_connection = connect(self.path)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one immediate transaction; committed when this returns.

        Any exception rolls it back. Cancelling the caller does not: the work goes on to its end.
        """
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._write, work)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        connection = self._write_connection
        assert connection is not None, "the store is not open"
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on the reading connection; it sees everything committed before."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, work)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        assert self._read_connection is not None, "the store is not open"
        return work(self._read_connection)

    async def close(self) -> None:
        """Finish what is queued and close."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reader.shutdown()
        self._writer.shutdown()
        for connection in (self._read_connection, self._write_connection):
            if connection is not None:
                connection.close()


def record(kind: type[S], row: sqlite3.Row) -> S:
    """A typed record of a row whose columns are the fields of `kind`."""
    return msgspec.convert(dict(row), kind, strict=False)


def one(kind: type[S], cursor: sqlite3.Cursor) -> S | None:
    """The first row, or None."""
    row = cursor.fetchone()
    return None if row is None else record(kind, row)


def many(kind: type[S], cursor: sqlite3.Cursor) -> list[S]:
    """All rows. A row that fits no record is an error of that row: see `readable`."""
    return [record(kind, row) for row in cursor]


def readable(kind: type[S], cursor: sqlite3.Cursor) -> tuple[list[S], list[str]]:
    """All rows that fit, and what is wrong with the others: one bad row hides no neighbour."""
    good: list[S] = []
    bad: list[str] = []
    for row in cursor:
        try:
            good.append(record(kind, row))
        except msgspec.ValidationError as error:
            bad.append(f"{next(iter(row))}: {error}")
    return good, bad


def columns(values: msgspec.Struct) -> dict[str, Any]:
    """A record as SQL parameters by name."""
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in msgspec.structs.asdict(values).items()
    }
