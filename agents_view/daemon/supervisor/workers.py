"""The workers of all covered trees: start, adopt, crash, stop (S3, S21, spec 05.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from agents_view.base.clock import Clock
from agents_view.base.processes import Identity
from agents_view.base.settings import DaemonSettings
from agents_view.daemon.policy.restarts import after_crash
from agents_view.daemon.store import workers as store
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.workers import WorkerRow, WorkerRowState
from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.supervisor.starting import Starter
from agents_view.daemon.supervisor.tree import Launcher, PoolEvents, RunningWorker, Tree
from agents_view.daemon.wire import (
    AnyOrder,
    Bye,
    Deliver,
    FromPeer,
    OrderDone,
    OrderFailed,
    StopTree,
    SupervisorClosing,
    WorkerHello,
    WorkerWelcome,
)
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.paths import Paths
from daemon_client.protocol.commands import ShutdownReason
from daemon_client.protocol.replies import WorkerStatus
from daemon_client.text import cause_text

log = logging.getLogger(__name__)


class WorkerPool:
    """At most one worker per root. One loop only."""

    def __init__(
        self,
        db: Database,
        paths: Paths,
        settings: DaemonSettings,
        clock: Clock,
        launcher: Launcher,
        generation: str,
        *,
        tied: bool,
    ) -> None:
        self._db = db
        self._settings = settings
        self._clock = clock
        self._launcher = launcher
        self._generation = generation
        self._starter = Starter(db, paths, clock, launcher, tied=tied)
        self._trees: dict[str, Tree] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        self.events: PoolEvents

    # reading

    def tree(self, root_id: str) -> Tree | None:
        """The tree if it is covered or failed."""
        return self._trees.get(root_id)

    def connected(self, root_id: str) -> Tree | None:
        """The tree if its worker can take orders now."""
        tree = self._trees.get(root_id)
        return tree if tree is not None and tree.peer is not None else None

    def worker_root(self, identity: Identity) -> str | None:
        """Which tree's worker exactly this process is."""
        for tree in self._trees.values():
            if tree.running is not None and tree.running.identity == identity:
                return tree.root_id
        return None

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """For `daemon status`."""
        return tuple(
            WorkerStatus(pid=t.pid, root_id=t.root_id, state=t.state, since_ms=t.since_ms)
            for t in self._trees.values()
            if t.state != "stopped"
        )

    def covered_roots(self) -> list[str]:
        return [tree.root_id for tree in self._trees.values() if tree.covers]

    # starting

    async def ensure(self, root_id: str) -> Tree:
        """The tree with a connected worker; started if it has none, awaited if it is coming.

        Raises `DaemonError(unavailable)` with the cause.
        """
        if self.closing:
            raise DaemonError(ErrorCode.UNAVAILABLE, "the daemon is stopping")
        tree = self._trees.setdefault(root_id, Tree(root_id=root_id, state="stopped"))
        async with tree.guard:
            if tree.peer is not None and tree.state == "ready":
                return tree
            if tree.state in ("stopped", "failed"):
                tree.crashes = 0
                await self._launch(tree)
        await self._until_ready(tree)
        return tree

    async def _until_ready(self, tree: Tree) -> None:
        bound = self._settings.hello_timeout + sum(self._settings.restart_delays)
        try:
            async with asyncio.timeout(bound):
                await tree.ready.wait()
        except TimeoutError:
            cause = tree.cause or "it does not answer"
            message = f"the session's worker did not start: {cause}"
            raise DaemonError(ErrorCode.UNAVAILABLE, message) from None
        if tree.state == "failed":
            raise DaemonError(ErrorCode.UNAVAILABLE, f"the session's worker failed: {tree.cause}")

    async def _launch(self, tree: Tree) -> None:
        tree.ready.clear()
        tree.ended.clear()
        tree.said_bye = False
        try:
            running = await self._starter.start(tree, lambda: self._begun(tree))
        except OSError as error:
            self._set_local(tree, "failed", cause=cause_text(f"worker not started: {error}"))
            raise DaemonError(ErrorCode.UNAVAILABLE, tree.cause or "") from None
        self._watch(tree, running)

    def _begun(self, tree: Tree) -> None:
        """After a crash the rows say `recovering` until the new worker has spoken (R6)."""
        if tree.state != "recovering":
            self._set_local(tree, "starting")

    # adoption (05.7)

    def adopt(self, row: WorkerRow) -> Tree:
        """A worker that lives from before this supervisor: it will dial."""
        tree = Tree(
            root_id=row.root_id,
            epoch=row.epoch,
            state="recovering",
            since_ms=row.since_ms,
            crashes=row.crashes,
            last_heard_ms=self._clock.now_ms(),
        )
        self._trees[row.root_id] = tree
        if row.pid is not None and row.start is not None and row.boot_id is not None:
            identity = Identity(pid=row.pid, start=row.start, boot_id=row.boot_id)
            tree.running = self._launcher.adopt(identity)
            self._watch(tree, tree.running)
        self.events.covered(tree)
        return tree

    async def all_dialled(self, within: float) -> None:
        """Wait until every adopted worker registered or ended, at most that long."""
        trees = [tree for tree in self._trees.values() if tree.state == "recovering"]
        try:
            async with asyncio.timeout(within):
                for tree in trees:
                    await tree.ready.wait()
        except TimeoutError:
            late = [tree.root_id[-8:] for tree in trees if not tree.ready.is_set()]
            log.warning("workers alive but not registered yet roots=%s", ",".join(late))

    # talking

    async def greet(self, peer: Peer, hello: WorkerHello) -> None:
        """A worker dials. Raises `DaemonError` if it is not the one the table names."""
        tree = self._trees.get(hello.root_id)
        identity = peer.identity
        if tree is None or tree.epoch != hello.epoch or identity is None:
            raise DaemonError(ErrorCode.REFUSED, "this tree has another worker")
        if tree.running is None:
            # its supervisor was killed between starting it and writing its identity down
            tree.running = self._launcher.adopt(identity)
            self._watch(tree, tree.running)
            await self._starter.identify(tree, identity)
        if tree.running.identity != identity:
            raise DaemonError(ErrorCode.REFUSED, "this process is not the tree's worker")
        if tree.peer is not None and tree.peer is not peer:
            tree.peer.link.abort()
        tree.peer = peer
        peer.worker_root = tree.root_id
        tree.last_heard_ms = self._clock.now_ms()
        tree.stale = False
        tree.up_since = self._clock.monotonic()
        self.events.greeting(tree)
        peer.send(WorkerWelcome(generation=self._generation))
        if tree.state != "stopping":
            await self._set(tree, "ready")
        self.events.greeted(tree, hello)
        tree.ready.set()
        log.info("worker ready root=%s epoch=%d pid=%d", tree.root_id, tree.epoch, identity.pid)

    def receive(self, peer: Peer, message: FromPeer) -> None:
        """Anything a registered worker says."""
        tree = self._trees.get(peer.worker_root or "")
        if tree is None:
            return
        tree.last_heard_ms = self._clock.now_ms()
        if tree.stale:
            tree.stale = False
            self.events.covered(tree)
        if isinstance(message, OrderDone):
            tree.resolve(message.order_id, message)
        elif isinstance(message, OrderFailed):
            error = message.error
            failure = DaemonError(error.code, error.message, error.detail)
            tree.resolve(message.order_id, failure)
        elif isinstance(message, Bye):
            tree.said_bye = True
        else:
            self.events.heard(tree, message)

    def lost(self, peer: Peer) -> None:
        """The link of a worker broke; its process may live on and dial again."""
        tree = self._trees.get(peer.worker_root or "")
        if tree is not None and tree.peer is peer:
            tree.disconnect()

    async def order(
        self, root_id: str, body: AnyOrder, *, timeout: float | None = None
    ) -> OrderDone:
        """Have the tree's worker carry out an order, starting one if need be.

        A `Deliver` whose worker dies before it answered is given to the next one: the prompt id
        keeps it from being accepted twice.
        """
        bound = timeout or self._settings.order_timeout
        tries = 3 if isinstance(body, Deliver) else 1
        while True:
            tree = await self.ensure(root_id)
            tries -= 1
            try:
                return await tree.order(body, bound)
            except DaemonError as error:
                if error.code is not ErrorCode.UNAVAILABLE or not tries:
                    raise
                await asyncio.sleep(self._settings.roster_tick)

    def mark_stale(self) -> None:
        """Facts that are too old behind a silent worker are marked, not judged (R7)."""
        limit = self._clock.now_ms() - int(self._settings.stale_after * 1000)
        for tree in self._trees.values():
            silent = tree.last_heard_ms is not None and tree.last_heard_ms < limit
            if tree.covers and silent and not tree.stale:
                tree.stale = True
                self.events.covered(tree)

    # ending

    def _watch(self, tree: Tree, running: RunningWorker) -> None:
        self._own(self._until_exit(tree, running), f"worker-{tree.root_id[-8:]}")

    async def _until_exit(self, tree: Tree, running: RunningWorker) -> None:
        how = await running.wait()
        if tree.running is not running:
            return
        tree.disconnect()
        if tree.state == "stopping" or tree.said_bye or not how:
            await self._ended(tree, None)
            return
        cause = cause_text(f"worker ended: {how}")
        log.warning("worker crashed root=%s pid=%s how=%s", tree.root_id, tree.pid, how)
        healthy = self._clock.monotonic() - tree.up_since if tree.up_since else 0.0
        restart = after_crash(
            tree.crashes, healthy, self._settings.restart_delays, self._settings.crash_reset
        )
        tree.crashes = restart.crashes
        tree.up_since = 0.0
        self.events.crashed(tree)
        if restart.delay is None or self.closing:
            await self._ended(tree, f"{cause} ({restart.crashes} times)")
            return
        await self._set(tree, "recovering", cause=cause)
        await self._clock.sleep(restart.delay)
        await self._again(tree)

    async def _again(self, tree: Tree) -> None:
        async with tree.guard:
            if tree.state != "recovering" or self.closing:
                return
            try:
                await self._launch(tree)
            except DaemonError as error:
                await self._ended(tree, error.message)

    async def _ended(self, tree: Tree, cause: str | None) -> None:
        """No worker any more; `cause` set: it failed, and waits for a retry or the next prompt."""
        await self.events.gone(tree)
        tree.running = None
        await self._set(tree, "failed" if cause else "stopped", cause=cause)
        if cause:
            log.error("worker failed root=%s cause=%s", tree.root_id, cause)
        else:
            log.info("worker stopped root=%s", tree.root_id)
        tree.ended.set()
        tree.ready.set()  # whoever waits for it looks at the state
        tree.ready.clear()

    async def stop(self, root_id: str, cause: str, within: float) -> None:
        """End the tree's worker and every agent of it; returns when they are confirmed gone."""
        tree = self._trees.get(root_id)
        if tree is None or not tree.covers:
            return
        async with tree.guard:
            if not tree.covers:
                return
            if tree.running is None:
                await self._ended(tree, None)
                return
            await self._set(tree, "stopping")
            if tree.peer is not None:
                self._own(self._say_stop(tree, cause, within), f"stop-{root_id[-8:]}")
            else:
                tree.running.kill()
            try:
                async with asyncio.timeout(within):
                    await tree.ended.wait()
            except TimeoutError:
                log.warning("worker killed root=%s: not stopped in %gs", root_id, within)
                tree.running.kill()
                await tree.ended.wait()

    async def _say_stop(self, tree: Tree, cause: str, within: float) -> None:
        try:
            await tree.order(StopTree(session_id=tree.root_id, cause=cause), within)
        except DaemonError as error:
            log.info("stop of root=%s: %s", tree.root_id, error.message)

    async def stop_all(self, cause: str, within: float) -> None:
        """End every tree, all at once."""
        self.closing = True
        await asyncio.gather(*(self.stop(root, cause, within) for root in self.covered_roots()))

    def say_closing(self, reason: ShutdownReason) -> None:
        """Tell the workers how this supervisor ends."""
        self.closing = True
        for tree in self._trees.values():
            if tree.peer is not None:
                tree.peer.send(SupervisorClosing(reason=reason))

    async def close(self) -> None:
        """Stop watching; the workers themselves are left alone."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # state

    def _set_local(self, tree: Tree, state: WorkerRowState, *, cause: str | None = None) -> None:
        tree.state, tree.cause, tree.since_ms = state, cause, self._clock.now_ms()
        self.events.covered(tree)

    async def _set(self, tree: Tree, state: WorkerRowState, *, cause: str | None = None) -> None:
        self._set_local(tree, state, cause=cause)
        root, epoch, now, crashes = tree.root_id, tree.epoch, tree.since_ms, tree.crashes
        await self._db.write(
            lambda t: store.set_state(t, root, epoch, state, now, cause=cause, crashes=crashes)
        )

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s failed", task.get_name(), exc_info=error)
