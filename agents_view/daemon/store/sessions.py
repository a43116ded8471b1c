"""Sessions: who they are, and what a person decided about them.

Supervisor writes names, archive, delete, owner, unread; a worker writes counters and ends of its
agents, with its epoch (spec 07.4).
"""

from __future__ import annotations

import json

import msgspec

from agents_view.daemon.store import spawn_ledger
from agents_view.daemon.store.database import Transaction, columns, many, one, readable
from agents_view.daemon.store.workers import check_epoch


class Session(msgspec.Struct, kw_only=True, frozen=True):
    """The durable fields of spec 01. Times are ms UTC; `env_*` are JSON texts."""

    session_id: str
    agent: str
    cwd: str
    store: str
    root_id: str
    parent_id: str | None
    depth: int
    created_at_ms: int
    last_activity_at_ms: int
    forked_from: str | None = None
    name: str | None = None
    draft: bool = False
    first_message: str = ""
    message_count: int = 0
    model: str | None = None
    mode: str | None = None
    owner_client_id: str | None = None
    unread: bool = False
    archived_at_ms: int | None = None
    deleted_at_ms: int | None = None
    exit_cause: str | None = None
    exit_at_ms: int | None = None
    env_names: str = "[]"
    env_kept: str = "{}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the environment variables its person had."""
        return msgspec.json.decode(self.env_names, type=tuple[str, ...])

    @property
    def kept(self) -> dict[str, str]:
        """The few variables whose values may be on disk."""
        return msgspec.json.decode(self.env_kept, type=dict[str, str])


class Counters(msgspec.Struct, kw_only=True, frozen=True):
    """What moves while a session works; written at most once a second."""

    last_activity_at_ms: int
    first_message: str
    message_count: int
    model: str | None
    mode: str | None


def create(db: Transaction, session: Session) -> None:
    """Insert the session and its spawn edge. Repeating it with the same id changes nothing."""
    values = columns(session)
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    cursor = db.execute(
        f"INSERT INTO sessions ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", values
    )
    if cursor.rowcount:
        spawn_ledger.append(
            db,
            spawn_ledger.Edge(
                at_ms=session.created_at_ms,
                edge="spawn",
                session_id=session.session_id,
                parent_id=session.parent_id,
                root_id=session.root_id,
                depth=session.depth,
                name=session.name,
            ),
        )


def get(db: Transaction, session_id: str) -> Session | None:
    """The session, deleted ones included."""
    return one(Session, db.execute("SELECT * FROM sessions WHERE session_id = ?", (session_id,)))


def load_all(db: Transaction) -> tuple[list[Session], list[str]]:
    """Every session with its row readable, and what is wrong with the others."""
    return readable(Session, db.execute("SELECT * FROM sessions"))


def of_tree(db: Transaction, root_id: str) -> list[Session]:
    """The living members of a tree, root first."""
    return many(
        Session,
        db.execute(
            "SELECT * FROM sessions WHERE root_id = ? AND deleted_at_ms IS NULL ORDER BY depth",
            (root_id,),
        ),
    )


def rename(db: Transaction, session_id: str, name: str | None, now_ms: int) -> bool:
    """Set or clear the name; False if there is no such session. Never moves its activity."""
    cursor = db.execute(
        "UPDATE sessions SET name = ?, draft = 0 WHERE session_id = ?", (name, session_id)
    )
    if cursor.rowcount:
        spawn_ledger.append_for(db, session_id, "rename", now_ms)
    return cursor.rowcount == 1


def set_archived(db: Transaction, ids: list[str], at_ms: int | None) -> None:
    """Put away (a time) or bring back (None)."""
    db.executemany(
        "UPDATE sessions SET archived_at_ms = ? WHERE session_id = ?",
        [(at_ms, session_id) for session_id in ids],
    )


def set_deleted(db: Transaction, ids: list[str], at_ms: int | None, now_ms: int) -> None:
    """Trash (a time) or bring back (None), with an edge for each in the ledger.

    Repeating it changes nothing: what is in the trash keeps the time it got there.
    """
    edge = "restore" if at_ms is None else "delete"
    for session_id in ids:
        cursor = db.execute(
            "UPDATE sessions SET deleted_at_ms = :at_ms WHERE session_id = :session_id"
            " AND (deleted_at_ms IS NULL) != (:at_ms IS NULL)",
            {"at_ms": at_ms, "session_id": session_id},
        )
        if cursor.rowcount:
            spawn_ledger.append_for(db, session_id, edge, now_ms)


def purge(db: Transaction, ids: list[str]) -> None:
    """Remove trashed sessions for good; the ledger keeps their edges."""
    db.executemany(
        "DELETE FROM sessions WHERE session_id = ? AND deleted_at_ms IS NOT NULL",
        [(session_id,) for session_id in ids],
    )


def trashed_before(db: Transaction, at_ms: int) -> list[str]:
    """Ids whose time in the trash is over."""
    rows = db.execute(
        "SELECT session_id FROM sessions WHERE deleted_at_ms IS NOT NULL AND deleted_at_ms < ?",
        (at_ms,),
    )
    return [row[0] for row in rows]


def set_unread(db: Transaction, session_id: str, unread: bool) -> None:
    """Something happened since a person last looked (R16), or a person looked."""
    db.execute("UPDATE sessions SET unread = ? WHERE session_id = ?", (int(unread), session_id))


def set_environment(
    db: Transaction, session_id: str, names: list[str], kept: dict[str, str]
) -> None:
    """Remember which variables its person had, and the few values that are no secrets (A9)."""
    db.execute(
        "UPDATE sessions SET env_names = ?, env_kept = ? WHERE session_id = ?",
        (json.dumps(names), json.dumps(kept), session_id),
    )


def save_counters(
    db: Transaction, root_id: str, epoch: int, session_id: str, counters: Counters
) -> None:
    """A worker's counters. Raises `StaleEpoch`."""
    check_epoch(db, root_id, epoch)
    db.execute(
        "UPDATE sessions SET last_activity_at_ms = :last_activity_at_ms,"
        " first_message = :first_message, message_count = :message_count,"
        " model = :model, mode = :mode,"
        " draft = CASE WHEN :message_count > 0 THEN 0 ELSE draft END"
        " WHERE session_id = :session_id AND root_id = :root_id",
        columns(counters) | {"session_id": session_id, "root_id": root_id},
    )


def save_exit(
    db: Transaction, root_id: str, epoch: int, session_id: str, cause: str | None, at_ms: int
) -> None:
    """How the session's agent ended last; None clears it. Raises `StaleEpoch`."""
    check_epoch(db, root_id, epoch)
    db.execute(
        "UPDATE sessions SET exit_cause = ?, exit_at_ms = ? WHERE session_id = ? AND root_id = ?",
        (cause, at_ms if cause else None, session_id, root_id),
    )
