"""The workers table: which tree is covered, by which process, in which epoch (S3, S21)."""

from __future__ import annotations

from typing import Literal

import msgspec

from agents_view.daemon.store.database import Transaction, many, one
from agents_view.daemon.store.errors import StaleEpoch

WorkerRowState = Literal["starting", "ready", "recovering", "stopping", "failed", "stopped"]


class WorkerRow(msgspec.Struct, kw_only=True, frozen=True):
    """`pid`, `start` and `boot_id` are the process's identity, unknown between launch and fork."""

    root_id: str
    epoch: int
    pid: int | None
    start: int | None
    boot_id: str | None
    state: WorkerRowState
    since_ms: int
    crashes: int
    cause: str | None


def check_epoch(db: Transaction, root_id: str, epoch: int) -> None:
    """Refuse a write of a worker that was replaced. Raises `StaleEpoch`."""
    row = db.execute("SELECT epoch FROM workers WHERE root_id = ?", (root_id,)).fetchone()
    if row is None or row[0] != epoch:
        current = None if row is None else row[0]
        raise StaleEpoch(f"worker of {root_id} has epoch {epoch}, the tree is at {current}")


def begin(db: Transaction, root_id: str, now_ms: int) -> int:
    """A launch begins: the next epoch of the tree, with no process yet."""
    row = db.execute(
        "INSERT INTO workers (root_id, epoch, state, since_ms) VALUES (?, 1, 'starting', ?)"
        " ON CONFLICT (root_id) DO UPDATE SET epoch = epoch + 1, pid = NULL, start = NULL,"
        " boot_id = NULL, state = 'starting', since_ms = excluded.since_ms, cause = NULL"
        " RETURNING epoch",
        (root_id, now_ms),
    ).fetchone()
    return row[0]


def identify(db: Transaction, root_id: str, epoch: int, pid: int, start: int, boot_id: str) -> bool:
    """Record the process of an epoch; False if the tree has moved on."""
    cursor = db.execute(
        "UPDATE workers SET pid = ?, start = ?, boot_id = ? WHERE root_id = ? AND epoch = ?",
        (pid, start, boot_id, root_id, epoch),
    )
    return cursor.rowcount == 1


def set_state(
    db: Transaction,
    root_id: str,
    epoch: int,
    state: WorkerRowState,
    now_ms: int,
    *,
    cause: str | None = None,
    crashes: int | None = None,
) -> bool:
    """Move the state of an epoch; False if the tree has moved on."""
    cursor = db.execute(
        "UPDATE workers SET state = ?, since_ms = ?, cause = ?, crashes = coalesce(?, crashes)"
        " WHERE root_id = ? AND epoch = ?",
        (state, now_ms, cause, crashes, root_id, epoch),
    )
    return cursor.rowcount == 1


def get(db: Transaction, root_id: str) -> WorkerRow | None:
    return one(WorkerRow, db.execute("SELECT * FROM workers WHERE root_id = ?", (root_id,)))


def load_all(db: Transaction) -> list[WorkerRow]:
    """Every tree that ever had a worker."""
    return many(WorkerRow, db.execute("SELECT * FROM workers"))
