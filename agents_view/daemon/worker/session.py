"""One session of a tree: its queue, its turns, its orders (A3, A5, A13, S51).

One task runs it. Callbacks of the agent only change state and wake that task, so everything about
a session happens one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from agents_view.base.failpoints import reach
from agents_view.daemon.store.errors import StaleEpoch, StoreError
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.wire import Deliver
from agents_view.daemon.worker import agent as agents
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.conversation import Conversation
from agents_view.daemon.worker.holder import AgentHolder
from agents_view.daemon.worker.state import SessionState
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.commands import Environ

log = logging.getLogger(__name__)


class SessionRunner:
    """Runs one session until it is closed.

    `environ` is what a person gave for it; without, `inherited` says what its parents have (A9).
    """

    def __init__(self, session: Session, shared: Shared, inherited: Callable[[], Environ]) -> None:
        self.environ: Environ = {}
        self.state = SessionState(session, shared)
        self._shared = shared
        self._inherited = inherited
        self._holder = AgentHolder(self.state, self._help, self._rouse)
        self._conversation = Conversation(self.state, self._holder)
        self._closing = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    # life

    async def open(self) -> None:
        """Read what is durable; nothing is started unless prompts wait."""
        state = self.state
        await state.queue.load()
        await state.memory.load()
        # an agent that did not start is not tried again until somebody asks
        state.held = bool(state.queue.waiting) and state.memory.start_failed
        self._task = asyncio.create_task(self._run(), name=f"session-{state.session_id}")

    async def close(self, cause: str) -> None:
        """End the agent with everything it started; what was under way is marked interrupted.

        Prompts that wait stay in the store.
        """
        self._closing = True
        if self._task is not None:
            await self._conversation.interrupt(self._task, cause)
            await asyncio.gather(self._task, return_exceptions=True)
        for helper in tuple(self._helpers):
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        with contextlib.suppress(StaleEpoch):
            await self.state.queue.settle()
            await self.state.memory.settle()
        await self.state.journal.close()
        self.state.held = True
        self.state.all_changed()

    async def _run(self) -> None:
        try:
            await self._shared.begun.wait()
            while not self._closing:
                await self._guarded_step()
        except StaleEpoch:
            self._shared.replaced()
        finally:
            with contextlib.suppress(StoreError):
                await self._holder.end(asked=True)

    async def _guarded_step(self) -> None:
        """A fault of ours, or of the disk, ends this session's work visibly, and nothing else."""
        try:
            await self._step()
        except StaleEpoch:
            raise
        except (StoreError, OSError) as error:
            log.warning("session stalled session=%s: %s", self.state.session_id, error)
            self.state.stalled = True
            await self._hold(f"not recorded: {error}")
        except Exception as error:
            log.exception("session failed session=%s", self.state.session_id)
            cause = f"internal error: {type(error).__name__}: {error}"
            await self._conversation.break_off(cause)
            self.state.notice(cause, "error")
            await self._hold(cause)

    async def _step(self) -> None:
        state, holder = self.state, self._holder
        await holder.settled()
        may_work = not state.held
        if holder.gone:
            await self._agent_gone()
        elif state.agent is None and may_work and (state.queue.waiting or state.wanted):
            await holder.start(self.environ or self._inherited())
        elif state.agent is not None and may_work and state.queue.waiting:
            await self._conversation.run(state.agent)
            self._help(holder.look_for_background())
        else:
            await self._wake.wait()
            self._wake.clear()

    async def _agent_gone(self) -> None:
        """It went away between turns (S51): the next prompt brings it back."""
        self.state.wanted = False  # unless somebody asks for it meanwhile
        cause = await self._holder.end(asked=False)
        await self.state.set_exit_cause(cause)
        if cause:
            self.state.notice(cause, "warning")
        self.state.changed()

    async def _hold(self, cause: str) -> None:
        self.state.held = True
        self.state.wanted = False
        await self.state.set_exit_cause(cause)
        self.state.all_changed()

    # orders

    async def start(self, environ: Environ, *, retry: bool = False) -> None:
        """Make it resident; what a failure held is sent then. Raises `StaleEpoch`."""
        state = self.state
        self._refuse_if_closing()
        self.environ = environ or self.environ
        if state.agent is not None and not retry and not state.held:
            return
        state.wanted = True
        state.held = state.stalled = False
        state.login = None
        if state.residence is None:
            state.residence = "starting"
        state.all_changed()
        self._rouse()
        if state.memory.start_failed:
            await state.set_exit_cause(None)

    async def deliver(self, order: Deliver) -> int:
        """Accept a prompt; committed when this returns. Its position in the queue.

        Repeating it changes nothing. Raises `StoreError`, `DaemonError`.
        """
        state = self.state
        self._refuse_if_closing()
        fresh = await state.queue.accept(
            order.prompt_id,
            order.text,
            order.source,
            first=order.steer,
            again=state.memory.start_failed,
        )
        reach("worker.accepted")
        if fresh:
            self.environ = order.environ or self.environ
            if state.memory.start_failed:
                await state.set_exit_cause(None)
            state.held = state.stalled = False
            state.login = None
            state.all_changed()
            self._rouse()
            if order.steer and state.work is not None and state.work.prompt_id != order.prompt_id:
                self._help(self._make_way())
        return state.queue.position(order.prompt_id)

    async def _make_way(self) -> None:
        """Steer: the turn under way ends, however it likes; the queue goes on by itself (A3)."""
        with contextlib.suppress(DaemonError):
            await self._conversation.cancel()

    async def cancel(self) -> None:
        """End the turn; returns when it is over (A3). Raises `DaemonError`: conflict if none."""
        await self._conversation.cancel()

    def answer(self, request_id: str, option_id: str) -> None:
        """A person answers. Raises `DaemonError`."""
        option = self.state.permissions.answer(request_id, option_id)
        self.state.outcome(request_id, option.name or option.kind, "person")
        self.state.all_changed()

    async def edit_queued(self, prompt_id: str, text: str | None) -> None:
        """Raises `DaemonError(conflict)` for a prompt that does not wait any more."""
        done = await self.state.queue.edit(prompt_id, text)
        self.state.all_changed()
        if not done:
            raise DaemonError(ErrorCode.CONFLICT, "the prompt is not queued any more")

    async def set_mode(self, mode: str) -> None:
        """Raises `DaemonError(agent_failed)` with what the agent says."""
        await self._holder.configure(agents.set_mode, mode)
        state = self.state
        state.counters.mode = mode
        state.reader.offer = msgspec.structs.replace(state.reader.offer, mode=mode)
        state.changed()

    async def set_model(self, model: str) -> None:
        await self._holder.configure(agents.set_model, model)
        state = self.state
        state.counters.model = model
        state.reader.offer = msgspec.structs.replace(state.reader.offer, model=model)
        state.changed()

    async def set_option(self, option_id: str, value: str) -> None:
        async def change(running: agents.Running, value: str) -> None:
            await running.client.set_config_option(option_id, value)

        await self._holder.configure(change, value)

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise DaemonError(ErrorCode.CONFLICT, "the session is being put away")

    # now and then

    async def tick(self, *, look: bool) -> None:
        """Silence inside a turn (A16), counters, what could not be written; `look` for background.

        Raises `StaleEpoch`.
        """
        state = self.state
        now, work = state.clock.now_ms(), state.work
        quiet_after = int(self._shared.settings.agent.quiet_after * 1000)
        silent = work is not None and now - state.last_update_ms > quiet_after
        if work is not None and silent and work.quiet_since_ms is None:
            work.quiet_since_ms = state.last_update_ms
            state.changed()
        if look and state.background:
            await self._holder.look_for_background()
        await state.queue.settle()
        await state.memory.settle()
        state.journal.retry()
        if look and state.stalled and not self._shared.db.recording:
            state.stalled = state.held = False
            await state.set_exit_cause(None)
            state.all_changed()
            self._rouse()

    # inside

    def _rouse(self) -> None:
        self._wake.set()

    def _help(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"helper-{self.state.session_id[-8:]}")
        self._helpers.add(task)
        task.add_done_callback(self._helped)
        return task

    def _helped(self, task: asyncio.Task[None]) -> None:
        self._helpers.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StaleEpoch):
            self._shared.replaced()
        elif error is not None:
            log.error("helper failed session=%s", self.state.session_id, exc_info=error)
