"""Start the worker of one tree, so that there can never be two (S3)."""

from __future__ import annotations

from collections.abc import Callable

from agents_view.base.clock import Clock
from agents_view.base.failpoints import reach
from agents_view.base.processes import Identity
from agents_view.daemon.store import workers as store
from agents_view.daemon.store.database import Database
from agents_view.daemon.supervisor.singleton import Lock
from agents_view.daemon.supervisor.tree import Launcher, RunningWorker, Tree
from agents_view.daemon.wire import WorkerArguments
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.paths import Paths


class Starter:
    """Takes the tree's lock, begins its next epoch, launches, and writes the identity down."""

    def __init__(
        self, db: Database, paths: Paths, clock: Clock, launcher: Launcher, *, tied: bool
    ) -> None:
        self._db = db
        self._paths = paths
        self._clock = clock
        self._launcher = launcher
        self._tied = tied

    async def start(self, tree: Tree, begun: Callable[[], None]) -> RunningWorker:
        """A new worker process for the tree; `begun` is called once its epoch is durable.

        The lock is taken here and inherited by the process: there is no moment at which another
        could start. Raises `DaemonError(busy)` if somebody holds the tree, `OSError` if no process
        can be made.
        """
        lock = Lock(self._paths.tree_locks / f"{tree.root_id}.lock")
        if not lock.acquire():
            message = "another process holds this tree and has not registered"
            raise DaemonError(ErrorCode.BUSY, message)
        try:
            now = self._clock.now_ms()
            tree.epoch = await self._db.write(lambda t: store.begin(t, tree.root_id, now))
            begun()
            reach("supervisor.after_begin")
            running = await self._launcher.launch(self._arguments(tree, lock.fd))
        finally:
            lock.release()
        reach("supervisor.after_spawn")
        tree.running = running
        await self.identify(tree, running.identity)
        return running

    async def identify(self, tree: Tree, identity: Identity) -> None:
        """Write down which process it is."""
        root, epoch = tree.root_id, tree.epoch
        pid, start, boot = identity.pid, identity.start, identity.boot_id
        await self._db.write(lambda t: store.identify(t, root, epoch, pid, start, boot))

    def _arguments(self, tree: Tree, lock_fd: int) -> WorkerArguments:
        return WorkerArguments(
            state=str(self._paths.state_dir),
            socket=str(self._paths.socket),
            config=str(self._paths.config_file),
            root_id=tree.root_id,
            epoch=tree.epoch,
            lock_fd=lock_fd,
            tied=self._tied,
        )
