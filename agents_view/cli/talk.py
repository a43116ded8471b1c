"""Commands about a conversation: send, wait, cancel, answer."""

from __future__ import annotations

import argparse
import asyncio
import sys

from agents_view.cli.follow import Turn, TurnFollower
from agents_view.cli.output import (
    FAILED,
    NO_SESSION,
    OK,
    TIMED_OUT,
    USAGE,
    Stop,
    plain,
    print_done,
    print_json,
    print_line,
    row_json,
    tell,
)
from agents_view.cli.session import (
    daemon,
    listed,
    named,
    now_ms,
    own_environment,
    unless_stopped,
    until_row,
)
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.ids import new_id
from daemon_client.protocol.replies import PendingRequest
from daemon_client.roster import RosterRow, SessionId
from daemon_client.status import age_text, section_of
from daemon_client.text import clean, clean_lines


async def send(args: argparse.Namespace) -> int:
    """Queue a prompt; with `--wait` print the answer."""
    text = await asyncio.to_thread(_standard_input) if args.text == "-" else args.text
    async with daemon() as client:
        session_id, prompt_id = named(client, args.session), new_id()
        follower = TurnFollower(client, session_id, prompt_id) if args.wait else None
        if follower is not None:
            await follower.begin(steer=args.steer)
        accepted = await client.conversation.prompt(
            session_id,
            text,
            steer=args.steer,
            environ=own_environment(),
            prompt_id=prompt_id,
        )
        if follower is not None:
            async with unless_stopped(client):
                follower.accepted()
                return print_turn(args, session_id, await follower.result())
    if args.json:
        print_json(plain(accepted))
    return OK


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def print_turn(args: argparse.Namespace, session_id: SessionId, turn: Turn) -> int:
    """A turn's end: its text, exit 0 if it ended well."""
    if args.json:
        answer = {"session_id": session_id, "stop_reason": turn.stop_reason, "text": turn.text}
        print_json(answer)
    else:
        if turn.text:
            print_line(clean_lines(turn.text))
        if turn.stop_reason != "end_turn":
            cause = f": {clean(turn.cause, 400)}" if turn.cause else ""
            tell(f"agents-view: the turn ended: {clean(turn.stop_reason, 80)}{cause}")
    return OK if turn.stop_reason == "end_turn" else FAILED


async def wait(args: argparse.Namespace) -> int:
    """Until the session is as asked for; exit 5 when the time is over."""
    async with daemon() as client, unless_stopped(client):
        session_id = listed(client, args.session)
        try:
            async with asyncio.timeout(args.timeout):
                row = await until_row(client, session_id, lambda r: _reached(r, args.until))
        except TimeoutError:
            raise Stop(TIMED_OUT, f"not {args.until} within {args.timeout:g}s") from None
    if row is None and args.until != "gone":
        raise Stop(NO_SESSION, f"the session was deleted before it was {args.until}")
    if args.json:
        gone = {"session_id": session_id, "gone": True}
        print_json(row_json(row, now_ms()) if row else gone)
    return OK


def _reached(row: RosterRow | None, until: str) -> bool:
    """Also true when the row is gone: nothing else will come."""
    if row is None or until == "gone":
        return row is None
    if until == "needs-you":
        return row.waiting is not None
    return section_of(row) == until


async def cancel(args: argparse.Namespace) -> int:
    """End the turn; returns when it is over."""
    async with daemon() as client:
        session_id = named(client, args.session)
        await client.conversation.cancel_turn(session_id)
    return print_done(args)


async def answer(args: argparse.Namespace) -> int:
    """List what waits, or answer one of it."""
    if args.request and args.option is None:
        raise Stop(USAGE, "--request says which, --option says what: both are needed")
    async with daemon() as client:
        session_id = named(client, args.session)
        pending = await client.conversation.pending(session_id)
        if args.option is None:
            _print_pending(args, pending)
            return OK
        request = chosen_request(pending, args.request)
        option = chosen_option(request, args.option)
        await client.conversation.answer(session_id, request.request_id, option)
    return print_done(args)


def _print_pending(args: argparse.Namespace, pending: tuple[PendingRequest, ...]) -> None:
    if args.json:
        print_json([plain(request) for request in pending])
        return
    for request in pending:
        waits = age_text(now_ms() - request.since_ms)
        print_line(f"{request.request_id}  {request.kind}  {waits}  {clean(request.text, 200)}")
        for line in clean_lines(request.command).splitlines():
            print_line(f"    {line}")
        for option in request.options:
            print_line(f"  {clean(option.id, 80)}  ({option.kind})  {clean(option.name, 80)}")
    if not pending:
        tell("nothing waits for you")


def chosen_request(pending: tuple[PendingRequest, ...], wanted: str | None) -> PendingRequest:
    """The only one, or the one whose id is, or ends in, `wanted`.

    Raises `Stop` (2) if that says not which, `DaemonError` (conflict) if it is not there.
    """
    found = [r for r in pending if wanted is None or r.request_id.endswith(wanted)]
    if len(found) > 1:
        lines = tuple(f"{r.request_id}  {clean(r.text, 80)}" for r in found)
        raise Stop(USAGE, f"{len(found)} requests wait: say which with --request", lines)
    if not found:
        raise DaemonError(ErrorCode.CONFLICT, "already answered, or expired")
    return found[0]


def chosen_option(request: PendingRequest, wanted: str) -> str:
    """An option by its id, or by a kind that only one has. Raises `Stop` (2) with the options."""
    if any(option.id == wanted for option in request.options):
        return wanted
    kinds = [option for option in request.options if option.kind == wanted]
    if len(kinds) == 1:
        return kinds[0].id
    lines = tuple(f"{clean(o.id, 80)}  ({o.kind})  {clean(o.name, 80)}" for o in request.options)
    raise Stop(USAGE, f"{clean(wanted, 80)!r} names no single option", lines)
