"""`python -m agents_view.daemon.worker`: the worker of one tree as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from agents_view.base.clock import SystemClock
from agents_view.base.config import load_settings
from agents_view.base.logs import log_to
from agents_view.daemon.store.errors import StoreError
from agents_view.daemon.wire import WorkerArguments
from agents_view.daemon.worker.worker import Worker

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run until the tree is stopped."""
    arguments = _parse(argv)
    loaded = load_settings(Path(arguments.config))
    logs = Path(arguments.state) / "logs"
    log_to(logs / f"worker-{arguments.root_id[-8:]}.log", loaded.settings.daemon.log_size)
    worker = Worker(arguments, loaded.settings, SystemClock())
    try:
        return asyncio.run(_run(worker))
    except StoreError as error:
        log.error("worker not started: %s", error)
        sys.stderr.write(f"agents-view worker: {error}\n")
        return 1


async def _run(worker: Worker) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.request_stop, "terminated")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return await worker.run()


def _parse(argv: list[str] | None) -> WorkerArguments:
    parser = argparse.ArgumentParser(prog="agents-view-worker")
    for name in ("--state", "--socket", "--config", "--root"):
        parser.add_argument(name, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--lock-fd", type=int, default=-1)
    parser.add_argument("--tied", action="store_true")
    given = parser.parse_args(argv)
    return WorkerArguments(
        state=given.state,
        socket=given.socket,
        config=given.config,
        root_id=given.root,
        epoch=given.epoch,
        lock_fd=given.lock_fd,
        tied=given.tied,
    )


if __name__ == "__main__":
    sys.exit(main())
