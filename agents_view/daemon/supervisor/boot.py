"""What a supervisor does before it shows anything: store, adoption, trees without a process.

Order (S52): store → living workers are adopted → trees whose worker died are settled, and started
again if prompts wait in them. Candidates: one row per tree that ever had a worker; each costs one
`flock`, and a tree that ended cleanly nothing more.
"""

from __future__ import annotations

import logging

from agents_view.daemon.store import prompts, sessions, workers
from agents_view.daemon.store.workers import WorkerRow
from agents_view.daemon.supervisor.context import Daemon
from agents_view.daemon.supervisor.hearing import settle_tree
from agents_view.daemon.supervisor.singleton import Lock, is_held
from agents_view.daemon.wire import Start
from daemon_client.errors import DaemonError

log = logging.getLogger(__name__)


async def load_roster(daemon: Daemon) -> None:
    """Every session that is not deleted. A row that cannot be read hides no other."""
    stored, bad = await daemon.db.read(sessions.load_all)
    for problem in bad:
        log.error("session row unreadable: %s", problem)
    daemon.counters["unreadable_sessions"] = len(bad)
    daemon.roster.put(*(s for s in stored if s.deleted_at_ms is None))


async def adopt(daemon: Daemon) -> list[str]:
    """Take over workers that live; returns the roots whose worker died with work unsettled."""
    dead: list[str] = []
    for row in await daemon.db.read(workers.load_all):
        if not daemon.roster.members(row.root_id):
            continue
        if is_held(daemon.paths.tree_locks / f"{row.root_id}.lock"):
            # a process holds the tree: its worker, whatever the table says (S21)
            daemon.workers.adopt(row)
        elif row.state not in ("stopped", "failed"):
            dead.append(row.root_id)
            await _settle(daemon, row)
    return dead


async def _settle(daemon: Daemon, row: WorkerRow) -> None:
    """The worker died while no supervisor looked, or the machine went down (S52)."""
    lock = Lock(daemon.paths.tree_locks / f"{row.root_id}.lock")
    if not lock.acquire():
        daemon.workers.adopt(row)
        return
    try:
        turns = await settle_tree(daemon, row.root_id, "the worker ended while the daemon was down")
        now = daemon.clock.now_ms()
        await daemon.db.write(
            lambda t: workers.set_state(t, row.root_id, row.epoch, "stopped", now)
        )
        log.warning("worker found dead root=%s turns_interrupted=%d", row.root_id, turns)
    finally:
        lock.release()


async def deliver_waiting(daemon: Daemon) -> None:
    """Prompts that were accepted and never sent go out, whatever crash came between."""
    waiting = await daemon.db.read(prompts.queued_counts)
    for session_id in waiting:
        session = daemon.roster.session(session_id)
        if session is None or session.archived_at_ms is not None or session.exit_cause:
            continue  # held: a person has to look first
        if daemon.workers.tree(session.root_id) is not None:
            continue
        try:
            await daemon.workers.order(session.root_id, Start(session_id=session_id))
        except DaemonError as error:
            log.error("queued prompts of session=%s not delivered: %s", session_id, error.message)
