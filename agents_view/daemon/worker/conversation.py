"""The turns of one session, one after another: sent at most once, ended in any case (A3, A12–A14).

A turn's beginning and its end are each written whole: whoever ends the session waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from agents_view.acp.client import AgentError
from agents_view.base.failpoints import reach
from agents_view.daemon.store.errors import StaleEpoch
from agents_view.daemon.store.prompts import StoredPrompt
from agents_view.daemon.worker.agent import Running
from agents_view.daemon.worker.facts import Work
from agents_view.daemon.worker.holder import AgentHolder
from agents_view.daemon.worker.memory import transcript_tail
from agents_view.daemon.worker.state import SessionState
from agents_view.daemon.worker.turn import UNCONFIRMED, TurnEnd, answered, cut_off, refused
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.transcript import PromptEntry, TurnEndEntry
from daemon_client.text import cause_text

log = logging.getLogger(__name__)

_TURN_WAIT: Final = 2.0


class Conversation:
    """Sends prompts and sees their turns through; `run` is called by the session's task only."""

    def __init__(self, state: SessionState, holder: AgentHolder) -> None:
        self.state = state
        self._holder = holder
        self._over = asyncio.Event()
        self._unconfirmed = False
        self._cause: str | None = None
        # held while a prompt is marked as sent and while a turn's end is written
        self._steady = asyncio.Lock()

    async def interrupt(self, task: asyncio.Task[None], cause: str) -> None:
        """Cancel the session's task, between its writes; a turn under way ends with this cause."""
        self._cause = cause
        async with self._steady:
            task.cancel()

    async def run(self, running: Running) -> None:
        """Send the next prompt and see its turn through."""
        reach("worker.before_sent")
        async with self._steady:
            if self._cause is not None:
                return
            prompt = await self.state.queue.send_next(self.state.memory.counted)
            reach("worker.after_sent")
            if prompt is not None:
                self._begin(prompt)
        self.state.all_changed()
        if prompt is None:
            return
        try:
            end = await self._converse(running, prompt)
        except asyncio.CancelledError:
            await self._finish(prompt.prompt_id, cut_off(self._cause or "stopped"))
            raise
        await self._finish(prompt.prompt_id, end)
        if self._holder.kills_background:
            await self._holder.end_background()

    def _begin(self, prompt: StoredPrompt) -> None:
        state, now = self.state, self.state.clock.now_ms()
        state.close_tools("completed")  # of what came after the last turn
        state.tools.forget()
        state.reader.echo = prompt.text
        self._unconfirmed = False
        self._over.clear()
        state.work = Work(prompt_id=prompt.prompt_id, turn="thinking", started_at_ms=now)
        state.last_update_ms = now
        state.journal.add(
            PromptEntry(prompt_id=prompt.prompt_id, text=prompt.text, source=prompt.source)
        )
        state.counters.count_prompt(prompt.text, now)
        state.touch()

    async def _converse(self, running: Running, prompt: StoredPrompt) -> TurnEnd:
        if not prompt.intact:
            return cut_off("the stored prompt is damaged; it was not sent")
        blocks = [prompt.text]
        if not running.with_memory and running.entry.frame:
            tail = await self._tail(prompt.prompt_id)
            blocks = [tail, prompt.text] if tail else blocks
        with contextlib.suppress(OSError):  # a full disk: it is tried again
            await self.state.journal.flush()  # what is carried out stands in the transcript
        try:
            stop_reason = await running.client.prompt(blocks)
            reach("worker.after_prompt")
        except AgentError as error:
            return await self._failed(running, error)
        running.with_memory = True
        return answered(stop_reason)

    async def _tail(self, prompt_id: str) -> str:
        try:
            return await transcript_tail(self.state.journal, prompt_id)
        except OSError as error:
            log.warning("no tail of the transcript session=%s: %s", self.state.session_id, error)
            return ""

    async def _failed(self, running: Running, error: AgentError) -> TurnEnd:
        """The agent refused the prompt, or went away over it. Never replayed."""
        if self._unconfirmed:
            return UNCONFIRMED
        state = self.state
        if not self._holder.gone and not running.client.child.exited.done():
            if error.needs_login:
                state.login = cause_text(error.message)
                state.held = True
            return refused(error)
        state.wanted = False  # unless somebody asks for it meanwhile
        cause = await self._holder.end(asked=False) or f"agent ended: {error.message}"
        await state.set_exit_cause(cause)
        return cut_off(cause)

    async def _finish(self, prompt_id: str, end: TurnEnd) -> None:
        """Close what is open, then make the end durable, then show it."""
        state = self.state
        async with self._steady:
            state.close_tools(end.tools)
            state.end_requests("expired", "expiry")
            self._holder.turn_over()
            reach("worker.before_done")
            try:
                await state.queue.finish(prompt_id, end.state, end.stop_reason)
            finally:
                state.journal.add(
                    TurnEndEntry(prompt_id=prompt_id, stop_reason=end.stop_reason, cause=end.cause)
                )
                if state.work is not None and state.work.said_something:
                    state.counters.message_count += 1
                state.work = None
                state.settle_touch()
                self._over.set()
                state.all_changed()

    async def cancel(self) -> None:
        """End the turn; returns when it is over (A3). Raises `DaemonError(conflict)` if none runs.

        A cancel that is not confirmed in time replaces the agent: the session is usable again.
        """
        state = self.state
        work, running = state.work, state.agent
        if work is None or running is None:
            raise DaemonError(ErrorCode.CONFLICT, "no turn runs")
        running.client.cancel()
        state.end_requests("cancelled", "cancel")
        state.changed()
        if await self._turn_ends(state.shared.settings.agent.cancel_timeout):
            return
        if state.work is work and state.agent is running:
            self._unconfirmed = True
            log.warning("cancel unconfirmed session=%s: agent replaced", state.session_id)
            await self._holder.replace()
        if state.work is work:
            await self._turn_ends(_TURN_WAIT)

    async def _turn_ends(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    async def break_off(self, cause: str) -> None:
        """A fault of ours: whatever is under way ends here. Raises `StaleEpoch`."""
        work = self.state.work
        try:
            if work is not None:
                await self._finish(work.prompt_id, cut_off(cause))
            await self._holder.end(asked=True)
        except StaleEpoch:
            raise
        except Exception:
            log.exception("session not tidied up session=%s", self.state.session_id)
        self.state.work = None
        self._over.set()
