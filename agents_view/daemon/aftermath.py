"""What a worker that died leaves behind, and how it is settled (spec 05.6, S52, A15).

Used by the tree's next worker, and by the supervisor for a tree that gets none. Whoever calls it
holds the tree's lock, so nobody else works on the tree.
"""

from __future__ import annotations

import logging
from pathlib import Path

from agents_view.base import processes
from agents_view.daemon.store import agent_sessions, prompts, sessions
from agents_view.daemon.store.database import Database, Transaction
from agents_view.daemon.store.prompts import StoredPrompt
from agents_view.daemon.store.transcripts import TranscriptWriter, transcript_path
from daemon_client.protocol.transcript import TurnEndEntry

log = logging.getLogger(__name__)

SESSION_TAG = "AGENTS_VIEW_SESSION_ID"
"""The variable that marks every process of an agent."""


async def sweep_leftovers(db: Database, root_id: str, patience: float) -> int:
    """End agents of the tree that outlived their worker; how many processes that were.

    Found by the identity the worker recorded and by their tag; never by name.
    """
    recorded = await db.read(lambda t: agent_sessions.open_of_tree(t, root_id))
    members = await db.read(lambda t: sessions.of_tree(t, root_id))
    found: set[processes.Identity] = set()
    for row in recorded:
        if row.pid and row.process_start is not None and row.boot_id:
            identity = processes.Identity(pid=row.pid, start=row.process_start, boot_id=row.boot_id)
            if processes.is_alive(identity):
                found.update((identity, *processes.descendants(identity.pid)))
    for session in members:
        found.update(processes.tagged(SESSION_TAG, session.session_id))
    await processes.end_all(found, patience)
    return len(found)


async def settle(db: Database, transcripts: Path, root_id: str, cause: str, now_ms: int) -> int:
    """Mark what was cut off as interrupted, in the store and in the transcripts.

    Returns the number of turns. Nothing is replayed; queued prompts stay queued.
    """

    def mark(t: Transaction) -> list[StoredPrompt]:
        agent_sessions.interrupt_open(t, root_id, now_ms)
        return prompts.interrupt_sent(t, root_id, cause, now_ms)

    interrupted = await db.write(mark)
    for prompt in interrupted:
        writer = TranscriptWriter(transcript_path(transcripts, prompt.session_id))
        await writer.open()
        entry = TurnEndEntry(prompt_id=prompt.prompt_id, stop_reason="interrupted", cause=cause)
        writer.append(entry, now_ms)
        await writer.close()
    return len(interrupted)
