"""See one turn through: stream, answer, and who is needed (spec 09: `--wait`)."""

from __future__ import annotations

import asyncio

from agents_view.cli.output import FAILED, NEEDS_PERSON, Stop
from daemon_client.client import DaemonClient
from daemon_client.errors import DaemonError
from daemon_client.protocol import FromDaemon, SessionChunk, SessionGone
from daemon_client.protocol.commands import Attach
from daemon_client.protocol.transcript import (
    MessageEntry,
    PromptEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from daemon_client.roster import RosterChange, SessionId
from daemon_client.status import section_of

_TAIL = 2000


class TurnFollower:
    """Collects the answer to one prompt; survives a restart of the daemon in between."""

    def __init__(self, client: DaemonClient, session_id: SessionId, prompt_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._prompt_id = prompt_id
        self._seen: set[int] = set()
        self._inside = False
        self._parts: list[str] = []
        self._end: asyncio.Future[TurnEndEntry] = asyncio.get_running_loop().create_future()
        self._undo = [
            client.connection.on_push(self._pushed),
            client.connection.on_up(self._again),
            client.mirror.subscribe(self._row_changed),
        ]

    async def begin(self) -> None:
        """Attach; call before the prompt is sent, or right after."""
        await self._client.conversation.attach(self._session_id, tail=_TAIL)
        self._look_at_row()

    async def result(self) -> tuple[str, str]:
        """(stop reason, text). Raises `Stop(6)` when a person is needed first."""
        try:
            end = await self._end
        finally:
            for undo in self._undo:
                undo()
        return end.stop_reason, "".join(self._parts)

    def _again(self) -> None:
        self._client.connection.tell(Attach(session_id=self._session_id, tail=_TAIL))

    def _pushed(self, message: FromDaemon) -> None:
        if isinstance(message, SessionGone) and message.session_id == self._session_id:
            self._fail(Stop(1, "the session was deleted"))
        if isinstance(message, SessionChunk) and message.session_id == self._session_id:
            if message.lost:
                self._again()
            for entry in message.entries:
                if entry.seq not in self._seen:
                    self._seen.add(entry.seq)
                    self._take(entry)

    def _take(self, entry: TranscriptEntry) -> None:
        if isinstance(entry, PromptEntry):
            self._inside = entry.prompt_id == self._prompt_id
        elif isinstance(entry, MessageEntry) and self._inside:
            self._parts.append(entry.text)
        elif isinstance(entry, TurnEndEntry) and entry.prompt_id == self._prompt_id:
            self._ended(entry)

    def _ended(self, entry: TurnEndEntry) -> None:
        if not self._end.done():
            self._end.set_result(entry)

    def _row_changed(self, change: RosterChange) -> None:
        if self._session_id in change.changed:
            self._look_at_row()

    def _look_at_row(self) -> None:
        row = self._client.mirror.get(self._session_id)
        if row is not None and row.waiting is not None:
            asks = f"it waits for you: {row.waiting.kind} · {row.waiting.text}"
            self._fail(Stop(NEEDS_PERSON, asks))
        elif row is not None and row.exit_cause and section_of(row) == "inactive":
            self._fail(Stop(FAILED, row.exit_cause))

    def _fail(self, error: Stop | DaemonError) -> None:
        if not self._end.done():
            self._end.set_exception(error)
