"""A small daemon on the real wire that plays one recorded session, for tests of the session screen.

It answers what the screen asks from a transcript in memory; tests push what comes live, cut the
connection, and look at the commands they received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon_client.errors import DaemonError, ErrorCode, FrameError
from daemon_client.framing import Codec, FrameLink
from daemon_client.protocol import (
    PROTOCOL_VERSION,
    Failure,
    FromClient,
    Hello,
    Request,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
    SessionChunk,
    SessionGone,
    SessionState,
    Welcome,
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


class RecordedSession:
    """Async context manager. `received` holds every command in order."""

    def __init__(
        self, directory: Path, row: RosterRow, *others: RosterRow, entries: Iterable = ()
    ) -> None:
        self.socket = directory / "s"
        self.row = row
        self.rows = {r.session_id: r for r in (row, *others)}
        self.entries: list[TranscriptEntry] = list(entries)
        self.state = SessionState(session_id=row.session_id)
        self.received: list[c.AnyCommand] = []
        self.refusals: dict[type, str] = {}
        self.missing = False
        self._links: list[FrameLink] = []
        self._attached: set[int] = set()
        self._codec: Codec[FromClient] = Codec(FromClient)
        self._server: asyncio.Server | None = None
        self._sequence = 1
        self._life = 0

    async def __aenter__(self) -> RecordedSession:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; also again after `stop`."""
        self._life += 1
        self.socket.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, str(self.socket))

    async def stop(self) -> None:
        """Go away without a word, as a killed supervisor does."""
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.abort()
        self._links.clear()
        self._attached.clear()
        await asyncio.sleep(0)
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
        self.rows[self.row.session_id] = self.row
        self._sequence += 1
        for link in self._links:
            self._send(link, RosterDelta(sequence=self._sequence, upserts=(self.row,)))

    def lose(self) -> None:
        """Drop the stream, as for a client that is too slow."""
        self._send_attached(SessionChunk(session_id=self.row.session_id, entries=(), lost=True))
        self._attached.clear()

    def delete(self) -> None:
        """The session is deleted."""
        self.missing = True
        self._send_attached(SessionGone(session_id=self.row.session_id))

    # inside

    def _accept(self) -> FrameLink:
        link = FrameLink(
            lambda payload: self._frame(link, payload),
            lambda: self._attached.discard(id(link)),
            self._garbage,
        )
        self._links.append(link)
        return link

    def _garbage(self, error: FrameError) -> None:
        raise AssertionError(f"the dashboard sent garbage: {error}")

    def _send(self, link: FrameLink, message: msgspec.Struct) -> None:
        link.send(self._codec.encode(message))

    def _send_attached(self, message: msgspec.Struct) -> None:
        for link in self._links:
            if id(link) in self._attached:
                self._send(link, message)

    def _frame(self, link: FrameLink, payload: bytes) -> None:
        message = self._codec.decode(payload)
        if isinstance(message, Hello):
            welcome = Welcome(
                protocol=PROTOCOL_VERSION, product="test", pid=1, generation=f"g{self._life}"
            )
            self._send(link, welcome)
            return
        self.received.append(message.body)
        refusal = self.refusals.get(type(message.body))
        if refusal is not None:
            error = WireError(code=ErrorCode.CONFLICT, message=refusal)
            self._send(link, Failure(request_id=message.request_id, error=error))
            return
        self._answer(link, message)

    def _answer(self, link: FrameLink, request: Request) -> None:
        def reply(result: AnyResult) -> None:
            self._send(link, Reply(request_id=request.request_id, result=result))

        match request.body:
            case c.RosterSubscribe():
                reply(Done())
                self._send(link, RosterBegin(generation=f"g{self._life}", rows=len(self.rows)))
                self._send(link, RosterChunk(rows=tuple(self.rows.values())))
                self._send(link, RosterEnd(sequence=self._sequence))
            case c.Attach(tail=tail) if not self.missing:
                self._attached.add(id(link))
                key = self.row.session_id
                page = self.entries[-tail:]
                before = len(self.entries) - len(page)
                reply(Attached(session_id=key, before=before or None))
                self._send(
                    link,
                    SessionChunk(session_id=key, entries=tuple(page), replay=True, last=True),
                )
                self._send(link, self.state)
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
                reply(PromptAccepted(session_id=self.row.session_id, prompt_id=request.request_id))
                if self.row.turn is not None:
                    queued = QueuedPrompt(prompt_id=request.request_id, text=text)
                    self.show(queue=(*self.state.queue, queued))
            case c.QueueEdit(prompt_id=prompt_id, text=text):
                reply(Done())
                self.show(
                    queue=tuple(
                        prompt
                        if prompt.prompt_id != prompt_id
                        else msgspec.structs.replace(prompt, text=text)
                        for prompt in self.state.queue
                        if prompt.prompt_id != prompt_id or text is not None
                    )
                )
            case c.Answer():
                reply(Done())
                self.show(pending=())
            case c.Pending():
                reply(PendingRequests(requests=self.state.pending))
            case c.Attach():
                error = WireError(code=ErrorCode.NOT_FOUND, message="no such session")
                self._send(link, Failure(request_id=request.request_id, error=error))
            case _:
                reply(Done())
