"""The same daemon inside another process, on a thread and loop of its own (spec 07.1).

Same socket, same wire. `workers="inline"` runs the workers as tasks of that loop, so that one fake
clock drives all of it; `"processes"` starts them as usual, tied to this process: they end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import Literal

from agents_view.base.clock import Clock, SystemClock
from agents_view.base.processes import Identity, identify
from agents_view.base.settings import Settings
from agents_view.daemon.supervisor.context import StopRequest
from agents_view.daemon.supervisor.launcher import ProcessLauncher, ProcessWorker
from agents_view.daemon.supervisor.supervisor import Supervisor
from agents_view.daemon.supervisor.tree import Launcher, RunningWorker
from agents_view.daemon.wire import WorkerArguments
from agents_view.daemon.worker.worker import Worker
from daemon_client.paths import Paths, paths_for

log = logging.getLogger(__name__)


class _InlineWorker:
    """A worker that is a task of this loop."""

    def __init__(self, task: asyncio.Task[int], identity: Identity) -> None:
        self._task = task
        self._identity = identity

    @property
    def identity(self) -> Identity:
        return self._identity

    async def wait(self) -> str:
        try:
            code = await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._task.cancelled():
                return "killed"
            raise
        except Exception as error:
            log.exception("inline worker failed")
            return f"{type(error).__name__}: {error}"
        return f"exit code {code}" if code else ""

    def kill(self) -> None:
        self._task.cancel()


class _InlineLauncher:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    async def launch(self, arguments: WorkerArguments) -> RunningWorker:
        identity = identify(os.getpid())
        assert identity is not None, "this process exists"
        # the worker closes its lock, the launcher its own: each needs a descriptor
        own = WorkerArguments(
            state=arguments.state,
            socket=arguments.socket,
            config=arguments.config,
            root_id=arguments.root_id,
            epoch=arguments.epoch,
            lock_fd=os.dup(arguments.lock_fd),
            tied=True,
        )
        worker = Worker(own, self._settings, self._clock)
        name = f"inline-worker-{arguments.root_id[-8:]}"
        return _InlineWorker(asyncio.create_task(worker.run(), name=name), identity)

    def adopt(self, identity: Identity) -> RunningWorker:
        return ProcessWorker(identity)


class EmbeddedDaemon:
    """`async with EmbeddedDaemon(home) as paths:` runs a daemon until the block ends.

    Leaving the block is `daemon stop --force` (S50): every agent and worker is gone afterwards.
    Raises what the supervisor raises, `AlreadyRunning` if the home has a daemon.
    """

    def __init__(
        self,
        home: str | Path | None,
        clock: Clock | None = None,
        workers: Literal["processes", "inline"] = "processes",
        settings: Settings | None = None,
    ) -> None:
        self.paths: Paths = paths_for(home)
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._workers = workers
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._supervisor: Supervisor | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None

    async def __aenter__(self) -> Paths:
        await asyncio.to_thread(self.start)
        return self.paths

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.stop)

    def __enter__(self) -> Paths:
        self.start()
        return self.paths

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return once it answers. Raises what the supervisor raised."""
        self._thread = threading.Thread(target=self._main, name="embedded-daemon", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it and wait until it has; safe to call from any thread but its own."""
        if self._loop is not None and self._supervisor is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(
                    self._supervisor.request_stop, StopRequest(restart=False)
                )
        if self._thread is not None:
            self._thread.join()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._error = error
            if self._started.is_set():
                log.exception("embedded daemon failed")
        finally:
            self._started.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor(
            self.paths, self._settings, self._clock, self._launcher(), embedded=True
        )
        serving = asyncio.create_task(self._supervisor.run(), name="embedded-supervisor")
        ready = asyncio.create_task(self._supervisor.ready.wait(), name="embedded-ready")
        await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not serving.done():
            self._started.set()
        await serving

    def _launcher(self) -> Launcher:
        if self._workers == "inline":
            return _InlineLauncher(self._settings, self._clock)
        return ProcessLauncher()
