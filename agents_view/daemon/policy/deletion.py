"""What goes with a session, and whether a person saw all of it (R50, R51). Pure."""

from __future__ import annotations

import hashlib

import msgspec

from daemon_client.protocol.replies import DeletePlan, QueuedPrompt
from daemon_client.roster import RosterRow
from daemon_client.status import is_working
from daemon_client.text import clean


def plan(
    row: RosterRow, below: list[RosterRow], queued: list[QueuedPrompt], title: str
) -> DeletePlan:
    """The plan for deleting `row` with everything `below` it."""
    working = [other for other in below if is_working(other)]
    bare = DeletePlan(
        session_id=row.session_id,
        title=title,
        agent=row.agent,
        cwd=row.cwd,
        working=is_working(row),
        subagents=len(below),
        subagents_working=tuple(title_of(other) for other in working),
        queued=tuple(clean(prompt.text, 200) for prompt in queued),
        background=row.background + sum(other.background for other in below),
    )
    parts = [
        msgspec.json.encode(bare),
        *(prompt.prompt_id.encode() for prompt in queued),
        *sorted(other.session_id.encode() for other in working),
    ]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return msgspec.structs.replace(bare, fingerprint=digest)


def title_of(row: RosterRow) -> str:
    """What people call a session: its name, else its first message, else agent and short id."""
    text = row.name or row.first_message
    return clean(text, 200) if text else f"{row.agent} {row.session_id[-8:]}"
