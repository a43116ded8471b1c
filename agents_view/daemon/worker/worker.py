"""One worker: the agents of one tree (spec 07.1). Wiring only."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from agents_view.base import processes
from agents_view.base.clock import Clock
from agents_view.base.settings import Settings
from agents_view.daemon import aftermath
from agents_view.daemon.store import agent_sessions, locks, sessions, workers
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StaleEpoch, StoreBusy
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

CRASHED: Final = "the worker ended while it was running"
_TICK: Final = 1.0


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
        self._faulty = False
        self._link = Link(
            self._paths.socket, settings.daemon, clock, self, self._revive, tied=arguments.tied
        )
        self._shared = Shared(
            db=self._db,
            fence=self._fence,
            settings=settings,
            config=self._paths.config_file,
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
            return await self._serve(self._stop)
        except StaleEpoch as error:
            log.error("not the worker of this tree any more: %s", error)
            return 0
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

    async def _serve(self, stop: asyncio.Future[str]) -> int:
        """Whatever ends this, no agent outlives it."""
        helpers: list[asyncio.Task[None]] = []
        cause = "the worker was ended"
        try:
            await self._recover()
            for work in (self._link.run(), self._tick(), self._begin_alone()):
                helpers.append(asyncio.create_task(work, name="worker-helper"))
                helpers[-1].add_done_callback(self._helper_ended)
            cause = await stop
            log.info("worker stopping cause=%s", cause)
        finally:
            await self._end_agents(cause)
            if not self._faulty:
                self._orders.confirm_stop()
                self._link.send(Bye(reason=cause))
            await self._link.close()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        return 1 if self._faulty else 0

    async def _recover(self) -> None:
        """Settle what a predecessor left, then bring back who was resident (05.6)."""
        root, fence, mine = self._arguments.root_id, self._fence, self._identity
        known = await self._db.write(
            lambda t: workers.identify(t, root, fence.epoch, mine.pid, mine.start, mine.boot_id)
        )
        if not known:
            raise StaleEpoch(f"epoch {fence.epoch} of {root} is over")
        left = await self._db.read(lambda t: agent_sessions.open_of_tree(t, root))
        swept = await aftermath.sweep_leftovers(self._db, root, self._settings.agent.stop_step)
        now = self._clock.now_ms()
        turns = await aftermath.settle(self._db, self._paths.transcripts, root, CRASHED, now)
        if swept or turns:
            log.warning("left by a crash: turns=%d processes=%d", turns, swept)
        members = await self._db.read(lambda t: sessions.of_tree(t, root))
        for session in members:
            if session.archived_at_ms is None:
                await self._orders.open(session)
        for session_id in {row.session_id for row in left}:
            if session_id in self.runners:
                await self.runners[session_id].start({})

    async def _begin_alone(self) -> None:
        """Agents of a predecessor come back without a supervisor as well, a little later.

        One that is there is waited for: it may still know the environment a person gave (A9).
        """
        await self._clock.sleep(self._settings.daemon.boot_pass)
        self._shared.begun.set()

    async def _end_agents(self, cause: str) -> None:
        """All at once; one that fails in it does not keep the others."""
        await self._orders.finish()
        closing = (runner.close(cause) for runner in self.runners.values())
        for result in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("session not closed properly", exc_info=result)

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        """The line or the clock of this worker failed: a worker without them is worth nothing."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("worker failed", exc_info=error)
            self._faulty = True
            self.request_stop(f"internal error: {type(error).__name__}")

    async def _tick(self) -> None:
        """Now and then: silence, counters, and more rarely what needs the process table."""
        looked = self._clock.monotonic()
        while True:
            await self._clock.sleep(_TICK)
            look = self._clock.monotonic() - looked >= self._settings.daemon.alive_interval
            for runner in tuple(self.runners.values()):
                try:
                    await runner.tick(look=look)
                except StaleEpoch as error:
                    self.request_stop(str(error))
                except Exception:
                    log.exception("tick failed session=%s", runner.state.session_id)
            if look:
                looked = self._clock.monotonic()
                await asyncio.to_thread(processes.reap_orphans)
                if self._db.recording:
                    await self._db.probe()

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
            facts=tuple(runner.state.facts() for runner in self.runners.values()),
        )

    def welcomed(self) -> None:
        self._shared.begun.set()
        for runner in self.runners.values():
            runner.state.all_changed()

    def ordered(self, order: Order) -> None:
        self._orders.receive(order)

    def refused(self, reason: str) -> None:
        log.error("refused by the supervisor: %s", reason)
        self.request_stop(f"refused: {reason}")
