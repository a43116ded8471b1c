"""Agent sessions: one row per ACP session an agent process holds (spec 06.1).

The agent's own id stands here before the first prompt is sent (A8), so that a later process can
load the conversation.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from agents_view.daemon.store.database import Transaction, columns, many, one
from agents_view.daemon.store.workers import check_epoch

AgentSessionStatus = Literal["pending", "assigned", "running", "completed", "failed", "interrupted"]
ProcessFact = Literal["alive", "exited", "unknown"]


class AgentSession(msgspec.Struct, kw_only=True, frozen=True):
    """Facts about the agent's own process, never about the worker's."""

    id: str
    session_id: str
    status: AgentSessionStatus
    process: ProcessFact
    created_at_ms: int
    updated_at_ms: int
    workspace_id: str | None = None
    acp_session_id: str | None = None
    can_load: bool = False
    pid: int | None = None
    process_start: int | None = None
    boot_id: str | None = None
    started_at_ms: int | None = None
    last_heartbeat_at_ms: int | None = None


def save(db: Transaction, root_id: str, epoch: int, agent_session: AgentSession) -> None:
    """Insert or replace the whole row. Raises `StaleEpoch`."""
    check_epoch(db, root_id, epoch)
    values = columns(agent_session)
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    db.execute(f"INSERT OR REPLACE INTO agent_sessions ({names}) VALUES ({marks})", values)


def latest_loadable(db: Transaction, session_id: str) -> AgentSession | None:
    """The newest row whose conversation a new process could bring back (A14)."""
    return one(
        AgentSession,
        db.execute(
            "SELECT * FROM agent_sessions WHERE session_id = ? AND acp_session_id IS NOT NULL"
            " ORDER BY created_at_ms DESC, id DESC LIMIT 1",
            (session_id,),
        ),
    )


def open_of_tree(db: Transaction, root_id: str) -> list[AgentSession]:
    """Rows whose process was never seen to end: what a crash of the worker left behind."""
    return many(
        AgentSession,
        db.execute(
            "SELECT a.* FROM agent_sessions a JOIN sessions s USING (session_id)"
            " WHERE s.root_id = ? AND a.process != 'exited'",
            (root_id,),
        ),
    )


def interrupt_open(db: Transaction, root_id: str, now_ms: int) -> None:
    """The processes of the tree are confirmed gone: their rows end as interrupted."""
    db.execute(
        "UPDATE agent_sessions SET status = 'interrupted', process = 'exited', updated_at_ms = ?"
        " WHERE process != 'exited' AND session_id IN"
        " (SELECT session_id FROM sessions WHERE root_id = ?)",
        (now_ms, root_id),
    )
