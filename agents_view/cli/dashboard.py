"""The dashboard, and where it may run."""

from __future__ import annotations

import argparse
import gc
import os
import sys

from agents_view.base.config import load_settings
from agents_view.base.settings import Settings
from agents_view.cli.output import FAILED, NO_DAEMON, USAGE, tell
from daemon_client.launch import inside_agent
from daemon_client.paths import Paths, paths_for


def dashboard(args: argparse.Namespace) -> int:
    """Show the board until it is left; the exit code."""
    if not (sys.stdin.isatty() and sys.__stderr__ is not None and sys.__stderr__.isatty()):
        tell("agents-view: the dashboard needs a terminal; `agents-view ls` does not")
        return USAGE
    if os.environ.get("TERM", "dumb") == "dumb":
        tell("agents-view: this terminal (TERM=dumb) cannot show a dashboard; try `agents-view ls`")
        return USAGE
    if inside_agent() and args.embedded:
        tell("agents-view: no daemon is started inside an agent")
        return NO_DAEMON
    paths = paths_for()
    loaded = load_settings(paths.config_file)
    banner = "\n".join(str(problem) for problem in loaded.problems[:3])
    gc.disable()  # nothing made until the first frame is garbage; the app enables it again
    if args.embedded:
        return _embedded(args, paths, loaded.settings, banner)
    from agents_view.tui.app import run

    return run(paths, loaded.settings, theme=args.theme, banner=banner)


def _embedded(args: argparse.Namespace, paths: Paths, settings: Settings, banner: str) -> int:
    """The daemon on a thread of this process; it ends with the board (S50)."""
    from agents_view.daemon.embedded import EmbeddedDaemon
    from agents_view.daemon.supervisor.supervisor import AlreadyRunning

    daemon = EmbeddedDaemon(None, settings=settings)
    try:
        daemon.start()
    except AlreadyRunning:
        tell("agents-view: a daemon is running here already; without --embedded you see it")
        return FAILED
    try:
        from agents_view.tui.app import run

        return run(paths, settings, embedded=True, theme=args.theme, banner=banner)
    finally:
        daemon.stop()
