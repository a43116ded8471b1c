"""Open the store at boot, whatever state it is in (spec 07.4): nothing is deleted."""

from __future__ import annotations

import asyncio
import logging

from agents_view.base import processes
from agents_view.base.processes import Identity
from agents_view.daemon.store import integrity
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreDamaged
from agents_view.daemon.supervisor.singleton import is_held
from daemon_client.paths import Paths

log = logging.getLogger(__name__)


async def open_store(db: Database, paths: Paths, patience: float, now_ms: int) -> str:
    """Open; a damaged database is set aside first. What people should know about it, or "".

    Workers that hold a tree end before anything is moved: they could write into the old file.
    """
    try:
        await db.open(may_migrate=True)
        return ""
    except StoreDamaged as error:
        reason = str(error)
    log.error("store damaged: %s", reason)
    await processes.end_all(_tree_holders(paths), patience)
    found = await asyncio.to_thread(
        integrity.set_aside, paths.database, paths.tree_locks, reason, now_ms
    )
    await db.open(may_migrate=True)
    moved = found.moved[0].name if found.moved else "nothing"
    offer = f"; newest good backup: {found.backup}" if found.backup else "; there is no backup"
    log.error("store set aside moved=%s%s", moved, offer)
    return f"the store was damaged and set aside as {moved}{offer}"


def _tree_holders(paths: Paths) -> list[Identity]:
    """Processes that hold a tree's lock, by what they wrote into it."""
    found: list[Identity] = []
    for path in paths.tree_locks.glob("*.lock"):
        words = path.read_text(errors="replace").split()
        if is_held(path) and len(words) >= 3 and words[0].isdecimal() and words[1].isdecimal():
            found.append(Identity(pid=int(words[0]), start=int(words[1]), boot_id=words[2]))
    return found
