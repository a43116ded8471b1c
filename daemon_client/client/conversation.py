"""Commands about a conversation: prompts, answers, transcripts, and the live stream."""

from __future__ import annotations

from daemon_client.client.expect import expect
from daemon_client.connection import Connection
from daemon_client.protocol.commands import (
    Answer,
    Attach,
    CancelTurn,
    Detach,
    Environ,
    Pending,
    Prompt,
    QueueEdit,
    SetConfigOption,
    SetMode,
    SetModel,
    Transcript,
)
from daemon_client.protocol.replies import (
    Attached,
    Done,
    PendingRequest,
    PendingRequests,
    PromptAccepted,
    TranscriptPage,
)
from daemon_client.roster import SessionId


class Conversation:
    """Every method raises `DaemonError`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def prompt(
        self,
        session_id: SessionId,
        text: str,
        *,
        steer: bool = False,
        environ: Environ | None = None,
        prompt_id: str | None = None,
    ) -> PromptAccepted:
        """Queue a prompt; durable when this returns. `steer` cancels the turn under way first.

        `prompt_id` (a new UUIDv7) may be given to recognise the prompt in the stream.
        """
        command = Prompt(session_id=session_id, text=text, steer=steer, environ=environ or {})
        outcome = await self._connection.request(command, request_id=prompt_id)
        return expect(PromptAccepted, outcome)

    async def cancel_turn(self, session_id: SessionId) -> None:
        """End the turn; returns when it is over."""
        expect(Done, await self._connection.request(CancelTurn(session_id=session_id)))

    async def edit_queued(self, session_id: SessionId, prompt_id: str, text: str) -> None:
        """Change a prompt that has not been sent yet."""
        command = QueueEdit(session_id=session_id, prompt_id=prompt_id, text=text)
        expect(Done, await self._connection.request(command))

    async def remove_queued(self, session_id: SessionId, prompt_id: str) -> None:
        """Take a prompt out of the queue."""
        command = QueueEdit(session_id=session_id, prompt_id=prompt_id)
        expect(Done, await self._connection.request(command))

    async def pending(self, session_id: SessionId | None = None) -> tuple[PendingRequest, ...]:
        """What waits for a person, oldest first."""
        outcome = await self._connection.request(Pending(session_id=session_id))
        return expect(PendingRequests, outcome).requests

    async def answer(self, session_id: SessionId, waiting_id: str, option_id: str) -> None:
        """Answer a pending request by its id; `conflict` if it is answered already."""
        command = Answer(session_id=session_id, waiting_id=waiting_id, option_id=option_id)
        expect(Done, await self._connection.request(command))

    async def set_mode(self, session_id: SessionId, mode: str) -> None:
        expect(Done, await self._connection.request(SetMode(session_id=session_id, mode=mode)))

    async def set_model(self, session_id: SessionId, model: str) -> None:
        expect(Done, await self._connection.request(SetModel(session_id=session_id, model=model)))

    async def set_option(self, session_id: SessionId, option_id: str, value: str) -> None:
        """Set a config option the agent offers."""
        command = SetConfigOption(session_id=session_id, option_id=option_id, value=value)
        expect(Done, await self._connection.request(command))

    async def attach(
        self, session_id: SessionId, *, tail: int = 200, environ: Environ | None = None
    ) -> Attached:
        """Follow a session: `SessionChunk`s of the tail and everything live reach `on_push`.

        After a reconnect it has to be attached again (`Connection.on_up`).
        """
        command = Attach(session_id=session_id, tail=tail, environ=environ or {})
        return expect(Attached, await self._connection.request(command))

    async def detach(self, session_id: SessionId) -> None:
        """Stop following."""
        expect(Done, await self._connection.request(Detach(session_id=session_id)))

    async def transcript(
        self, session_id: SessionId, *, before: int | None = None, limit: int = 200
    ) -> TranscriptPage:
        """One page of entries that ends before byte `before` (the end of the transcript)."""
        command = Transcript(session_id=session_id, before=before, limit=limit)
        return expect(TranscriptPage, await self._connection.request(command))
