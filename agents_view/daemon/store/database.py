"""One SQLite database, one writer thread (spec 07.4).

Store functions are plain functions of a connection; `Database.write` runs one (or a closure of
several) inside `BEGIN IMMEDIATE … COMMIT` on the writer thread, `Database.read` runs one on a
second connection, so that a long read never delays a write.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from agents_view.daemon.store import ballast, faults, locks
from agents_view.daemon.store.errors import (
    NotRecording,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReplaced,
)
from agents_view.daemon.store.files import quick_check
from agents_view.daemon.store.filesystems import refuse_network
from agents_view.daemon.store.integrity import finish_set_aside
from agents_view.daemon.store.migrations import migrate, version_of

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Transaction = sqlite3.Connection
"""What store functions take. Only this room looks inside."""

_LOCK_PATIENCE: Final = 5.0
_text: Final = functools.partial(str, encoding="utf-8", errors="replace")
_log: Final = logging.getLogger(__name__)


def connect(path: Path) -> sqlite3.Connection:
    """A connection with the settings every process uses: WAL, FULL, foreign keys, 5 s patience."""
    connection = sqlite3.connect(
        path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.row_factory = sqlite3.Row
        # one text with a flipped byte must not make the rows around it unreadable
        connection.text_factory = _text
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """Safe to use from one event loop; the work runs on two threads of its own.

    `recording` is what a banner says: "" while writes succeed, else e.g. "not recording: disk
    full". It is set by a write that fails for the disk's sake and cleared by the next success;
    reads go on all the while.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recording = ""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-read")
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None
        self._lock = -1
        self._place = (0, 0)
        self._ballast = ballast.ballast_path(path)
        self._keeps_ballast = False

    async def open(self, *, may_migrate: bool) -> None:
        """Open, and bring the schema up to date if allowed.

        With `may_migrate` (the supervisor) also: create what is missing, `quick_check`, ballast.
        Raises `StoreDamaged` (see `integrity.set_aside`; opening again is allowed), `StoreBusy`
        while somebody moves the store, `StoreError` for a network file system, a schema that is
        newer, or older where migrating is not allowed.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._open, may_migrate)

    def _open(self, may_migrate: bool) -> None:
        refuse_network(self.path.parent)
        if may_migrate:
            finish_set_aside(self.path)
        self._lock = locks.take(locks.store_lock(self.path), shared=True, patience=_LOCK_PATIENCE)
        try:
            self._create(may_migrate)
            self._connect(may_migrate)
        except sqlite3.Error as error:
            self._let_go()
            raise faults.fault_of(error, self.path) or StoreError(str(error)) from error
        except BaseException:
            self._let_go()
            raise
        self._keeps_ballast = may_migrate
        if may_migrate:
            ballast.ensure(self._ballast)

    def _create(self, allowed: bool) -> None:
        """An empty file of ours. One that exists is not opened: closing would drop its locks."""
        if not allowed:
            if not self.path.exists():
                raise StoreError(f"there is no store at {self.path}: start the daemon")
            return
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)

    def _connect(self, may_migrate: bool) -> None:
        self._place = self._look()
        try:
            connection = connect(self.path)
        except sqlite3.Error as error:
            # even opening needs 32 KiB of shared memory beside the file
            full = isinstance(faults.fault_of(error, self.path), StoreFull)
            if not (full and ballast.release(self._ballast)):
                raise
            connection = connect(self.path)
        self._write_connection = connection
        if may_migrate and (problem := quick_check(connection)):
            raise StoreDamaged(f"{self.path} is damaged: {problem}")
        migrate(connection, may_migrate=may_migrate)
        self._read_connection = connect(self.path)
        self._read_connection.execute("PRAGMA query_only = ON")

    def _look(self) -> tuple[int, int]:
        try:
            facts = self.path.stat()
        except OSError as error:
            raise StoreReplaced(f"{self.path} cannot be seen any more: {error}") from error
        return facts.st_dev, facts.st_ino

    async def write(self, work: Callable[[Transaction], T], *, cleanup: bool = False) -> T:
        """Run `work` in one immediate transaction; committed when this returns.

        Any exception rolls it back. Cancelling the caller does not: the work goes on to its end.
        `cleanup` marks a write that makes room (purge, retention): it may use what the ballast
        gave up. Raises `StoreFull`, `NotRecording`, `StoreReplaced` (nothing was written into the
        old file), `StoreDamaged`, `StoreBusy`.
        """
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._writer, self._write, work, cleanup))

    def _write(self, work: Callable[[Transaction], T], cleanup: bool = False) -> T:
        connection = self._write_connection
        assert connection is not None, "the store is not open"
        try:
            if self._look() != self._place:
                raise StoreReplaced(f"{self.path} was replaced: close and open it again")
            if not cleanup and ballast.exhausted(self._ballast):
                raise faults.full(self.path)
            result = _transact(connection, work)
        except sqlite3.Error as error:
            fault = faults.fault_of(error, self.path)
            if fault is None:
                raise
            self._note(fault)
            raise fault from error
        except StoreError as error:
            self._note(error)
            raise
        if not cleanup:
            self.recording = ""
        return result

    def _note(self, fault: StoreError) -> None:
        """Remember for the banner why nothing is recorded; make room for the clean-up."""
        if isinstance(fault, NotRecording):
            self.recording = f"not recording: {fault.why}"
        elif isinstance(fault, StoreDamaged):
            self.recording = "not recording: the store is damaged"
        elif isinstance(fault, StoreReplaced):
            self.recording = "not recording: the store was moved away"
        if isinstance(fault, StoreFull):
            ballast.release(self._ballast)

    async def probe(self) -> str:
        """Try to write if the last write failed, restore the ballast; the new `recording`.

        For a timer, every few seconds. While all is well it costs two `stat` calls.
        """
        await asyncio.get_running_loop().run_in_executor(self._writer, self._probe)
        return self.recording

    def _probe(self) -> None:
        if self.recording:
            with contextlib.suppress(StoreError):
                self._write(_touch)
        if self._keeps_ballast and not self.recording:
            ballast.ensure(self._ballast)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on the reading connection: one snapshot, with everything committed before.

        Raises `StoreDamaged`, `StoreError`.
        """
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, work)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        connection = self._read_connection
        assert connection is not None, "the store is not open"
        try:
            return _transact(connection, work, "BEGIN")
        except sqlite3.Error as error:
            fault = faults.fault_of(error, self.path)
            if isinstance(fault, NotRecording):
                raise StoreError(f"{self.path} cannot be read: {error}") from error
            if fault is None:
                raise
            raise fault from error

    async def close(self) -> None:
        """Finish what is queued and close."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reader.shutdown()
        self._writer.shutdown()
        self._let_go()

    def _let_go(self) -> None:
        for connection in (self._read_connection, self._write_connection):
            if connection is not None:
                connection.close()
        self._read_connection = self._write_connection = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _transact(
    connection: sqlite3.Connection, work: Callable[[Transaction], T], begin: str = "BEGIN IMMEDIATE"
) -> T:
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _touch(db: Transaction) -> None:
    """The smallest real write: the page that holds the version, unchanged."""
    db.execute(f"PRAGMA user_version = {version_of(db)}")


def record(kind: type[S], row: sqlite3.Row) -> S:
    """A typed record of a row whose columns are the fields of `kind`."""
    return msgspec.convert(dict(row), kind, strict=False)


def one(kind: type[S], cursor: sqlite3.Cursor) -> S | None:
    """The first row, or None."""
    row = cursor.fetchone()
    return None if row is None else record(kind, row)


def many(kind: type[S], cursor: sqlite3.Cursor) -> list[S]:
    """All rows that fit; one that does not is logged and hides no neighbour."""
    good, bad = readable(kind, cursor)
    for problem in bad:
        _log.error("unreadable row for %s: %s", kind.__name__, problem)
    return good


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
