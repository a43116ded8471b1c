"""See one turn through: stream, answer, and who is needed (spec 09: `--wait`)."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from agents_view.cli.output import FAILED, NEEDS_PERSON, Stop
from agents_view.cli.session import Reattach
from daemon_client.client import DaemonClient
from daemon_client.ids import short_id
from daemon_client.protocol import FromDaemon, SessionChunk, SessionGone, SessionState
from daemon_client.protocol.commands import Attach
from daemon_client.protocol.transcript import (
    MessageEntry,
    NoticeEntry,
    PromptEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from daemon_client.roster import RosterChange, RosterRow, SessionId, Waiting
from daemon_client.status import section_of
from daemon_client.text import clean
from daemon_client.transcript import SeqSet

_TAIL: Final = 2000
_SETTLE: Final = 1.0
"""Seconds within which the row tells what the transcript told."""
_UNQUEUED: Final = 5.0
"""The same for a prompt that left the queue; a new supervisor hears of the queue only then."""


class Turn(msgspec.Struct, kw_only=True, frozen=True):
    """How a turn ended, and the agent's words in it."""

    stop_reason: str
    cause: str
    text: str


class TurnFollower:
    """Collects the answer to one prompt; survives a restart of the daemon in between.

    `begin` before the prompt is sent (`fresh`: right after, with a session made for it; `steer`:
    what the session asks now is cancelled by it), `accepted` when it is, then `result`.
    """

    def __init__(self, client: DaemonClient, session_id: SessionId, prompt_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._prompt_id = prompt_id
        self._seen = SeqSet()
        self._old_cause: str | None = None
        self._cancelled: Waiting | None = None
        self._inside = self._started = self._queued = self._accepted = False
        self._live = self._moved = False
        self._parts: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[TurnEndEntry] = self._loop.create_future()
        self._undo = [
            client.connection.on_push(self._pushed),
            client.mirror.subscribe(self._row_changed),
            Reattach(client, session_id, self._again).end,
        ]

    async def begin(self, *, fresh: bool = False, steer: bool = False) -> None:
        """Attach: from here on nothing of the session is missed."""
        row = self._client.mirror.get(self._session_id)
        if row is not None and not fresh:
            self._old_cause = row.exit_cause
        if row is not None and steer:
            self._cancelled = row.waiting
        await self._client.conversation.attach(self._session_id, tail=_TAIL)

    def accepted(self) -> None:
        """The prompt is durable: from here on the row tells whether something stands in its way."""
        self._accepted = True
        self._look_at_row()

    async def result(self) -> Turn:
        """How it ended. Raises `Stop`: 6 when a person is needed, 1 when nothing will come."""
        try:
            end = await self._end
        finally:
            for undo in self._undo:
                undo()
        return Turn(stop_reason=end.stop_reason, cause=end.cause, text="".join(self._parts))

    def _again(self) -> None:
        self._client.connection.tell(Attach(session_id=self._session_id, tail=_TAIL))

    # what comes

    def _pushed(self, message: FromDaemon) -> None:
        if isinstance(message, SessionChunk) and message.session_id == self._session_id:
            if message.lost:
                self._again()
            for entry in message.entries:
                if self._seen.add(entry.seq):
                    self._take(entry)
            self._live = self._live or message.last or not message.replay
        elif isinstance(message, SessionState) and message.session_id == self._session_id:
            self._look_at_queue(message)
        elif isinstance(message, SessionGone) and message.session_id == self._session_id:
            self._fail(Stop(FAILED, "the session was deleted"))

    def _take(self, entry: TranscriptEntry) -> None:
        if isinstance(entry, PromptEntry):
            self._inside = entry.prompt_id == self._prompt_id
            self._started = self._started or self._inside
        elif isinstance(entry, MessageEntry) and self._inside:
            self._parts.append(entry.text)
        elif isinstance(entry, TurnEndEntry) and entry.prompt_id == self._prompt_id:
            self._inside = False
            if not self._end.done():
                self._end.set_result(entry)
        elif isinstance(entry, NoticeEntry) and entry.level == "error" and self._live:
            self._moved = True
            self._loop.call_later(_SETTLE, self._look_at_row)

    def _look_at_queue(self, state: SessionState) -> None:
        """Somebody may take the prompt out of the queue: then no turn of it ever ends."""
        queued = any(prompt.prompt_id == self._prompt_id for prompt in state.queue)
        if self._queued and not queued:
            self._loop.call_later(_UNQUEUED, self._left_queue)
        self._queued = queued

    def _left_queue(self) -> None:
        if not self._started and not self._queued:
            self._fail(Stop(FAILED, "the prompt was taken out of the queue"))

    def _row_changed(self, change: RosterChange) -> None:
        if self._session_id in change.changed:
            self._look_at_row()

    def _look_at_row(self) -> None:
        row = self._client.mirror.get(self._session_id)
        if row is None or not self._accepted:
            return
        if row.waiting is not None and row.waiting != self._cancelled:
            self._fail(_person_needed(row))
        # the cause of an end before this prompt says nothing about it
        self._moved = (
            self._moved or section_of(row) == "running" or row.exit_cause != self._old_cause
        )
        if self._moved and row.exit_cause and section_of(row) == "inactive":
            self._fail(Stop(FAILED, clean(row.exit_cause, 2048), (f"session {row.session_id}",)))

    def _fail(self, error: Stop) -> None:
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # it may be that nobody gets to asking for it


def _person_needed(row: RosterRow) -> Stop:
    """Exit 6: what is asked, and how to answer."""
    assert row.waiting is not None, "only for rows that wait"
    asks = f"it waits for you: {row.waiting.kind} · {clean(row.waiting.text, 400)}"
    answer = f"agents-view answer {short_id(row.session_id)}"
    return Stop(NEEDS_PERSON, asks, (answer, f"session {row.session_id}"))
