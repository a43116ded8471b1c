"""Commands about the daemon and what it knows: `daemon …`, `agents`."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
from collections import deque
from pathlib import Path
from typing import Final, TextIO

from agents_view.base import processes
from agents_view.cli.output import (
    FAILED,
    NO_DAEMON,
    OK,
    Stop,
    plain,
    print_done,
    print_json,
    print_line,
    print_table,
    tell,
)
from agents_view.cli.session import daemon
from daemon_client.client import connect
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.launch import (
    answers,
    daemon_command,
    daemon_environment,
    ensure_daemon,
    inside_agent,
)
from daemon_client.paths import Paths, paths_for
from daemon_client.protocol import Welcome
from daemon_client.status import age_text
from daemon_client.text import clean

_GONE_WITHIN: Final = 60.0
_BACK_WITHIN: Final = 30.0
_SETTLES_WITHIN: Final = 8.0
_POLL: Final = 0.03


async def start(args: argparse.Namespace) -> int:
    """Start it if there is none; returns when it answers."""
    await ensure_daemon(paths_for())
    return print_done(args)


async def stop(args: argparse.Namespace) -> int:
    """Everything of ours ends; names who works when refused. Never starts a daemon (S50)."""
    paths = paths_for()
    if await answers(paths):
        await _shut_down(paths, force=args.force)
    elif is_locked(paths):
        await _settled(paths, force=args.force)
    else:
        tell("no daemon is running")
    return print_done(args)


async def _shut_down(paths: Paths, *, force: bool) -> None:
    """Returns when its processes are gone and its lock is free."""
    async with connect(start=False) as client:
        welcome = client.connection.state.welcome
        identity = None
        if welcome is not None and not welcome.embedded:
            identity = processes.identify(welcome.pid)
        await _until_done_or_gone(client.service.shutdown(force=force), identity)
    if identity is not None:
        if await processes.wait_exit(identity, _GONE_WITHIN) is None:
            raise Stop(FAILED, f"the daemon is still there: pid {identity.pid}")
        return
    deadline = asyncio.get_running_loop().time() + _GONE_WITHIN
    while is_locked(paths):
        if asyncio.get_running_loop().time() > deadline:
            raise Stop(FAILED, "the daemon still holds its lock")
        await asyncio.sleep(_POLL)


async def _until_done_or_gone(request, identity: processes.Identity | None) -> None:
    """A daemon that dies on the way never answers; that it is gone is an answer as well."""
    asking = asyncio.ensure_future(request)
    leaving = None
    if identity is not None:
        leaving = asyncio.ensure_future(processes.wait_exit(identity))
    try:
        waited = {asking} if leaving is None else {asking, leaving}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
    finally:
        for task in (asking, leaving):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(t for t in (asking, leaving) if t), return_exceptions=True)


async def _settled(paths: Paths, *, force: bool) -> None:
    """The lock is held and nobody answers: a daemon comes or goes, or it hangs."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SETTLES_WITHIN
    while loop.time() < deadline:
        await asyncio.sleep(_POLL)
        if not is_locked(paths):
            return
        if await answers(paths):
            await _shut_down(paths, force=force)
            return
    holder = _first_word(paths.daemon_lock)
    message = f"a daemon holds {paths.daemon_lock} but does not answer"
    raise Stop(NO_DAEMON, message, (f"pid {holder}",) if holder else ())


def _first_word(path: Path) -> str:
    try:
        words = path.read_text(errors="replace").split()
    except OSError:
        return ""
    return clean(words[0], 20) if words else ""


