"""Backups of a store by SQLite's backup API (spec 07.4, B9.4).

They lie in `backups/` beside the database, one file each: `state-<time>.db` made daily and on
demand, `state-v<schema>.db` made before a migration. Three of each are kept, and none that fails
`quick_check` ever gets such a name.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agents_view.base import failpoints
from agents_view.daemon.store import locks
from agents_view.daemon.store.errors import StoreDamaged, StoreError
from agents_view.daemon.store.faults import fault_of
from agents_view.daemon.store.files import connect_existing, inspect, quick_check, side, sync
from daemon_client.paths import make_private

KEPT: Final = 3
DAY_MS: Final = 86_400_000

_PATIENCE: Final = 30.0
_STAMP: Final = "%Y%m%dT%H%M%S.%f"


def backups_of(database: Path) -> Path:
    """The directory of a store's backups."""
    return database.with_name("backups")


def make(database: Path, now_ms: int) -> Path:
    """A backup now, on demand or before an upgrade; writers go on meanwhile. Blocking.

    Raises `StoreDamaged` if the copy fails `quick_check` (nothing is kept of it), `StoreFull`,
    `StoreError`.
    """
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return _make(database, f"state-{moment.strftime(_STAMP)[:-3]}Z.db")


def daily(database: Path, now_ms: int) -> Path | None:
    """A backup if the newest one is a day old, else None. Blocking; raises like `make`.

    For a timer of the supervisor, each hour: one directory listing, and once a day one copy.
    """
    newest = max((_made_at_ms(path) for path in _dated(backups_of(database))), default=None)
    # a clock that was set back must not end backups for good
    if newest is not None and abs(now_ms - newest) < DAY_MS:
        return None
    return make(database, now_ms)


def before_migration(database: Path, version: int) -> Path:
    """The store as it was with that schema; made again by a migration that was killed."""
    return _make(database, f"state-v{version}.db")


def newest_good(database: Path) -> Path | None:
    """The newest backup that passes `quick_check`. Reads each newer one whole: blocking."""
    found = [*_dated(backups_of(database)), *_versioned(backups_of(database))]
    found.sort(key=_written_at, reverse=True)
    return next((path for path in found if not inspect(path)), None)


def restore(backup: Path, database: Path) -> None:
    """Copy a good backup to where no database is. Blocking.

    Raises `StoreError` if there is one already (set it aside first), `StoreDamaged` if the backup
    is not good, `StoreBusy` if somebody has the store open.
    """
    if problem := inspect(backup):
        raise StoreDamaged(f"{backup} is damaged: {problem}")
    with locks.held(locks.store_lock(database)):
        if database.exists() or side(database, "-wal").exists():
            raise StoreError(f"{database} exists: a backup never overwrites it")
        fresh = side(database, ".restored")
        fresh.unlink(missing_ok=True)  # of a process that was killed in here
        try:
            _copy(backup, fresh, database)
            fresh.replace(database)
        finally:
            fresh.unlink(missing_ok=True)
        sync(database.parent)


def _make(database: Path, name: str) -> Path:
    directory = backups_of(database)
    make_private(directory)
    with locks.held(directory / ".lock", patience=_PATIENCE):
        for leftover in directory.glob("*.tmp"):  # of a process that was killed in here
            leftover.unlink(missing_ok=True)
        fresh = directory / f"{name}.tmp"
        try:
            _copy(database, fresh, database)
            failpoints.reach("store.backup.copied")
            fresh.replace(directory / name)
        finally:
            fresh.unlink(missing_ok=True)
        sync(directory)
        for old in (*_dated(directory)[KEPT:], *_versioned(directory)[KEPT:]):
            old.unlink(missing_ok=True)
    return directory / name


def _copy(source: Path, target: Path, database: Path) -> None:
    """One consistent copy that passed `quick_check` and is on the disk."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with (
            contextlib.closing(connect_existing(source)) as origin,
            contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # all pages in one step: in several, each write of another process starts it anew
            origin.backup(copy, pages=-1)
            copy.execute("PRAGMA journal_mode = DELETE")
            problem = quick_check(copy)
    except sqlite3.Error as error:
        raise fault_of(error, database) or StoreError(f"no backup of {source}: {error}") from error
    if problem:
        raise StoreDamaged(f"{source} is damaged: {problem}")
    sync(target)


def _dated(directory: Path) -> list[Path]:
    """Newest first, by their names."""
    return sorted(directory.glob("state-[0-9]*Z.db"), reverse=True)


def _versioned(directory: Path) -> list[Path]:
    """Newest first, by when they were written."""
    return sorted(directory.glob("state-v*.db"), key=_written_at, reverse=True)


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _made_at_ms(path: Path) -> int:
    try:
        moment = datetime.strptime(path.name, f"state-{_STAMP}Z.db").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return int(moment.timestamp() * 1000)
