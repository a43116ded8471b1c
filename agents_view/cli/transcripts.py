"""`agents-view log`: a transcript, page by page; never all of it in memory (spec 07.4)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Final

from agents_view.cli.live import LiveText
from agents_view.cli.output import OK, plain, print_json, print_line, tell
from agents_view.cli.session import Reattach, daemon, named, unless_stopped
from daemon_client.client import DaemonClient
from daemon_client.protocol import FromDaemon, SessionChunk, SessionGone
from daemon_client.protocol.commands import Attach
from daemon_client.protocol.transcript import TranscriptEntry, TurnEndEntry
from daemon_client.roster import SessionId
from daemon_client.transcript_text import render_plain

Entries = tuple[TranscriptEntry, ...]

_PAGE: Final = 500
_FOLLOWED_TAIL: Final = 50
_HELD: Final = 5000
"""Entries of one turn kept before they are printed; a longer turn is printed in parts."""


async def log(args: argparse.Namespace) -> int:
    """The transcript, or its tail; `--follow` goes on until the session is gone."""
    async with daemon() as client:
        session_id = named(client, args.session)
        if args.follow:
            tail = _FOLLOWED_TAIL if args.tail is None else args.tail
            async with unless_stopped(client):
                await _follow(client, session_id, tail, as_json=args.json)
            return OK
        printer = _TurnPrinter()
        async for entries in pages(client, session_id, args.tail):
            if args.json:
                _print_lines(entries)
            else:
                printer.feed(entries)
        printer.close()
    return OK


async def pages(
    client: DaemonClient, session_id: SessionId, tail: int | None
) -> AsyncGenerator[Entries, None]:
    """Pages oldest first. The daemon reads backwards only, so the first pass notes where each ends.

    The newest is kept: what is appended meanwhile moves the end, and nothing else.
    """
    if tail == 0:
        return
    limits = [_PAGE if tail is None else min(_PAGE, tail)]
    newest = await client.conversation.transcript(session_id, limit=limits[0])
    ends: list[tuple[int, int]] = []
    left = None if tail is None else tail - len(newest.entries)
    page = newest
    while page.before is not None and (left is None or left > 0):
        limit = _PAGE if left is None else min(_PAGE, left)
        ends.append((page.before, limit))
        page = await client.conversation.transcript(session_id, before=page.before, limit=limit)
        left = None if left is None else left - len(page.entries)
    for before, limit in reversed(ends):
        page = await client.conversation.transcript(session_id, before=before, limit=limit)
        yield page.entries
    yield newest.entries


class _TurnPrinter:
    """Text for people, turn by turn: what belongs together is folded, the rest forgotten."""

    def __init__(self) -> None:
        self._held: list[TranscriptEntry] = []
        self._any = False

    def feed(self, entries: Entries) -> None:
        for entry in entries:
            self._held.append(entry)
            if isinstance(entry, TurnEndEntry) or len(self._held) >= _HELD:
                self.close()

    def close(self) -> None:
        """Print what is held."""
        text = render_plain(self._held)
        self._held.clear()
        if text:
            if self._any:
                print_line()
            sys.stdout.write(text)
            self._any = True


def _print_lines(entries: Entries) -> None:
    """JSON lines."""
    for entry in entries:
        print_json({"kind": entry.__struct_config__.tag} | plain(entry))


async def _follow(client: DaemonClient, session_id: SessionId, tail: int, *, as_json: bool) -> None:
    """Print what is there and what comes; over a restart of the daemon, too."""
    gone = asyncio.Event()
    text = LiveText(sys.stdout.write)
    last = 0
    broken: list[OSError] = []

    def show(entries: Entries) -> None:
        if as_json:
            _print_lines(entries)
        else:
            text.feed(entries)
        sys.stdout.flush()

    def pushed(message: FromDaemon) -> None:
        nonlocal last
        if isinstance(message, SessionGone) and message.session_id == session_id:
            gone.set()
        if isinstance(message, SessionChunk) and message.session_id == session_id:
            fresh = tuple(entry for entry in message.entries if entry.seq > last)
            last = max((entry.seq for entry in fresh), default=last)
            try:
                show(fresh)
            except OSError as error:  # whoever reads has enough; the loop would only log it
                broken.append(error)
                gone.set()
            if message.lost:
                again()

    def again() -> None:
        client.connection.tell(Attach(session_id=session_id, tail=max(tail, _PAGE)))

    client.connection.on_push(pushed)
    Reattach(client, session_id, again)
    await client.conversation.attach(session_id, tail=tail)
    await gone.wait()
    if broken:
        raise broken[0]
    text.end()
    tell("agents-view: the session was deleted")