def is_locked(paths: Paths) -> bool:
    """Whether a daemon holds the state directory's lock now."""
    try:
        fd = os.open(paths.daemon_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


async def restart(args: argparse.Namespace) -> int:
    """A new supervisor; the workers live on and are adopted (05.7)."""
    paths = paths_for()
    if not await answers(paths):
        await ensure_daemon(paths)
        return print_done(args)
    async with connect(start=False) as client:
        before = client.connection.state.welcome
        assert before is not None, "the connection is up"
        if before.embedded:
            raise Stop(FAILED, "the daemon is part of a dashboard: start that again instead")
        await client.service.shutdown(restart=True)
    await _until_another(paths, before)
    return print_done(args)


async def _until_another(paths: Paths, before: Welcome) -> None:
    """Until a later life of the daemon answers; an open dashboard may be quicker to start it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _BACK_WITHIN
    while loop.time() < deadline:
        try:
            await ensure_daemon(paths)
            async with connect(start=False) as client:
                welcome = client.connection.state.welcome
            if welcome is not None and welcome.generation != before.generation:
                return
        except DaemonError as error:
            # the old one may close the door while we are in it
            if error.code is not ErrorCode.UNAVAILABLE or error.detail:
                raise
        await asyncio.sleep(_POLL)
    raise Stop(FAILED, f"no new daemon within {_BACK_WITHIN:g}s")


async def status(args: argparse.Namespace) -> int:
    """What it is doing; exit 4 if there is none, and none is started."""
    async with daemon(start=False, roster=False) as client:
        found = await client.service.status()
    if args.json:
        body = plain(found)
        body["counters"] = {counter.name: counter.value for counter in found.counters}
        print_json(body)
        return OK
    lines = [
        ("pid", f"{found.pid} (inside a dashboard)" if found.embedded else str(found.pid)),
        ("version", f"{found.version} (protocol {found.protocol})"),
        ("up for", age_text(found.uptime_ms)),
        ("memory", f"{found.memory / (1 << 20):.0f} MiB"),
        ("socket", found.socket),
        ("clients", str(found.clients)),
        ("sessions", str(found.sessions)),
        *(("worker", f"{w.root_id[-8:]}  {w.state}  pid {w.pid or '-'}") for w in found.workers),
        *((counter.name, str(counter.value)) for counter in found.counters if counter.value),
    ]
    if found.recording:
        lines.append(("store", clean(found.recording, 300)))
    print_table(lines)
    return OK


async def run(args: argparse.Namespace) -> int:
    """The supervisor in the foreground, for a service manager; it replaces this process."""
    if inside_agent():
        message = "a command inside an agent never starts a daemon"
        raise DaemonError(ErrorCode.REFUSED, message)
    paths = paths_for()
    if await answers(paths):
        tell("a daemon is running already")
        return OK
    command = daemon_command(paths)
    sys.stdout.flush()
    os.execve(command[0], command, daemon_environment(dict(os.environ)))


async def logs(args: argparse.Namespace) -> int:
    """The supervisor's log, its end first; `--follow` goes on, over rotations."""
    path = paths_for().logs / "supervisor.log"
    if not path.exists():
        raise Stop(FAILED, f"no log yet at {path}")
    file = path.open(encoding="utf-8", errors="replace")
    try:
        tail = [clean(line.rstrip("\n")) for line in deque(file, maxlen=args.tail)]
        if args.json and not args.follow:
            print_json(tail)
            return OK
        for line in tail:
            _print_log_line(line, as_json=args.json)
        while args.follow:
            sys.stdout.flush()
            line = file.readline()
            if line:
                _print_log_line(clean(line.rstrip("\n")), as_json=args.json)
                continue
            await asyncio.sleep(_POLL * 5)
            file = _reopened(file, path)
    finally:
        file.close()
    return OK


def _print_log_line(line: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"line": line})
    else:
        print_line(line)


def _reopened(file: TextIO, path: Path) -> TextIO:
    """The file that has the name now, once this one was rotated away and read to its end."""
    try:
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        fresh = path.open(encoding="utf-8", errors="replace")
    except OSError:
        return file
    file.close()
    return fresh


async def agents(args: argparse.Namespace) -> int:
    """The catalogue, found or not, with versions; a bad entry is named."""
    async with daemon(roster=False) as client:
        found = await client.service.agents(probe=True)
    for problem in found.problems:
        tell(f"agents-view: {clean(problem, 400)}")
    if args.json:
        print_json([plain(agent) for agent in found.agents])
        return OK
    rows = [
        (
            clean(agent.id, 40),
            clean(agent.name, 40),
            "found" if agent.found else "-",
            clean(agent.version or "", 40),
            clean(agent.command if agent.found else agent.hint, 100),
        )
        for agent in found.agents
    ]
    print_table(rows)
    return OK
