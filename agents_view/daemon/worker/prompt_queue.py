"""The prompts of one session, durable: the store is the queue, memory a copy of it (07.4)."""

from __future__ import annotations

from typing import Literal

from agents_view.base.clock import Clock
from agents_view.daemon.store import prompts
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.prompts import Fence, StoredPrompt
from agents_view.daemon.wire import Source
from daemon_client.protocol.replies import QueuedPrompt

_SHOWN = 4096
_MOST_SHOWN = 64


class PromptQueue:
    """Serial: every change goes through the store first."""

    def __init__(self, db: Database, fence: Fence, session_id: str, clock: Clock) -> None:
        self._db = db
        self._fence = fence
        self._session_id = session_id
        self._clock = clock
        self.waiting: list[StoredPrompt] = []

    async def load(self) -> None:
        """Take over what the store has."""
        self.waiting = await self._db.read(lambda t: prompts.queued(t, self._session_id))

    async def accept(self, prompt_id: str, text: str, source: Source, *, first: bool) -> int:
        """Commit a prompt; its position in the queue, 0 if it is next or was sent already."""
        now = self._clock.now_ms()
        await self._db.write(
            lambda t: prompts.accept(
                t,
                self._fence,
                prompt_id=prompt_id,
                session_id=self._session_id,
                source=source,
                text=text,
                now_ms=now,
                first=first,
            )
        )
        await self.load()
        ids = [prompt.prompt_id for prompt in self.waiting]
        return ids.index(prompt_id) if prompt_id in ids else 0

    async def known(self, prompt_id: str) -> bool:
        """Whether it was accepted before, in whatever state it is."""
        return await self._db.read(lambda t: prompts.get(t, prompt_id)) is not None

    async def send_next(self) -> StoredPrompt | None:
        """Mark the first as sent, before the agent gets it; None if nothing is left.

        A prompt whose text is not what was accepted is never sent.
        """
        while self.waiting:
            prompt = self.waiting[0]
            now = self._clock.now_ms()
            sent = await self._db.write(
                lambda t, key=prompt.prompt_id, at=now: prompts.mark_sent(t, self._fence, key, at)
            )
            self.waiting = [p for p in self.waiting if p.prompt_id != prompt.prompt_id]
            if sent:
                return prompt
        return None

    async def finish(
        self, prompt_id: str, state: Literal["done", "interrupted"], stop_reason: str
    ) -> None:
        """Record how its turn ended."""
        now = self._clock.now_ms()
        await self._db.write(
            lambda t: prompts.finish(t, self._fence, prompt_id, state, stop_reason, now)
        )

    async def edit(self, prompt_id: str, text: str | None) -> bool:
        """Change (or, with None, remove) one that waits; False if it does not wait any more."""
        now = self._clock.now_ms()
        if text is None:
            done = await self._db.write(lambda t: prompts.remove(t, self._fence, prompt_id, now))
        else:
            done = await self._db.write(lambda t: prompts.edit(t, self._fence, prompt_id, text))
        await self.load()
        return done

    def shown(self, *, held: bool) -> tuple[QueuedPrompt, ...]:
        """As people see it."""
        return tuple(
            QueuedPrompt(
                prompt_id=prompt.prompt_id,
                text=prompt.text[:_SHOWN],
                source=prompt.source,
                held=held,
            )
            for prompt in self.waiting[:_MOST_SHOWN]
        )
