"""Durable prompts (spec 07.4): accepted means committed; `sent` happens at most once.

Written by the tree's worker, with its epoch. After a crash `sent` becomes `interrupted` and is
never delivered again; `queued` is delivered.
"""

from __future__ import annotations

import zlib
from typing import Literal

import msgspec

from agents_view.daemon.store.database import Transaction, many, one
from agents_view.daemon.store.workers import check_epoch

PromptState = Literal["queued", "sent", "done", "removed", "interrupted"]
Source = Literal["person", "agent", "job"]


class StoredPrompt(msgspec.Struct, kw_only=True, frozen=True):
    """One prompt; `checksum` is the CRC of its text, so that rot is seen, not sent."""

    prompt_id: str
    session_id: str
    position: int
    source: Source
    firing: str | None
    text: str
    checksum: int
    state: PromptState
    created_at_ms: int
    sent_at_ms: int | None
    ended_at_ms: int | None
    stop_reason: str | None

    @property
    def intact(self) -> bool:
        """Whether the text is what was accepted."""
        return checksum_of(self.text) == self.checksum


class Fence(msgspec.Struct, kw_only=True, frozen=True):
    """Which tree a worker writes for, and by which epoch."""

    root_id: str
    epoch: int


def checksum_of(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def accept(
    db: Transaction,
    fence: Fence,
    *,
    prompt_id: str,
    session_id: str,
    source: Source,
    text: str,
    now_ms: int,
    first: bool = False,
) -> bool:
    """Queue a prompt, at the end or (`first`) before all others; False if it was there already."""
    check_epoch(db, fence.root_id, fence.epoch)
    edge = "coalesce(min(position), 0) - 1" if first else "coalesce(max(position), 0) + 1"
    cursor = db.execute(
        "INSERT INTO prompts (prompt_id, session_id, position, source, text, checksum, state,"
        f" created_at_ms) SELECT ?, ?, (SELECT {edge} FROM prompts WHERE session_id = ?),"
        " ?, ?, ?, 'queued', ? WHERE true ON CONFLICT DO NOTHING",
        (prompt_id, session_id, session_id, source, text, checksum_of(text), now_ms),
    )
    return cursor.rowcount == 1


def get(db: Transaction, prompt_id: str) -> StoredPrompt | None:
    """The prompt in whatever state, or None: then it was never accepted."""
    return one(StoredPrompt, db.execute("SELECT * FROM prompts WHERE prompt_id = ?", (prompt_id,)))


def queued(db: Transaction, session_id: str) -> list[StoredPrompt]:
    """What waits, in order of delivery."""
    return many(
        StoredPrompt,
        db.execute(
            "SELECT * FROM prompts WHERE session_id = ? AND state = 'queued' ORDER BY position",
            (session_id,),
        ),
    )


def queued_counts(db: Transaction) -> dict[str, int]:
    """How many prompts wait, by session."""
    rows = db.execute(
        "SELECT session_id, count(*) FROM prompts WHERE state = 'queued' GROUP BY session_id"
    )
    return {row[0]: row[1] for row in rows}


def mark_sent(db: Transaction, fence: Fence, prompt_id: str, now_ms: int) -> bool:
    """queued → sent, before the agent gets it; False if it was removed meanwhile."""
    check_epoch(db, fence.root_id, fence.epoch)
    cursor = db.execute(
        "UPDATE prompts SET state = 'sent', sent_at_ms = ?"
        " WHERE prompt_id = ? AND state = 'queued'",
        (now_ms, prompt_id),
    )
    return cursor.rowcount == 1


def finish(
    db: Transaction,
    fence: Fence,
    prompt_id: str,
    state: Literal["done", "interrupted"],
    stop_reason: str,
    now_ms: int,
) -> bool:
    """sent → done or interrupted; False if somebody else ended it."""
    check_epoch(db, fence.root_id, fence.epoch)
    cursor = db.execute(
        "UPDATE prompts SET state = ?, stop_reason = ?, ended_at_ms = ?"
        " WHERE prompt_id = ? AND state = 'sent'",
        (state, stop_reason, now_ms, prompt_id),
    )
    return cursor.rowcount == 1


def edit(db: Transaction, fence: Fence, prompt_id: str, text: str) -> bool:
    """Change a queued prompt; False if it is not queued any more."""
    check_epoch(db, fence.root_id, fence.epoch)
    cursor = db.execute(
        "UPDATE prompts SET text = ?, checksum = ? WHERE prompt_id = ? AND state = 'queued'",
        (text, checksum_of(text), prompt_id),
    )
    return cursor.rowcount == 1


def remove(db: Transaction, fence: Fence, prompt_id: str, now_ms: int) -> bool:
    """Take a queued prompt out; False if it is not queued any more."""
    check_epoch(db, fence.root_id, fence.epoch)
    cursor = db.execute(
        "UPDATE prompts SET state = 'removed', ended_at_ms = ?"
        " WHERE prompt_id = ? AND state = 'queued'",
        (now_ms, prompt_id),
    )
    return cursor.rowcount == 1


def interrupt_sent(db: Transaction, root_id: str, cause: str, now_ms: int) -> list[StoredPrompt]:
    """Every `sent` prompt of the tree becomes `interrupted` (nobody is working on it any more).

    Called by a fresh worker of the tree, or by the supervisor for a tree without a process.
    """
    rows = db.execute(
        "UPDATE prompts SET state = 'interrupted', stop_reason = ?, ended_at_ms = ?"
        " WHERE state = 'sent' AND session_id IN"
        " (SELECT session_id FROM sessions WHERE root_id = ?) RETURNING *",
        (cause, now_ms, root_id),
    )
    return many(StoredPrompt, rows)
