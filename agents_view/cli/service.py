"""Commands about the daemon and its surroundings: `daemon …`, `agents`, `config …`."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
import time

from agents_view.cli.output import (
    FAILED,
    OK,
    Stop,
    plain,
    print_json,
    print_line,
    print_table,
    tell,
)
from agents_view.cli.session import daemon
from daemon_client.client import connect
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.launch import answers, daemon_command, ensure_daemon
from daemon_client.paths import Paths, paths_for
from daemon_client.status import age_text
from daemon_client.text import clean

_GONE_WITHIN = 60.0


async def start(args: argparse.Namespace) -> int:
    await ensure_daemon(paths_for())
    if args.json:
        print_json({"done": True})
    return OK


async def stop(args: argparse.Namespace) -> int:
    """Everything of ours ends; names who works when refused. Never starts a daemon."""
    paths = paths_for()
    if not await answers(paths):
        tell("no daemon is running")
    else:
        try:
            async with connect(start=False) as client:
                await client.service.shutdown(force=args.force)
        except DaemonError as error:
            if error.code is not ErrorCode.UNAVAILABLE:
                raise
        await _until_released(paths)
    if args.json:
        print_json({"done": True})
    return OK


async def _until_released(paths: Paths) -> None:
    """The process has let go of its lock: it is gone, or about to be in no time."""
    deadline = time.monotonic() + _GONE_WITHIN
    while _is_locked(paths):
        if time.monotonic() > deadline:
            raise Stop(FAILED, "the daemon still holds its lock")
        await asyncio.sleep(0.02)


def _is_locked(paths: Paths) -> bool:
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
    if await answers(paths):
        async with connect(start=False) as client:
            await client.service.shutdown(restart=True)
        await _until_released(paths)
    await ensure_daemon(paths)
    if args.json:
        print_json({"done": True})
    return OK


async def status(args: argparse.Namespace) -> int:
    async with daemon(start=False, roster=False) as client:
        found = await client.service.status()
    if args.json:
        body = plain(found)
        body["counters"] = {counter.name: counter.value for counter in found.counters}
        print_json(body)
        return OK
    lines = [
        ("pid", str(found.pid)),
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
        lines.append(("store", found.recording))
    print_table(lines)
    return OK


async def run(args: argparse.Namespace) -> int:
    """The supervisor in the foreground, for a service manager."""
    paths = paths_for()
    command = daemon_command(paths)
    await asyncio.to_thread(sys.stdout.flush)
    os.execv(command[0], command)


async def logs(args: argparse.Namespace) -> int:
    """The supervisor's log."""
    path = paths_for().logs / "supervisor.log"
    if not path.exists():
        raise Stop(FAILED, f"no log yet at {path}")
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.readlines()[-args.tail :]
        sys.stdout.write("".join(lines))
        while args.follow:
            sys.stdout.flush()
            more = file.read()
            sys.stdout.write(more)
            await asyncio.sleep(0.2 if not more else 0)
    return OK


async def agents(args: argparse.Namespace) -> int:
    """The catalogue, found or not."""
    async with daemon(roster=False) as client:
        found = await client.service.agents(probe=True)
    for problem in found.problems:
        tell(f"agents-view: {problem}")
    if args.json:
        print_json([plain(agent) for agent in found.agents])
        return OK
    rows = [
        (
            agent.id,
            clean(agent.name, 40),
            "found" if agent.found else "-",
            clean(agent.version or "", 40),
            clean(agent.command if agent.found else agent.hint, 100),
        )
        for agent in found.agents
    ]
    print_table(rows)
    return OK


async def config(args: argparse.Namespace) -> int:
    """`path`, `check`, or `show` what is in force."""
    from agents_view.base.config import load_settings

    paths = paths_for()
    if args.what == "path":
        print_line(str(paths.config_file))
        return OK
    loaded = load_settings(paths.config_file)
    for problem in loaded.problems:
        tell(str(problem))
    if args.what == "show":
        print_json(plain(loaded.settings))
    elif args.json:
        print_json({"problems": [str(problem) for problem in loaded.problems]})
    return 2 if args.what == "check" and loaded.problems else OK
