"""Real records for the store's tests, made by the real constructors."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agents_view.daemon.store import prompts, sessions, workers
from agents_view.daemon.store.agent_sessions import AgentSession
from agents_view.daemon.store.prompts import Fence
from agents_view.daemon.store.sessions import Session

ROOT = "018f0000-0000-7000-8000-000000000001"
CHILD = "018f0000-0000-7000-8000-000000000002"
OTHER = "018f0000-0000-7000-8000-000000000003"
NOW = 1_767_225_600_000


def session(session_id: str = ROOT, parent_id: str | None = None, **changes: object) -> Session:
    values: dict = {
        "session_id": session_id,
        "agent": "shell",
        "cwd": "/project",
        "store": "",
        "root_id": parent_id or session_id,
        "parent_id": parent_id,
        "depth": 1 if parent_id else 0,
        "created_at_ms": NOW,
        "last_activity_at_ms": NOW,
    }
    return Session(**values | changes)


def agent_session(key: str, session_id: str = ROOT, **changes: object) -> AgentSession:
    values: dict = {
        "id": key,
        "session_id": session_id,
        "status": "running",
        "process": "alive",
        "created_at_ms": NOW,
        "updated_at_ms": NOW,
    }
    return AgentSession(**values | changes)


def tree(db: sqlite3.Connection, root_id: str = ROOT) -> Fence:
    """A root session with a worker in its first epoch."""
    sessions.create(db, session(root_id))
    return Fence(root_id=root_id, epoch=workers.begin(db, root_id, NOW))


def queue(db: sqlite3.Connection, fence: Fence, *ids: str, session_id: str = "") -> None:
    for prompt_id in ids:
        assert prompts.accept(
            db,
            fence,
            prompt_id=prompt_id,
            session_id=session_id or fence.root_id,
            source="person",
            text=f"text of {prompt_id}",
            now_ms=NOW,
        )


def flip(path: Path, what: bytes, by: bytes) -> int:
    """Replace bytes in a file as rot would; how many places."""
    data = path.read_bytes()
    path.write_bytes(data.replace(what, by))
    return data.count(what)
