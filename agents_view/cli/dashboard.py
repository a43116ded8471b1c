"""The dashboard, and where it may run."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path

from agents_view.base.config import load_settings
from agents_view.cli.output import NO_DAEMON, USAGE, tell
from daemon_client.launch import inside_agent
from daemon_client.paths import paths_for


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
    if args.config:
        if not Path(args.config).is_file():
            tell(f"agents-view: no such file: {args.config}")
            return USAGE
        os.environ["AGENTS_VIEW_CONFIG"] = str(Path(args.config).absolute())
    paths = paths_for()
    loaded = load_settings(paths.config_file)
    banner = "\n".join(str(problem) for problem in loaded.problems[:3])
    gc.disable()  # nothing made until the first frame is garbage; the app enables it again
    from agents_view.tui.app import run

    if not args.embedded:
        return run(paths, loaded.settings, theme=args.theme, scope=args.scope, banner=banner)
    from agents_view.daemon.embedded import EmbeddedDaemon

    with EmbeddedDaemon(None, settings=loaded.settings):
        return run(
            paths,
            loaded.settings,
            embedded=True,
            theme=args.theme,
            scope=args.scope,
            banner=banner,
        )
