"""Who is at the other end of a connection, by its process and nothing else (spec 07.3)."""

from __future__ import annotations

import os

from agents_view.base import processes
from agents_view.base.processes import Identity
from agents_view.daemon.policy.access import PERSON, Caller
from agents_view.daemon.supervisor.roster import Roster
from agents_view.daemon.supervisor.workers import WorkerPool
from daemon_client.roster import SessionId


def caller_of(
    identity: Identity | None, claimed: SessionId | None, roster: Roster, workers: WorkerPool
) -> Caller:
    """An agent if the process descends from a worker, the nearest one above it; else a person.

    A supervisor in between ends the search: what it starts itself (a hook) is no agent. Which
    member of the tree an agent acts for is told by the agent process above it; one that has
    detached itself from that is taken by its word, within the worker's tree only.
    """
    if identity is None:
        return PERSON
    member = None
    for above in (identity, *processes.ancestors(identity.pid)):
        member = member or roster.agent_of(above.pid, above.start)
        root = workers.worker_root(above)
        if root is not None and above != identity:
            return _agent(member.session_id if member else None, claimed, root, roster)
        if above.pid == os.getpid():
            break
    if member is not None:
        # workers run inside this very process (embedded, inline): the agent is proof enough
        return Caller(session_id=member.session_id, root_id=member.root_id)
    return PERSON


def _agent(
    member: SessionId | None, claimed: SessionId | None, root: SessionId, roster: Roster
) -> Caller:
    if member is None and claimed is not None and claimed in roster.members(root):
        member = claimed
    return Caller(session_id=member or root, root_id=root)
