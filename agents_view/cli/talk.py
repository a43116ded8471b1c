"""Commands about a conversation: send, log, wait, cancel, answer."""

from __future__ import annotations

import argparse
import asyncio
import sys

from agents_view.cli.follow import TurnFollower
from agents_view.cli.output import (
    FAILED,
    OK,
    TIMED_OUT,
    USAGE,
    Stop,
    plain,
    print_json,
    print_line,
    tell,
)
from agents_view.cli.session import daemon, named, now_ms, own_environment, until_row
from daemon_client.client import DaemonClient
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.ids import new_id
from daemon_client.protocol import FromDaemon, SessionChunk, SessionGone
from daemon_client.protocol.replies import PendingRequest
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import RosterRow
from daemon_client.status import age_text, section_of
from daemon_client.text import clean, clean_lines

_PAGE = 500


async def send(args: argparse.Namespace) -> int:
    """Queue a prompt; with `--wait` print the answer."""
    text = await asyncio.to_thread(sys.stdin.read) if args.text == "-" else args.text
    async with daemon() as client:
        session_id, prompt_id = await named(client, args.session), new_id()
        follower = TurnFollower(client, session_id, prompt_id) if args.wait else None
        if follower is not None:
            await follower.begin()
        accepted = await client.conversation.prompt(
            session_id,
            text,
            steer=args.steer,
            environ=own_environment(),
            prompt_id=prompt_id,
        )
        if follower is not None:
            return print_turn(args, session_id, *await follower.result())
    if args.json:
        print_json(plain(accepted))
    return OK


def print_turn(args: argparse.Namespace, session_id: str, stop_reason: str, text: str) -> int:
    """A turn's end: its text, exit 0 if it ended well."""
    if args.json:
        print_json({"session_id": session_id, "stop_reason": stop_reason, "text": text})
    else:
        if text:
            print_line(clean_lines(text))
        if stop_reason != "end_turn":
            tell(f"the turn ended: {clean(stop_reason, 80)}")
    return OK if stop_reason == "end_turn" else FAILED


async def log(args: argparse.Namespace) -> int:
    """The transcript, or its tail; `--follow` goes on."""
    async with daemon() as client:
        session_id = await named(client, args.session)
        printer = _Printer(as_json=args.json)
        if args.follow:
            await _follow(client, session_id, args.tail or 200, printer)
        else:
            for page in await _pages(client, session_id, args.tail):
                printer.print(page)
        printer.close()
    return OK


async def _pages(
    client: DaemonClient, session_id: str, tail: int | None
) -> list[tuple[TranscriptEntry, ...]]:
    """Pages oldest first, read from the end backwards."""
    pages: list[tuple[TranscriptEntry, ...]] = []
    before, left = None, tail
    while left is None or left > 0:
        limit = _PAGE if left is None else min(_PAGE, left)
        page = await client.conversation.transcript(session_id, before=before, limit=limit)
        pages.append(page.entries)
        left = None if left is None else left - len(page.entries)
        before = page.before
        if before is None:
            break
    return pages[::-1]


async def _follow(client: DaemonClient, session_id: str, tail: int, printer: _Printer) -> None:
    """Print what is there and what comes, until the session is gone or somebody interrupts."""
    gone = asyncio.Event()
    last = 0

    def pushed(message: FromDaemon) -> None:
        nonlocal last
        if isinstance(message, SessionGone):
            gone.set()
        if isinstance(message, SessionChunk) and message.session_id == session_id:
            fresh = tuple(entry for entry in message.entries if entry.seq > last)
            last = max((entry.seq for entry in fresh), default=last)
            printer.print(fresh)

    async def attach() -> None:
        await client.conversation.attach(session_id, tail=tail)

    again: set[asyncio.Task[None]] = set()
    client.connection.on_push(pushed)
    client.connection.on_up(lambda: again.add(asyncio.create_task(attach())))
    await attach()
    await gone.wait()


class _Printer:
    """Entries as JSON lines, or as text for people."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._held: list[TranscriptEntry] = []

    def print(self, entries: tuple[TranscriptEntry, ...]) -> None:
        if self._json:
            for entry in entries:
                kind = type(entry).__struct_config__.tag
                print_json({"kind": kind} | plain(entry))
        else:
            from daemon_client.transcript_text import render_plain

            text = render_plain(entries)
            if text:
                print_line(text)
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing more comes."""
        sys.stdout.flush()


async def wait(args: argparse.Namespace) -> int:
    """Until the session is as asked for; exit 5 when the time is over."""
    async with daemon() as client:
        session_id = await named(client, args.session)
        try:
            async with asyncio.timeout(args.timeout):
                row = await until_row(client, session_id, lambda r: _reached(r, args.until))
        except TimeoutError:
            raise Stop(TIMED_OUT, f"not {args.until} within {args.timeout:g}s") from None
    if args.json:
        from agents_view.cli.output import row_json

        print_json(row_json(row, now_ms()) if row else {"session_id": session_id, "gone": True})
    return OK


def _reached(row: RosterRow | None, until: str) -> bool:
    if until == "gone" or row is None:
        return row is None
    if until == "needs-you":
        return row.waiting is not None
    return section_of(row) == until


async def cancel(args: argparse.Namespace) -> int:
    async with daemon() as client:
        await client.conversation.cancel_turn(await named(client, args.session))
    if args.json:
        print_json({"done": True})
    return OK


async def answer(args: argparse.Namespace) -> int:
    """List what waits, or answer one of it."""
    async with daemon() as client:
        session_id = await named(client, args.session)
        pending = await client.conversation.pending(session_id)
        if args.option is None:
            _print_pending(args, pending)
            return OK
        request = _request(pending, args.request)
        option = _option(request, args.option)
        await client.conversation.answer(session_id, request.request_id, option)
    if args.json:
        print_json({"done": True})
    return OK


def _print_pending(args: argparse.Namespace, pending: tuple[PendingRequest, ...]) -> None:
    if args.json:
        print_json(
            [
                {
                    "request_id": request.request_id,
                    "kind": request.kind,
                    "text": request.text,
                    "command": request.command,
                    "options": [plain(option) for option in request.options],
                    "since_ms": request.since_ms,
                }
                for request in pending
            ]
        )
        return
    for request in pending:
        waits = age_text(now_ms() - request.since_ms)
        print_line(f"{request.request_id}  {request.kind}  {waits}  {clean(request.text, 200)}")
        for line in clean_lines(request.command).splitlines():
            print_line(f"    {line}")
        for option in request.options:
            print_line(f"  {option.id}  ({option.kind})  {clean(option.name, 80)}")
    if not pending:
        tell("nothing waits for you")


def _request(pending: tuple[PendingRequest, ...], wanted: str | None) -> PendingRequest:
    if wanted is None and len(pending) == 1:
        return pending[0]
    for request in pending:
        if wanted is not None and request.request_id.endswith(wanted):
            return request
    if wanted is None and pending:
        raise Stop(USAGE, f"{len(pending)} requests wait: name one with --request")
    raise DaemonError(ErrorCode.CONFLICT, "already answered, or expired")


def _option(request: PendingRequest, wanted: str) -> str:
    """An option by its id, or by a kind that only one has."""
    kinds = [option for option in request.options if option.kind == wanted]
    if any(option.id == wanted for option in request.options) or len(kinds) != 1:
        return wanted
    return kinds[0].id
