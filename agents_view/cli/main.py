"""The command line (spec 09). Everything the dashboard can do, a script can do.

Imports nothing heavy: each command brings what it needs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from agents_view.cli.durations import count, seconds

_SECTIONS: Final = ("running", "idle", "inactive")
_UNTIL: Final = (*_SECTIONS, "needs-you", "gone")

Configure = Callable[[argparse.ArgumentParser], None]


class _WrongUsage(Exception):
    """Words that are no command of ours; `usage` says what would be."""

    def __init__(self, usage: str, message: str) -> None:
        super().__init__(message)
        self.usage = usage


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    _prepare_streams(as_json)
    try:
        args = _parser().parse_args(words)
        _use_config(args.config)
        if args.handler is None:
            from agents_view.cli.dashboard import dashboard

            return dashboard(args)
        return asyncio.run(_run(args))
    except _WrongUsage as wrong:
        return _tell_usage(wrong, as_json=as_json)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `| head` has enough: be quiet, also when the interpreter flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _prepare_streams(as_json: bool) -> None:
    """JSON is UTF-8 everywhere; a locale that lacks a character must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        if as_json and stream is sys.stdout:
            reconfigure(encoding="utf-8", errors="replace")
        else:
            reconfigure(errors="replace")


def _use_config(file: str | None) -> None:
    """`--config FILE`, for this process and for a daemon it starts."""
    if file is None:
        return
    if not Path(file).is_file():
        raise _WrongUsage("", f"no such file: {file}")
    os.environ["AGENTS_VIEW_CONFIG"] = str(Path(file).absolute())


def _tell_usage(wrong: _WrongUsage, *, as_json: bool) -> int:
    from agents_view.cli.output import USAGE, Stop, report

    if wrong.usage and not as_json:
        sys.stderr.write(wrong.usage)
    return report(Stop(USAGE, str(wrong)), as_json=as_json)


