"""A small daemon on the real wire that plays one recorded session, for tests of the session screen.

It answers what the screen asks from a transcript in memory; tests push what comes live, cut the
connection, and look at the commands they received.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.framing import FrameLink
from daemon_client.paths import paths_for
from daemon_client.protocol import (
    Failure,
    Request,
    SessionChunk,
    SessionGone,
    SessionState,
    WireError,
)
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    AnyResult,
    Attached,
    Done,
    PendingRequests,
    PromptAccepted,
    QueuedPrompt,
    Reply,
    TranscriptPage,
)
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import RosterRow
from tests.support.recorded_daemon import RecordedDaemon


class RecordedSession(RecordedDaemon):
    """Serves the roster as its parent does, and one session's transcript. Starts and stops."""

    def __init__(
        self,
        home: Path,
        row: RosterRow,
        *others: RosterRow,
        entries: Iterable[TranscriptEntry] = (),
    ) -> None:
        super().__init__((row, *others), home)
        self.socket = paths_for(home).socket
        self.row = row
        self.entries = list(entries)
        self.state = SessionState(session_id=row.session_id)
        self.refusals: dict[type, str] = {}
        self.missing = False
        self._attached: list[FrameLink] = []

    async def start(self) -> None:
        """Listen; also again after `stop`."""
        await self.__aenter__()

    async def stop(self) -> None:
        """Go away without a word, as a killed supervisor does."""
        for link in self._attached:
            link.abort()
        self._attached.clear()
        await self.__aexit__()
        self.socket.unlink(missing_ok=True)

    async def revive(self) -> None:
        """For `Connection`: nobody starts this daemon but the test."""
        if not self.socket.exists():
            raise DaemonError(ErrorCode.UNAVAILABLE, "the daemon is away")

    # what tests do

    def got(self, kind: type) -> list:
        """The commands of one kind."""
        return [command for command in self.received if isinstance(command, kind)]

    def push(self, *entries: TranscriptEntry) -> None:
        """Entries that happen now, to whoever is attached."""
        self.entries += entries
        self._send_attached(SessionChunk(session_id=self.row.session_id, entries=entries))

    def show(self, **fields: object) -> None:
        """Another queue, other requests or choices."""
        self.state = msgspec.structs.replace(self.state, **fields)
        self._send_attached(self.state)

    def change(self, **fields: object) -> None:
        """Other facts about the session."""
        self.row = msgspec.structs.replace(self.row, **fields)
        self.delta(self.row)

    def lose(self) -> None:
        """Drop the stream, as for a client that is too slow."""
        self._send_attached(SessionChunk(session_id=self.row.session_id, entries=(), lost=True))
        self._attached.clear()

    def delete(self) -> None:
        """The session is deleted."""
        self.missing = True
        self._send_attached(SessionGone(session_id=self.row.session_id))

    # inside

    def _send(self, link: FrameLink, message: msgspec.Struct) -> None:
        link.send(self._codec.encode(message))

    def _send_attached(self, message: msgspec.Struct) -> None:
        for link in self._attached:
            self._send(link, message)

    def _answer(self, link: FrameLink, request: Request) -> None:
        def reply(result: AnyResult) -> None:
            self._send(link, Reply(request_id=request.request_id, result=result))

        if (refusal := self.refusals.get(type(request.body))) is not None:
            error = WireError(code=ErrorCode.CONFLICT, message=refusal)
            self._send(link, Failure(request_id=request.request_id, error=error))
            return
        match request.body:
            case c.Attach(tail=tail) if not self.missing:
                reply(self._attach(link, tail))
                self._send_first(link, tail)
            case c.Transcript(before=before, limit=limit):
                end = len(self.entries) if before is None else before
                start = max(0, end - limit)
                reply(
                    TranscriptPage(
                        session_id=self.row.session_id,
                        entries=tuple(self.entries[start:end]),
                        before=start or None,
                    )
                )
            case c.Prompt(text=text):
                key = self.row.session_id
                reply(PromptAccepted(session_id=key, prompt_id=request.request_id))
                if self.row.turn is not None:
                    queued = QueuedPrompt(prompt_id=request.request_id, text=text)
                    self.show(queue=(*self.state.queue, queued))
            case c.QueueEdit(prompt_id=prompt_id, text=text):
                reply(Done())
                self._edit(prompt_id, text)
            case c.Answer():
                reply(Done())
                self.show(pending=())
            case c.Pending():
                reply(PendingRequests(requests=self.state.pending))
            case c.Attach():
                error = WireError(code=ErrorCode.NOT_FOUND, message="no such session")
                self._send(link, Failure(request_id=request.request_id, error=error))
            case _:
                super()._answer(link, request)

    def _attach(self, link: FrameLink, tail: int) -> Attached:
        self._attached = [*(one for one in self._attached if one is not link), link]
        before = max(0, len(self.entries) - tail)
        return Attached(session_id=self.row.session_id, before=before or None)

    def _send_first(self, link: FrameLink, tail: int) -> None:
        page = tuple(self.entries[-tail:])
        key = self.row.session_id
        chunk = SessionChunk(session_id=key, entries=page, replay=True, last=True)
        self._send(link, chunk)
        self._send(link, self.state)

    def _edit(self, prompt_id: str, text: str | None) -> None:
        queue = [
            msgspec.structs.replace(p, text=text) if p.prompt_id == prompt_id and text else p
            for p in self.state.queue
            if p.prompt_id != prompt_id or text is not None
        ]
        self.show(queue=tuple(queue))
