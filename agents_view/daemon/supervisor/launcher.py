"""Start workers as processes of their own, and watch those an earlier supervisor started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agents_view.base import processes
from agents_view.base.processes import Identity
from agents_view.daemon.supervisor.tree import RunningWorker
from agents_view.daemon.wire import WorkerArguments
from daemon_client.launch import daemon_environment


class ProcessWorker:
    """A worker process, a child of ours or adopted."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    @property
    def identity(self) -> Identity:
        return self._identity

    async def wait(self) -> str:
        code = await processes.wait_exit(self._identity)
        return processes.exit_text(code) if code else ""

    def kill(self) -> None:
        processes.signal(self._identity, signal.SIGKILL)


class ProcessLauncher:
    """Workers as processes: they outlive this supervisor."""

    async def launch(self, arguments: WorkerArguments) -> RunningWorker:
        log = Path(arguments.state) / "logs" / f"worker-{arguments.root_id[-8:]}.err"
        identity = await asyncio.to_thread(
            processes.spawn_detached,
            worker_command(arguments),
            daemon_environment(dict(os.environ)),
            log,
            "/",
            (arguments.lock_fd,),
        )
        return ProcessWorker(identity)

    def adopt(self, identity: Identity) -> RunningWorker:
        return ProcessWorker(identity)


def worker_command(arguments: WorkerArguments) -> list[str]:
    """The command line that a worker's `__main__` understands."""
    command = [sys.executable, "-m", "agents_view.daemon.worker"]
    command += ["--state", arguments.state, "--socket", arguments.socket]
    command += ["--config", arguments.config, "--root", arguments.root_id]
    command += ["--epoch", str(arguments.epoch), "--lock-fd", str(arguments.lock_fd)]
    return [*command, "--tied"] if arguments.tied else command
