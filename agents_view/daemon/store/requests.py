"""Requests by their idempotency key: the outcome, never the payload (spec 07.2)."""

from __future__ import annotations

import msgspec

from agents_view.daemon.store.database import Transaction, one


class StoredRequest(msgspec.Struct, kw_only=True, frozen=True):
    """`outcome` is the encoded answer, None while (or if a crash came before) it was not known."""

    request_id: str
    command: str
    created_at_ms: int
    outcome: bytes | None


def begin(db: Transaction, request_id: str, command: str, now_ms: int) -> StoredRequest | None:
    """Record that a request is being carried out; the earlier record if it is a repeat."""
    cursor = db.execute(
        "INSERT INTO requests (request_id, command, created_at_ms) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (request_id, command, now_ms),
    )
    if cursor.rowcount:
        return None
    return one(
        StoredRequest, db.execute("SELECT * FROM requests WHERE request_id = ?", (request_id,))
    )


def finish(db: Transaction, request_id: str, outcome: bytes) -> bool:
    """Record the answer, once; False if there is one already or the request was never begun."""
    cursor = db.execute(
        "UPDATE requests SET outcome = ? WHERE request_id = ? AND outcome IS NULL",
        (outcome, request_id),
    )
    return cursor.rowcount == 1


def expire(db: Transaction, before_ms: int) -> int:
    """Forget requests older than that; how many."""
    return db.execute("DELETE FROM requests WHERE created_at_ms < ?", (before_ms,)).rowcount
