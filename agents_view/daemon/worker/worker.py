"""One worker: the agents of one tree (spec 07.1). Wiring only."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from agents_view.base import processes
from agents_view.base.clock import Clock
from agents_view.base.settings import Settings
from agents_view.daemon import aftermath
from agents_view.daemon.store import agent_sessions, locks, sessions, workers
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreBusy
from agents_view.daemon.store.prompts import Fence
from agents_view.daemon.wire import (
    Bye,
    Order,
    WorkerArguments,
    WorkerHello,
)
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.link import Link
from agents_view.daemon.worker.orders import Orders
from agents_view.daemon.worker.session import SessionRunner
from daemon_client.connection import product_version
from daemon_client.launch import ensure_daemon
from daemon_client.paths import Paths
from daemon_client.protocol import PROTOCOL_VERSION

log = logging.getLogger(__name__)

CRASHED = "the worker ended while it was running"


class Worker:
    """Runs until its tree is stopped, or another worker has replaced it."""

    def __init__(self, arguments: WorkerArguments, settings: Settings, clock: Clock) -> None:
        self._arguments = arguments
        self._settings = settings
        self._clock = clock
        self._paths = Paths(
            config_file=Path(arguments.config),
            state_dir=Path(arguments.state),
            socket=Path(arguments.socket),
        )
        identity = processes.identify(os.getpid())
        assert identity is not None, "this process exists"
        self._identity = identity
        self._fence = Fence(root_id=arguments.root_id, epoch=arguments.epoch)
        self._db = Database(self._paths.database)
        self._stop: asyncio.Future[str] | None = None
        self._wanted: str | None = None
        self._link = Link(self._paths.socket, settings.daemon, clock, self, self._revive)
        self._shared = Shared(
            db=self._db,
            fence=self._fence,
            settings=settings,
            clock=clock,
            state=self._paths.state_dir,
            transcripts=self._paths.transcripts,
            socket=arguments.socket,
            upward=self._link,
            replaced=lambda: self.request_stop("replaced by another worker"),
        )
        self.runners: dict[str, SessionRunner] = {}
        self._orders = Orders(self._shared, self._link, self.runners, self.request_stop)

    # life

    async def run(self) -> int:
        """Serve the tree; the exit code. 0 also when another worker holds it."""
        lock = self._take_lock()
        if lock is None:
            return 0
        self._stop = asyncio.get_running_loop().create_future()
        if self._wanted is not None:
            self._stop.set_result(self._wanted)
        try:
            processes.become_subreaper()
            await self._db.open(may_migrate=False)
            await self._begin()
            return await self._serve(self._stop)
        finally:
            await self._db.close()
            os.close(lock)

    def _take_lock(self) -> int | None:
        """The tree's lock, inherited or taken here, held for life (S3)."""
        fd = self._arguments.lock_fd
        if fd < 0:
            try:
                fd = locks.take(self._paths.tree_locks / f"{self._arguments.root_id}.lock")
            except StoreBusy:
                return None
        os.set_inheritable(fd, False)
        mine = self._identity
        note = f"{mine.pid} {mine.start} {mine.boot_id} {self._arguments.epoch}\n"
        os.ftruncate(fd, 0)
        os.pwrite(fd, note.encode(), 0)
        return fd

    async def _begin(self) -> None:
        """Settle what a predecessor left, then bring back who was resident (05.6)."""
        root, fence, mine = self._arguments.root_id, self._fence, self._identity
        await self._db.write(
            lambda t: workers.identify(t, root, fence.epoch, mine.pid, mine.start, mine.boot_id)
        )
        left = await self._db.read(lambda t: agent_sessions.open_of_tree(t, root))
        await aftermath.sweep_leftovers(self._db, root, self._settings.agent.stop_step)
        now = self._clock.now_ms()
        turns = await aftermath.settle(self._db, self._paths.transcripts, root, CRASHED, now)
        if turns:
            log.warning("turns interrupted by a crash count=%d", turns)
        members = await self._db.read(lambda t: sessions.of_tree(t, root))
        for session in members:
            if session.archived_at_ms is None:
                await self._orders.open(session)
        for session_id in {row.session_id for row in left}:
            if session_id in self.runners:
                self.runners[session_id].start({})

    async def _serve(self, stop: asyncio.Future[str]) -> int:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self._link.run(), name="link"),
                tasks.create_task(self._tick(), name="tick"),
            ]
            cause = await stop
            log.info("worker stopping cause=%s", cause)
            await self._orders.finish()
            await asyncio.gather(*(runner.close(cause) for runner in self.runners.values()))
            self._orders.confirm_stop()
            self._link.send(Bye(reason=cause))
            self._link.close()
            await asyncio.sleep(0)
            for helper in helpers:
                helper.cancel()
        return 0

    async def _tick(self) -> None:
        """Now and then: silence, background processes, counters, orphans that ended."""
        while True:
            await self._clock.sleep(1.0)
            for runner in tuple(self.runners.values()):
                await runner.tick()
            processes.reap_orphans()

    def request_stop(self, cause: str) -> None:
        """End the tree. Safe to repeat; the first cause counts."""
        self._wanted = self._wanted or cause
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(cause)

    async def _revive(self) -> None:
        """No supervisor for too long: start one; a tied worker has no life without its own."""
        if self._arguments.tied:
            self.request_stop("the dashboard it belonged to is gone")
            return
        await ensure_daemon(self._paths)

    # LinkOwner

    def hello(self) -> WorkerHello:
        mine = self._identity
        return WorkerHello(
            protocol=PROTOCOL_VERSION,
            product=product_version(),
            root_id=self._arguments.root_id,
            epoch=self._arguments.epoch,
            pid=mine.pid,
            start=mine.start,
            boot_id=mine.boot_id,
            facts=tuple(runner.facts() for runner in self.runners.values()),
        )

    def welcomed(self) -> None:
        for runner in self.runners.values():
            runner.tell_all()

    def ordered(self, order: Order) -> None:
        self._orders.receive(order)

    def refused(self, reason: str) -> None:
        log.error("refused by the supervisor: %s", reason)
        self.request_stop(f"refused: {reason}")
