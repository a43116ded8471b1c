"""Commands that make sessions, show them, name them and put them away."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from agents_view.cli.output import (
    FAILED,
    OK,
    Stop,
    plain,
    print_json,
    print_line,
    print_table,
    row_json,
    tell,
)
from agents_view.cli.session import daemon, named, now_ms, own_environment
from daemon_client.ids import short_id
from daemon_client.protocol.commands import Spawn
from daemon_client.protocol.replies import DeletePlan
from daemon_client.roster import RosterRow
from daemon_client.status import SECTIONS, age_text, badges_of, label_of, section_of
from daemon_client.text import clean


async def new(args: argparse.Namespace) -> int:
    """A new session; prints its id."""
    async with daemon(roster=args.wait) as client:
        row = await client.sessions.create(
            args.agent,
            str(Path(args.cwd).expanduser().absolute()),
            name=args.name,
            prompt=args.prompt,
            mode=args.mode,
            model=args.model,
            environ=own_environment(),
        )
        if args.wait and args.prompt:
            from agents_view.cli.follow import TurnFollower
            from agents_view.cli.talk import print_turn

            follower = TurnFollower(client, row.session_id, row.session_id)
            await follower.begin()
            return print_turn(args, row.session_id, *await follower.result())
    _print_row_or_id(args, row)
    return OK


async def spawn(args: argparse.Namespace) -> int:
    """A child of the calling session, or of `--parent`."""
    async with daemon() as client:
        parent = await named(client, args.parent) if args.parent else None
        row = await client.sessions.spawn(
            Spawn(
                agent=args.agent,
                cwd=str(Path(args.cwd).expanduser().absolute()) if args.cwd else None,
                name=args.name,
                prompt=args.prompt,
                mode=args.mode,
                model=args.model,
                parent_id=parent,
                environ={} if os.environ.get("AGENTS_VIEW_SESSION_ID") else own_environment(),
            )
        )
    _print_row_or_id(args, row)
    return OK


def _print_row_or_id(args: argparse.Namespace, row: RosterRow) -> None:
    if args.json:
        print_json(row_json(row, now_ms()))
    else:
        print_line(row.session_id)


async def ls(args: argparse.Namespace) -> int:
    """Rows, by section; archived ones only when asked for."""
    async with daemon() as client:
        rows = [row for row in client.mirror if _wanted(args, row)]
    if args.filter:
        from agents_view.board.filtering import parse_filter

        matches = parse_filter(args.filter)
        rows = [row for row in rows if matches is None or matches(row)]
    rows.sort(key=_order)
    if args.json:
        now = now_ms()
        print_json([row_json(row, now) for row in rows])
    else:
        _print_rows(rows)
    return OK


def _wanted(args: argparse.Namespace, row: RosterRow) -> bool:
    if args.archived != row.archived and not args.all:
        return False
    if args.section and section_of(row) != args.section:
        return False
    if args.agent and row.agent != args.agent:
        return False
    return not args.cwd or Path(row.cwd) == Path(args.cwd).expanduser().absolute()


def _order(row: RosterRow) -> tuple[int, int, str]:
    section = section_of(row)
    newest = row.created_at_ms if section == "running" else row.last_activity_at_ms
    return (SECTIONS.index(section), -newest, row.session_id)


def _print_rows(rows: list[RosterRow]) -> None:
    now = now_ms()
    table = []
    for row in rows:
        badges = "  ".join(badge.text for badge in badges_of(row, now))
        table.append(
            (
                short_id(row.session_id),
                section_of(row),
                clean(row.name or row.first_message or "-", 40),
                clean(row.agent, 20),
                clean(label_of(row, now), 60),
                badges,
                age_text(now - row.last_activity_at_ms),
                clean(row.cwd, 200),
            )
        )
    print_table(table)
    if not rows:
        tell("no sessions")


async def show(args: argparse.Namespace) -> int:
    """All facts of one session."""
    async with daemon() as client:
        row = client.mirror.get(await named(client, args.session))
    assert row is not None, "it was resolved among these rows"
    facts = row_json(row, now_ms()) | {"jobs": []}
    if args.json:
        print_json(facts)
    else:
        shown = [(k, v) for k, v in facts.items() if v not in (None, "", [], False, 0)]
        print_table([(key, clean(str(value), 500)) for key, value in shown])
    return OK


async def explain(args: argparse.Namespace) -> int:
    """Why this section and label."""
    async with daemon() as client:
        answer = await client.sessions.explain(await named(client, args.session))
    if args.json:
        print_json(plain(answer) | {"task": None})
        return OK
    print_line(f"{answer.section} · {clean(answer.label, 300) or '(no label)'}")
    rows = [
        (
            f"  {item.fact}",
            clean(item.value, 200),
            "" if item.age_ms is None else age_text(item.age_ms),
            item.source,
        )
        for item in answer.evidence
    ]
    print_table(rows)
    return OK


async def rename(args: argparse.Namespace) -> int:
    async with daemon() as client:
        await client.sessions.rename(await named(client, args.session), args.name)
    return _done(args)


async def archive(args: argparse.Namespace) -> int:
    async with daemon() as client:
        await client.sessions.archive(await named(client, args.session))
    return _done(args)


async def restore(args: argparse.Namespace) -> int:
    async with daemon() as client:
        await client.sessions.restore(await named(client, args.session, trashed=True))
    return _done(args)


async def rm(args: argparse.Namespace) -> int:
    """To the trash, after naming what goes along; `--purge` removes it for good."""
    async with daemon() as client:
        session_id = await named(client, args.session, trashed=args.purge)
        if client.mirror.get(session_id) is not None:
            plan = await client.sessions.preview_delete(session_id)
            if not args.json:
                _print_plan(plan, purge=args.purge)
            if not args.yes and not _agreed():
                raise Stop(FAILED, "kept")
            await client.sessions.delete(session_id, expected=plan.fingerprint)
        if args.purge:
            await client.sessions.purge(session_id)
    if not args.json and not args.purge:
        tell(f"in the trash: agents-view restore {session_id}")
    return _done(args)


def _print_plan(plan: DeletePlan, *, purge: bool) -> None:
    what = "delete for good" if purge else "delete"
    tell(f"{what}: {plan.title} · {plan.agent} · {clean(plan.cwd, 300)}")
    if plan.working:
        tell("  working — stopped first")
    if plan.subagents:
        names = ", ".join(plan.subagents_working)
        tell(f"  {plan.subagents} subagents" + (f", working: {names}" if names else ""))
    for prompt in plan.queued:
        tell(f"  queued: {prompt}")
    if plan.background:
        tell(f"  {plan.background} background processes")


def _agreed() -> bool:
    """Ask; without somebody to ask the answer is no."""
    if not sys.stdin.isatty():
        tell("nobody to ask: use --yes")
        return False
    sys.stderr.write("sure? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def stop(args: argparse.Namespace) -> int:
    async with daemon() as client:
        await client.sessions.stop(await named(client, args.session))
    return _done(args)


async def wake(args: argparse.Namespace) -> int:
    async with daemon() as client:
        session_id = await named(client, args.session)
        await client.sessions.wake(session_id, environ=own_environment())
    return _done(args)


async def retry(args: argparse.Namespace) -> int:
    async with daemon() as client:
        session_id = await named(client, args.session)
        await client.sessions.retry(session_id, environ=own_environment())
    return _done(args)


def _done(args: argparse.Namespace) -> int:
    if args.json:
        print_json({"done": True})
    return OK
