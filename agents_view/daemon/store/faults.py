"""SQLite's failures as errors of ours: what a person can do something about (spec 07.4)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from agents_view.daemon.store.ballast import free_bytes
from agents_view.daemon.store.errors import (
    NotRecording,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReplaced,
)

_NO_ROOM: Final = 64 << 10
"""Bytes. With less than that free an I/O error means: full (SQLite says so only of main writes)."""


def fault_of(error: sqlite3.Error, database: Path) -> StoreError | None:
    """What happened, or None for a mistake in our own SQL, which is not the disk's fault."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return StoreReplaced(f"{database} was moved away")
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return full(database)
        case sqlite3.SQLITE_READONLY:
            return NotRecording("the disk is read-only", f"{database} cannot be written: {error}")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            room = free_bytes(database.parent)
            if room is not None and room < _NO_ROOM:
                return full(database)
            return NotRecording("disk error", f"{database} cannot be written: {error}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreDamaged(f"{database} is damaged: {error}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"{database} is locked by another process: {error}")
        case _:
            return None


def full(database: Path) -> StoreFull:
    return StoreFull(f"there is no room left for {database}: free some space on that disk")
