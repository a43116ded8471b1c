"""The spawn ledger: append-only edges, the only truth for parenthood (spec 01)."""

from __future__ import annotations

from typing import Literal

import msgspec

from agents_view.daemon.store.database import Transaction, columns

EdgeKind = Literal["spawn", "rename", "delete", "restore"]


class Edge(msgspec.Struct, kw_only=True, frozen=True):
    """One event in the life of a tree."""

    at_ms: int
    edge: EdgeKind
    session_id: str
    parent_id: str | None
    root_id: str
    depth: int
    name: str | None


def append(db: Transaction, edge: Edge) -> None:
    """Record an edge; nothing ever changes or removes one."""
    db.execute(
        "INSERT INTO spawn_ledger (at_ms, edge, session_id, parent_id, root_id, depth, name)"
        " VALUES (:at_ms, :edge, :session_id, :parent_id, :root_id, :depth, :name)",
        columns(edge),
    )


def append_for(db: Transaction, session_id: str, edge: EdgeKind, at_ms: int) -> None:
    """Record an edge about an existing session, with its place and name of now."""
    db.execute(
        "INSERT INTO spawn_ledger (at_ms, edge, session_id, parent_id, root_id, depth, name)"
        " SELECT ?, ?, session_id, parent_id, root_id, depth, name"
        " FROM sessions WHERE session_id = ?",
        (at_ms, edge, session_id),
    )


def descendants(db: Transaction, session_id: str) -> list[str]:
    """Ids of everything ever spawned below, nearest first. A damaged cycle ends the walk."""
    found: list[str] = []
    seen = {session_id}
    frontier = [session_id]
    while frontier:
        rows = db.execute(
            "SELECT session_id FROM spawn_ledger WHERE edge = 'spawn' AND parent_id IN "
            f"({', '.join('?' * len(frontier))})",
            frontier,
        )
        frontier = [row[0] for row in rows if row[0] not in seen]
        seen.update(frontier)
        found.extend(frontier)
    return found
