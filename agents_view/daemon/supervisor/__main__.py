"""`python -m agents_view.daemon.supervisor`: one supervisor as a process of its own."""

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
from agents_view.daemon.supervisor.context import StopRequest
from agents_view.daemon.supervisor.launcher import ProcessLauncher
from agents_view.daemon.supervisor.supervisor import AlreadyRunning, Supervisor
from daemon_client.errors import DaemonError
from daemon_client.paths import Paths, make_private

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run until stopped. 0 also when another one is running already."""
    arguments = _parse(argv)
    paths = Paths(config_file=arguments.config, state_dir=arguments.state, socket=arguments.socket)
    make_private(paths.state_dir)
    make_private(paths.logs)
    loaded = load_settings(paths.config_file)
    log_to(paths.logs / "supervisor.log", loaded.settings.daemon.log_size)
    for problem in loaded.problems:
        log.warning("config: %s", problem)
    supervisor = Supervisor(paths, loaded.settings, SystemClock(), ProcessLauncher())
    try:
        asyncio.run(_run(supervisor))
    except AlreadyRunning:
        return 0
    except (StoreError, DaemonError, OSError) as error:
        log.error("supervisor not started: %s", error)
        sys.stderr.write(f"agents-view daemon: {error}\n")
        return 1
    return 0


async def _run(supervisor: Supervisor) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.request_stop, StopRequest(restart=False))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    await supervisor.run()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents-view-supervisor")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
