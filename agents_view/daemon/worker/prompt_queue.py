"""The prompts of one session, durable: the store is the queue, memory a copy of it (07.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal

from agents_view.base.clock import Clock
from agents_view.daemon.store import prompts, sessions
from agents_view.daemon.store.database import Database, Transaction
from agents_view.daemon.store.errors import StaleEpoch, StoreError
from agents_view.daemon.store.prompts import Fence, StoredPrompt
from agents_view.daemon.wire import Source
from daemon_client.protocol.replies import QueuedPrompt

log = logging.getLogger(__name__)

_SHOWN: Final = 4096
_MOST_SHOWN: Final = 64


class PromptQueue:
    """Serial: every change goes through the store first."""

    def __init__(self, db: Database, fence: Fence, session_id: str, clock: Clock) -> None:
        self._db = db
        self._fence = fence
        self._session_id = session_id
        self._clock = clock
        self.waiting: list[StoredPrompt] = []
        self._ended: list[tuple[str, Literal["done", "interrupted"], str, int]] = []

    async def load(self) -> None:
        """Take over what the store has."""
        self.waiting = await self._db.read(lambda t: prompts.queued(t, self._session_id))

    async def accept(
        self, prompt_id: str, text: str, source: Source, *, first: bool, again: bool
    ) -> bool:
        """Commit a prompt; False if it was accepted before, in whatever state it is by now.

        `again`: a person asks again after a failed start, which is then forgotten with the same
        commit. Raises `StoreError`.
        """
        now = self._clock.now_ms()
        fence, key = self._fence, self._session_id

        def work(t: Transaction) -> bool:
            fresh = prompts.accept(
                t,
                fence,
                prompt_id=prompt_id,
                session_id=key,
                source=source,
                text=text,
                now_ms=now,
                first=first,
            )
            if fresh and again:
                sessions.save_exit(t, fence.root_id, fence.epoch, key, None, now)
            return fresh

        fresh = await self._db.write(work)
        await self.load()
        return fresh

    def position(self, prompt_id: str) -> int:
        """Its place in the queue, 0 if it is next or does not wait any more."""
        ids = [prompt.prompt_id for prompt in self.waiting]
        return ids.index(prompt_id) if prompt_id in ids else 0

    async def send_next(
        self, counted: Callable[[StoredPrompt, int], sessions.Counters]
    ) -> StoredPrompt | None:
        """Mark the first as sent, before the agent gets it; None if nothing is left.

        `counted` gives the counters with that prompt among them, for the same commit: a crash must
        not make another prompt the first one.
        Whether its text is still what was accepted is for the caller to look at. Raises
        `StoreError`: then it was not sent.
        """
        while self.waiting:
            prompt = self.waiting[0]
            now = self._clock.now_ms()
            sent = await self._mark_sent(prompt.prompt_id, counted(prompt, now), now)
            self.waiting = [p for p in self.waiting if p.prompt_id != prompt.prompt_id]
            if sent:
                return prompt
        return None

    async def _mark_sent(self, prompt_id: str, counters: sessions.Counters, now: int) -> bool:
        fence, key = self._fence, self._session_id

        def work(t: Transaction) -> bool:
            sent = prompts.mark_sent(t, fence, prompt_id, now)
            if sent:
                sessions.save_counters(t, fence.root_id, fence.epoch, key, counters)
            return sent

        return await self._db.write(work)

    async def finish(
        self, prompt_id: str, state: Literal["done", "interrupted"], stop_reason: str
    ) -> None:
        """Record how its turn ended; kept and tried again if nothing can be recorded now."""
        self._ended.append((prompt_id, state, stop_reason, self._clock.now_ms()))
        await self.settle()

    async def settle(self) -> None:
        """Write the ends that were not written yet. Raises `StaleEpoch`."""
        while self._ended:
            ended = self._ended[0]
            try:
                await self._db.write(
                    lambda t, e=ended: prompts.finish(t, self._fence, e[0], e[1], e[2], e[3])
                )
            except StaleEpoch:
                raise
            except StoreError as error:
                log.warning("end of a turn not recorded session=%s: %s", self._session_id, error)
                return
            if ended in self._ended:
                self._ended.remove(ended)

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
