"""The agent process of one session: started, replaced, ended (A2, A7, A14, A15, S51)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from agents_view.acp.client import AgentClient, AgentError
from agents_view.base import processes
from agents_view.daemon.aftermath import SESSION_TAG
from agents_view.daemon.store.agent_sessions import AgentSessionStatus
from agents_view.daemon.worker.agent import Running, Starting, entry_of, start_agent
from agents_view.daemon.worker.facts import Offer
from agents_view.daemon.worker.listener import Listener
from agents_view.daemon.worker.memory import NOT_STARTED
from agents_view.daemon.worker.state import SessionState
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.commands import Environ
from daemon_client.text import cause_text

log = logging.getLogger(__name__)

_SLOW_START: Final = 5.0
_EXIT_WAIT: Final = 2.0
_WITHOUT_MEMORY: Final = "resumed without memory"

Own = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs something beside the session's own task, for as long as the session lives at most."""


class AgentHolder:
    """At most one process at a time. `gone` is set when it went away by itself."""

    def __init__(self, state: SessionState, own: Own, wake: Callable[[], None]) -> None:
        self._state = state
        self._own = own
        self._wake = wake
        self._listener: Listener | None = None
        self._ending: asyncio.Task[None] | None = None
        self.gone = False

    @property
    def _tag(self) -> tuple[str, str]:
        return (SESSION_TAG, self._state.session_id)

    # its beginning

    async def start(self, person: Environ) -> None:
        """Bring it up. A failure of the agent is visible and holds the prompts (R5).

        Raises `StoreError` and `OSError`: what has to be recorded first could not be. Then, and
        if this is cancelled, nothing of the agent is left.
        """
        state = self._state
        await self.settled()
        self.gone = False
        state.residence = "starting"
        state.reader.offer = Offer()
        state.changed()
        listener = self._listener = Listener(state, self._connection_ended)
        slow = self._own(self._tell_slow_start())
        try:
            await state.journal.open()
            limits = state.shared.settings.agent
            running = await start_agent(
                self._plan(person), limits, listener, self._launched, state.memory.opened
            )
        except AgentError as error:
            await self._clear(listener)
            await self._failed(error)
        except BaseException:
            await self._clear(listener)
            raise
        else:
            await self._started(running)
        finally:
            slow.cancel()

    def _plan(self, person: Environ) -> Starting:
        state = self._state
        return Starting(
            session=state.session,
            entry=entry_of(state.shared.catalogue, state.session.agent),
            has_history=state.counters.message_count > 0,
            person=person,
            socket=state.shared.socket,
            state=state.shared.state,
            earlier=state.memory.acp_session_id,
        )

    async def _launched(self, client: AgentClient) -> None:
        self._state.client = client
        self._state.changed()
        await self._state.memory.launched(client)

    async def _clear(self, listener: Listener) -> None:
        """A start came to nothing; its process is gone already."""
        listener.mute()
        self.gone = False
        self._state.client = None
        self._state.residence = None
        await self._state.memory.ended("failed")

    async def _started(self, running: Running) -> None:
        state = self._state
        # commands are told beside the answers that we waited for
        commands = state.reader.offer.choices.commands
        choices = msgspec.structs.replace(running.offer.choices, commands=commands)
        state.reader.offer = msgspec.structs.replace(running.offer, choices=choices)
        state.agent = running
        state.residence = "ready"
        state.wanted = True
        state.login = None
        state.resident_since_ms = state.clock.now_ms()
        state.recap = None if running.with_memory else _WITHOUT_MEMORY
        if not running.with_memory:
            state.notice(_WITHOUT_MEMORY, "warning")
        for problem in running.problems:
            state.notice(problem, "warning")
        state.counters.mode = running.offer.mode or state.counters.mode
        state.counters.model = running.offer.model or state.counters.model
        await state.set_exit_cause(None)
        state.all_changed()

    async def _failed(self, error: AgentError) -> None:
        """Visible, with what to do; prompts are held until somebody asks again (R5)."""
        state = self._state
        state.wanted = False
        state.held = True
        state.login = cause_text(error.message) if error.needs_login else None
        cause = cause_text(f"{NOT_STARTED}{error.text()}")
        log.warning("agent not started session=%s step=%s", state.session_id, error.step)
        state.notice(cause, "error")
        await state.set_exit_cause(cause)
        state.all_changed()

    async def _tell_slow_start(self) -> None:
        """An agent that takes long says in the transcript what it says on stderr (A2)."""
        state = self._state
        await state.clock.sleep(_SLOW_START)
        lines = state.client.child.stderr.lines() if state.client else ()
        text = "the agent is still starting"
        state.notice(f"{text}: {' / '.join(lines)}" if lines else text, "info")

    # while it lives

    def turn_over(self) -> None:
        if self._listener is not None:
            self._listener.turn_over()

    async def configure(
        self, change: Callable[[Running, str], Awaitable[None]], value: str
    ) -> None:
        """Raises `DaemonError`: agent_failed with what the agent says, conflict without one."""
        running = self._state.agent
        if running is None:
            raise DaemonError(ErrorCode.CONFLICT, "the session is not resident: wake it first")
        try:
            await change(running, value)
        except AgentError as error:
            raise DaemonError(ErrorCode.AGENT_FAILED, cause_text(error.text())) from None

    @property
    def kills_background(self) -> bool:
        """Whether what it leaves running ends with its turn."""
        agent = self._state.agent
        own = agent.entry.kill_background if agent else None
        return self._state.shared.settings.agent.kill_background if own is None else own

    async def look_for_background(self) -> None:
        """Count what the agent left running on purpose, outside its group (A15)."""
        state, client = self._state, self._state.client
        if client is None or state.agent is None:
            return
        found = await asyncio.to_thread(client.child.background, self._tag)
        if state.client is client and state.background != len(found):
            state.background = len(found)
            state.changed()

    async def end_background(self) -> None:
        """End it instead. To be awaited before the next turn: that runs tools of its own."""
        client = self._state.client
        if client is not None:
            found = await asyncio.to_thread(client.child.background, self._tag)
            await processes.end_all(found, self._state.shared.settings.agent.stop_step)

    # its end

    async def end(self, *, asked: bool) -> str | None:
        """Stop the process with all it started; how it ended, None for a normal end.

        `asked`: we end it, it did not go by itself. Cancelled, it goes on beside (`settled`).
        """
        state = self._state
        await self.settled()
        client = state.client
        state.agent = None
        state.end_requests("expired", "expiry")
        code = None
        if client is not None:
            state.residence = "stopping"
            state.changed()
            code = await client.child.wait(0 if asked else _EXIT_WAIT)
            self._begin_end(client, "completed" if asked or code == 0 else "interrupted")
            await self.settled()
        self.gone = False
        state.background = 0
        state.residence = None
        state.changed()
        return None if asked or not code else _exit_cause(code)

    async def replace(self) -> None:
        """End an agent that does not obey; the session starts another one (A3)."""
        state = self._state
        if state.client is not None and self._ending is None:
            state.agent = None
            state.wanted = True
            state.residence = "starting"
            self._begin_end(state.client, "interrupted")
        await self.settled()

    async def settled(self) -> None:
        """Wait until an agent that was let go is gone.

        Its sweep goes by the tag, which the next agent of the session carries too. Raises
        `StaleEpoch`.
        """
        ending = self._ending
        if ending is None:
            return
        try:
            await asyncio.shield(ending)
        finally:
            if ending.done() and self._ending is ending:
                self._ending = None

    def _begin_end(self, client: AgentClient, status: AgentSessionStatus) -> None:
        if self._listener is not None:
            self._listener.mute()
        self._ending = self._own(self._stop(client, status))

    async def _stop(self, client: AgentClient, status: AgentSessionStatus) -> None:
        report = await client.stop(self._tag)
        if not report.complete:
            log.error("something of the agent lives on session=%s", self._state.session_id)
        self._state.client = None
        await self._state.memory.ended(status)

    def _connection_ended(self) -> None:
        self.gone = True
        self._wake()


def _exit_cause(code: int) -> str:
    if code == processes.UNKNOWN_EXIT:
        return "agent ended: nobody saw how"
    if code < 0:
        return f"agent killed: {processes.exit_text(code)}"
    return f"agent exited: code {code}"
