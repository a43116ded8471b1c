"""Commands that make sessions, name them, put them away, start and end them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from agents_view.cli.output import (
    FAILED,
    OK,
    Stop,
    print_done,
    print_json,
    print_line,
    row_json,
    tell,
)
from agents_view.cli.session import (
    daemon,
    directory,
    named,
    now_ms,
    own_environment,
    unless_stopped,
)
from agents_view.cli.talk import print_turn
from daemon_client.client import DaemonClient
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.commands import Spawn
from daemon_client.protocol.replies import DeletePlan
from daemon_client.roster import RosterRow, SessionId
from daemon_client.text import clean

_LOOKS: Final = 5
"""How often a person is shown what changed before the answer counts as no."""


async def new(args: argparse.Namespace) -> int:
    """A new session; prints its id."""
    async with daemon(roster=args.wait) as client:
        row = await client.sessions.create(
            args.agent,
            directory(args.cwd),
            name=args.name,
            prompt=args.prompt,
            mode=args.mode,
            model=args.model,
            environ=own_environment(),
        )
        if args.wait and args.prompt is not None:
            return await _first_turn(client, args, row.session_id)
    return _print_row_or_id(args, row)


async def _first_turn(client: DaemonClient, args: argparse.Namespace, session_id: SessionId) -> int:
    from agents_view.cli.follow import TurnFollower

    follower = TurnFollower(client, session_id, session_id)
    async with unless_stopped(client):
        await follower.begin(fresh=True)
        follower.accepted()
        return print_turn(args, session_id, await follower.result())


async def spawn(args: argparse.Namespace) -> int:
    """A child of the calling session, or of `--parent`."""
    inside = bool(os.environ.get("AGENTS_VIEW_SESSION_ID"))
    async with daemon(roster=bool(args.parent)) as client:
        row = await client.sessions.spawn(
            Spawn(
                agent=args.agent,
                cwd=directory(args.cwd) if args.cwd else None,
                name=args.name,
                prompt=args.prompt,
                mode=args.mode,
                model=args.model,
                parent_id=named(client, args.parent) if args.parent else None,
                environ={} if inside else own_environment(),
            )
        )
    return _print_row_or_id(args, row)


def _print_row_or_id(args: argparse.Namespace, row: RosterRow) -> int:
    if args.json:
        print_json(row_json(row, now_ms()))
    else:
        print_line(row.session_id)
    return OK


async def rename(args: argparse.Namespace) -> int:
    """Another name; the empty one takes it away."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.rename(session_id, args.name)
    return print_done(args)


async def archive(args: argparse.Namespace) -> int:
    """Put away, with everything below it."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.archive(session_id)
    return print_done(args)


async def restore(args: argparse.Namespace) -> int:
    """Bring back what archive or rm took away; from the trash by its full id."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.restore(session_id)
    return print_done(args)


async def rm(args: argparse.Namespace) -> int:
    """To the trash, after naming what goes along; `--purge` removes it for good."""
    async with daemon() as client:
        session_id = named(client, args.session)
        if client.mirror.get(session_id) is not None or not args.purge:
            await _delete(client, args, session_id)
        elif not args.yes and not _agreed("remove it from the trash for good? [y/N] "):
            raise Stop(FAILED, "kept")
        if args.purge:
            await client.sessions.purge(session_id)
    if not args.json and not args.purge:
        tell(f"in the trash: agents-view restore {session_id}")
    return print_done(args)


async def _delete(client: DaemonClient, args: argparse.Namespace, session_id: SessionId) -> None:
    """What a person agrees to is what they were shown: facts that changed are shown again (R51)."""
    for _ in range(_LOOKS):
        plan = await client.sessions.preview_delete(session_id)
        _print_plan(plan, purge=args.purge)
        if args.yes:
            await client.sessions.delete(session_id)
            return
        if not _agreed("sure? [y/N] "):
            break
        try:
            await client.sessions.delete(session_id, expected=plan.fingerprint)
            return
        except DaemonError as error:
            if error.code is not ErrorCode.CONFLICT:
                raise
            tell(f"agents-view: {error.message}")
    raise Stop(FAILED, "kept")


def _print_plan(plan: DeletePlan, *, purge: bool) -> None:
    """On stderr: it is no data, and it must be seen before the question (R50)."""
    what = "delete for good" if purge else "delete"
    tell(f"{what}: {clean(plan.title, 200)} · {clean(plan.agent, 40)} · {clean(plan.cwd, 300)}")
    if plan.working:
        tell("  working: stopped first")
    if plan.subagents:
        names = ", ".join(clean(name, 80) for name in plan.subagents_working)
        plural = "" if plan.subagents == 1 else "s"
        tell(f"  {plan.subagents} subagent{plural}" + (f", working: {names}" if names else ""))
    for prompt in plan.queued:
        tell(f"  queued: {clean(prompt, 200)}")
    if plan.background:
        tell(f"  {plan.background} background processes")


def _agreed(question: str) -> bool:
    """Ask; without somebody to ask the answer is no."""
    if not sys.stdin.isatty():
        tell("nobody to ask: use --yes")
        return False
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def stop(args: argparse.Namespace) -> int:
    """End the worker of its tree; returns when the processes are gone."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.stop(session_id)
    return print_done(args)


async def wake(args: argparse.Namespace) -> int:
    """Make it resident without prompting it."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.wake(session_id, environ=own_environment())
    return print_done(args)


async def retry(args: argparse.Namespace) -> int:
    """Start a failed worker or agent again; held prompts go out."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.sessions.retry(session_id, environ=own_environment())
    return print_done(args)