async def _run(args: argparse.Namespace) -> int:
    from agents_view.cli.output import Stop, report
    from daemon_client.errors import DaemonError, ErrorCode

    module, _, name = args.handler.partition(":")
    command = getattr(importlib.import_module(f"agents_view.cli.{module}"), name)
    try:
        code = await command(args)
        sys.stdout.flush()
        return code
    except (DaemonError, Stop) as error:
        return report(error, as_json=args.json)
    except UnicodeEncodeError:
        message = "something that is not UTF-8 cannot be sent"
        return report(DaemonError(ErrorCode.INVALID, message), as_json=args.json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return report(Stop(1, str(error)), as_json=args.json)


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the process: with `--json` a wrong usage is JSON as well."""

    def error(self, message: str) -> NoReturn:
        raise _WrongUsage(self.format_usage(), message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="agents-view",
        description="A dashboard for people who run many coding agents. No command: open it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--embedded", action="store_true", help="run the daemon in this process")
    parser.add_argument("--theme", help="a theme by name")
    parser.add_argument("--config", metavar="FILE", help="another config file")
    parser.set_defaults(handler=None, json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, handler, text, configure in _COMMANDS:
        _add(commands, name, handler, text, configure)
    _add_group(commands, "daemon", "start, stop and look at the daemon", _DAEMON)
    _add_group(commands, "config", "the configuration in force", _CONFIG)
    return parser


_EPILOG: Final = """\
SESSION is an id, an exact name, or the last four or more characters of an id.
exit codes: 0 done, 1 failed, 2 usage, 3 no such session, 4 no daemon, 5 timed out,
6 a person is needed, 130 interrupted"""


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from daemon_client.connection import product_version

        sys.stdout.write(f"agents-view {product_version()}\n")
        parser.exit()


def _add(commands, name: str, handler: str, text: str, configure: Configure | None) -> None:
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("--json", action="store_true", help="answer with one JSON document")
    parser.set_defaults(handler=handler)
    if configure is not None:
        configure(parser)


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="SESSION", help="id, exact name, or the last four or more of an id"
    )


def _making(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="what it does first")
    parser.add_argument("--name")
    parser.add_argument("--mode", help="one of the agent's modes")
    parser.add_argument("--model", help="one of the agent's models")


def _new(parser: argparse.ArgumentParser) -> None:
    _making(parser)
    parser.add_argument("--agent", default="shell", help="a key of the catalogue (shell)")
    parser.add_argument("--cwd", default=".", help="where it works (here)")
    parser.add_argument("--wait", action="store_true", help="until its turn ends; print the answer")


def _spawn(parser: argparse.ArgumentParser) -> None:
    _making(parser)
    parser.add_argument("--agent", help="a key of the catalogue (the parent's)")
    parser.add_argument("--cwd", help="where it works (where the parent does)")
    parser.add_argument("--parent", metavar="SESSION", help="inside an agent: itself")


def _ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="archived ones too")
    parser.add_argument("--archived", action="store_true", help="archived ones only")
    parser.add_argument("--section", choices=_SECTIONS)
    parser.add_argument("--cwd", metavar="DIR")
    parser.add_argument("--agent")
    parser.add_argument("--filter", metavar="QUERY", help="words that must all match")


def _rename(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("name", help="empty takes the name away")


def _rm(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--purge", action="store_true", help="for good, not into the trash")


def _send(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("text", help="the prompt; - reads standard input")
    parser.add_argument("--steer", action="store_true", help="cancel the turn under way first")
    parser.add_argument("--wait", action="store_true", help="until its turn ends; print the answer")


def _log(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("--follow", action="store_true", help="go on with what comes")
    parser.add_argument("--tail", type=count, metavar="N", help="the last N entries")


def _wait(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("--until", choices=_UNTIL, default="idle")
    parser.add_argument("--timeout", type=seconds, metavar="60s", help="exit 5 after that long")


def _answer(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("--request", metavar="R", help="which request, if several wait")
    parser.add_argument("--option", metavar="O", help="an option's id, or its kind")


_Command = tuple[str, str, str, Configure | None]
"""Name, `module:function`, what it does, what it takes."""

_COMMANDS: Final[tuple[_Command, ...]] = (
    ("new", "sessions:new", "a new session; prints its id", _new),
    ("spawn", "sessions:spawn", "a child session", _spawn),
    ("ls", "listing:ls", "all sessions", _ls),
    ("show", "listing:show", "the facts about a session", _session),
    ("explain", "listing:explain", "why it stands in its section", _session),
    ("send", "talk:send", "prompt a session", _send),
    ("log", "transcripts:log", "its transcript", _log),
    ("wait", "talk:wait", "wait until a session is idle, needs you, …", _wait),
    ("cancel", "talk:cancel", "end the turn", _session),
    ("answer", "talk:answer", "list what it asks, or answer", _answer),
    ("stop", "sessions:stop", "end the worker of its tree; nothing is lost", _session),
    ("wake", "sessions:wake", "make it resident", _session),
    ("retry", "sessions:retry", "start a failed worker or agent again", _session),
    ("rename", "sessions:rename", "give it a name", _rename),
    ("archive", "sessions:archive", "put it away", _session),
    ("restore", "sessions:restore", "bring back what was archived or deleted", _session),
    ("rm", "sessions:rm", "delete it, with everything below", _rm),
    ("agents", "service:agents", "the agents we know of, and which are here", None),
)


def _force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="cut off turns that run")


def _logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tail", type=count, default=100, metavar="N", help="the last N lines")
    parser.add_argument("--follow", action="store_true")


_DAEMON: Final[tuple[_Command, ...]] = (
    ("start", "service:start", "start it if there is none", None),
    ("stop", "service:stop", "end it and everything it runs", _force),
    ("status", "service:status", "what it is doing", None),
    ("restart", "service:restart", "a new one; sessions go on", None),
    ("run", "service:run", "run in the foreground, for a service manager", None),
    ("logs", "service:logs", "its log", _logs),
)
_CONFIG: Final[tuple[_Command, ...]] = (
    ("show", "configuration:show", "the settings in force", None),
    ("check", "configuration:check", "what is wrong with the file; exit 2 if anything is", None),
    ("path", "configuration:path", "where the file is", None),
)


def _add_group(commands, name: str, text: str, members: tuple[_Command, ...]) -> None:
    group = commands.add_parser(name, help=text, description=text)
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for member in members:
        _add(actions, *member)


if __name__ == "__main__":
    sys.exit(main())
