"""What workers say becomes rows, streams and marks: the facts' way up (design: facts up)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from agents_view.daemon import aftermath
from agents_view.daemon.policy.rows import without_work
from agents_view.daemon.store import sessions as store
from agents_view.daemon.store.transcripts import read_page
from agents_view.daemon.supervisor.context import Daemon
from agents_view.daemon.supervisor.tree import Tree
from agents_view.daemon.wire import (
    Aside,
    Event,
    Facts,
    FromPeer,
    Refresh,
    SessionFacts,
    Watch,
    WorkerHello,
)
from daemon_client.errors import DaemonError
from daemon_client.roster import SessionId

log = logging.getLogger(__name__)

_TAIL = 50
"""Entries: more than a crash and its settling write between two workers."""


class Hearing:
    """Listens to the worker pool on behalf of the roster and the streams."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._tasks: set[asyncio.Task[None]] = set()

    # PoolEvents

    def covered(self, tree: Tree) -> None:
        self._daemon.roster.cover(tree.root_id, tree.coverage())

    def greeting(self, tree: Tree) -> None:
        """Agents that are brought back after a crash start at the welcome, with their person's
        environment as we know it (A9)."""
        for key in self._daemon.roster.members(tree.root_id):
            environ = self._daemon.environments.of(key)
            if environ:
                tree.tell(Refresh(session_id=key, environ=environ))

    def greeted(self, tree: Tree, hello: WorkerHello) -> None:
        daemon = self._daemon
        daemon.roster.put_facts(hello.facts)
        for key in daemon.roster.members(tree.root_id):
            if daemon.session_streams.watched(key):
                self.own(self._watch(tree, key))

    async def _watch(self, tree: Tree, key: SessionId) -> None:
        """Followers go on with the new worker, and get what was written between the two."""
        try:
            bound = self._daemon.settings.daemon.order_timeout
            await tree.order(Watch(session_id=key, on=True), bound)
        except DaemonError as error:
            log.info("watch of session=%s: %s", key, error.message)
        await self._publish_tail(key)

    async def _publish_tail(self, key: SessionId) -> None:
        """The last entries once more; whoever has them knows by their `seq`."""
        path = self._daemon.transcript_path(key)
        page = await asyncio.to_thread(read_page, path, limit=_TAIL)
        if page.entries:
            self._daemon.session_streams.publish(key, page.entries)

    def heard(self, tree: Tree, message: FromPeer) -> None:
        if isinstance(message, Facts):
            for facts in message.sessions:
                self._note_unread(facts)
            self._daemon.roster.put_facts(message.sessions)
        elif isinstance(message, Event):
            self._daemon.session_streams.publish(message.session_id, message.entries)
        elif isinstance(message, Aside):
            self._daemon.session_streams.put_aside(message)

    def crashed(self, tree: Tree) -> None:
        """A turn that was cut off is cleared; the rows stay where they are (R6)."""
        daemon = self._daemon
        daemon.counters["worker_crashes"] += 1
        daemon.roster.map_facts(tree.root_id, without_work)
        daemon.session_streams.drop_aside(daemon.roster.members(tree.root_id))

    async def gone(self, tree: Tree) -> None:
        """No worker follows: settle what it left, then the members are passive."""
        turns = await settle_tree(self._daemon, tree.root_id, tree.cause or "the worker ended")
        daemon = self._daemon
        members = daemon.roster.members(tree.root_id)
        daemon.session_streams.drop_aside(members)
        daemon.roster.drop_facts(tree.root_id)
        await self.reload(members)
        for key in members if turns else ():
            if daemon.session_streams.watched(key):
                await self._publish_tail(key)

    async def reload(self, session_ids: list[SessionId]) -> None:
        """Take over what the worker wrote about its sessions (counters, exit causes)."""
        for key in session_ids:
            fresh = await self._daemon.db.read(lambda t, key=key: store.get(t, key))
            if fresh is not None and fresh.deleted_at_ms is None and key in self._daemon.roster:
                self._daemon.roster.put(fresh)

    # unread (R16)

    def _note_unread(self, now: SessionFacts) -> None:
        """Something finished, failed or asked while no person was looking."""
        before = self._daemon.roster.facts(now.session_id)
        session = self._daemon.roster.session(now.session_id)
        if session is None or before is None or session.unread:
            return
        finished = before.turn_started_at_ms is not None and now.turn_started_at_ms is None
        asked = now.waiting is not None and now.waiting != before.waiting
        failed = now.exit_cause is not None and now.exit_cause != before.exit_cause
        if not (finished or asked or failed):
            return
        if self._daemon.session_streams.watched(now.session_id):
            return
        self._daemon.roster.put(msgspec.structs.replace(session, unread=True))
        key = now.session_id
        self.own(self._daemon.db.write(lambda t: store.set_unread(t, key, True)))

    def own(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("bookkeeping failed", exc_info=error)


async def settle_tree(daemon: Daemon, root_id: SessionId, cause: str) -> int:
    """End leftovers and mark cut-off turns of a tree without a worker; how many turns."""
    patience = daemon.settings.agent.stop_step
    swept = await aftermath.sweep_leftovers(daemon.db, root_id, patience)
    if swept:
        daemon.counters["leftovers_swept"] += swept
        log.warning("leftovers ended root=%s processes=%d", root_id, swept)
    now = daemon.clock.now_ms()
    return await aftermath.settle(daemon.db, daemon.paths.transcripts, root_id, cause, now)
