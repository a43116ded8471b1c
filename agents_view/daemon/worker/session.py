"""One session of a tree: its agent, its queue, its turns, its requests (A2–A5, A13–A15, S51).

One task runs it. Callbacks of the agent only change state and wake that task, so everything about
a session happens one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from agents_view.acp.client import AgentClient, AgentError, PermissionAsked
from agents_view.acp.schema import Update
from agents_view.base import processes
from agents_view.base.failpoints import reach
from agents_view.daemon.aftermath import SESSION_TAG
from agents_view.daemon.store.errors import StaleEpoch
from agents_view.daemon.store.prompts import StoredPrompt
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.store.transcripts import transcript_path
from agents_view.daemon.wire import Aside, Deliver, SessionFacts
from agents_view.daemon.worker import agent as agents
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.facts import Counters, Work, facts_of
from agents_view.daemon.worker.journal import Journal
from agents_view.daemon.worker.memory import Memory, transcript_tail
from agents_view.daemon.worker.permissions import Permissions, chosen_by_policy
from agents_view.daemon.worker.prompt_queue import PromptQueue
from agents_view.daemon.worker.tools import Tools, command_of
from agents_view.daemon.worker.turn import UNCONFIRMED, TurnEnd, answered, cut_off, refused
from agents_view.daemon.worker.updates import Reader
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.commands import Environ
from daemon_client.protocol.transcript import (
    MessageEntry,
    NoticeEntry,
    NoticeLevel,
    PermissionEntry,
    PromptEntry,
    ToolEntry,
    TurnEndEntry,
)
from daemon_client.roster import WorkerState
from daemon_client.text import cause_text, clean, clean_lines

log = logging.getLogger(__name__)

_SLOW_START = 5.0
_ACTIVITY_STEP = 1000
_EXIT_WAIT = 2.0


class SessionRunner:
    """Runs one session until it is closed."""

    def __init__(self, session: Session, shared: Shared) -> None:
        self.session = session
        self._shared = shared
        self._clock = shared.clock
        self.environ: Environ = {}
        self.inherited: Environ = {}
        path = transcript_path(shared.transcripts, session.session_id)
        self.journal = Journal(
            path,
            shared.clock,
            shared.settings.daemon.transcript_entry,
            lambda entries: shared.upward.entries(session.session_id, entries),
            self._not_recorded,
        )
        self.queue = PromptQueue(shared.db, shared.fence, session.session_id, shared.clock)
        self._memory = Memory(session.session_id, shared)
        self._permissions = Permissions(session.session_id)
        self._tools = Tools()
        self._reader = Reader(self._tools)
        self._agent: agents.Running | None = None
        self._client: AgentClient | None = None
        self._state: WorkerState | None = None
        self._resident_since: int | None = None
        self._work: Work | None = None
        self._turn_over = asyncio.Event()
        self._wanted = False
        self._held = False
        self._login: str | None = None
        self._gone: str | None = None
        self._unconfirmed = False
        self._replacing: asyncio.Task[None] | None = None
        self._background = 0
        self._last_update_ms = 0
        self._exit_cause = session.exit_cause
        self._cause = "stopped"
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()
        self.counters = Counters(
            last_activity_at_ms=session.last_activity_at_ms,
            first_message=session.first_message,
            message_count=session.message_count,
            model=session.model,
            mode=session.mode,
        )

    # life

    async def open(self) -> None:
        """Read what is durable; nothing is started."""
        await self.journal.open()
        await self.queue.load()
        await self._memory.load()
        # an agent that failed before is not tried again until somebody asks
        self._held = bool(self.queue.waiting) and self.session.exit_cause is not None
        self._task = asyncio.create_task(self._run(), name=f"session-{self.session.session_id}")

    def start(self, environ: Environ, *, retry: bool = False) -> None:
        """Make it resident."""
        self.environ = environ or self.environ
        self._wanted = True
        if retry or self._held:
            self._held = False
        self._login = None
        self._changed()
        self._wake.set()

    async def deliver(self, order: Deliver) -> int:
        """Accept a prompt; committed when this returns. Its position in the queue."""
        self.environ = order.environ or self.environ
        if await self.queue.known(order.prompt_id):
            return 0
        position = await self.queue.accept(
            order.prompt_id, order.text, order.source, first=order.steer
        )
        self._held = False
        self._login = None
        self._aside()
        self._changed()
        self._wake.set()
        if order.steer and self._work is not None:
            await self.cancel()
        return position

    async def close(self, cause: str) -> None:
        """End the agent with everything it started; what was under way is marked interrupted."""
        self._cause = cause
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for helper in tuple(self._helpers):
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        with contextlib.suppress(StaleEpoch):
            await self._memory.save_counters(self.counters)
        try:
            await self.journal.close()
        except OSError as error:
            self._not_recorded(error)

    async def _run(self) -> None:
        """The one task. A fault of ours ends this session visibly, and nothing else."""
        try:
            await self._serve()
        except asyncio.CancelledError:
            await self._end_agent()
            raise
        except StaleEpoch:
            self._shared.replaced()
        except Exception as error:
            log.exception("session failed session=%s", self.session.session_id)
            await self._end_agent()
            self._fail(f"internal error: {type(error).__name__}: {error}")

    async def _serve(self) -> None:
        while True:
            if self._gone is not None:
                await self._agent_gone()
            elif not self._held and (self.queue.waiting or self._wanted) and self._agent is None:
                await self._start()
            elif not self._held and self.queue.waiting and self._agent is not None:
                await self._turn(self._agent)
            else:
                await self._wake.wait()
                self._wake.clear()

    # the agent

    async def _start(self) -> None:
        self._state = "starting"
        self._gone = None
        self._changed()
        slow = self._help(self._tell_slow_start())
        plan = agents.Starting(
            session=self.session,
            person=self.environ or self.inherited,
            socket=self._shared.socket,
            state=self._shared.state,
            earlier=self._memory.acp_session_id,
        )
        try:
            self._agent = await agents.start_agent(
                plan, self._shared.settings, self, self._launched, self._memory.opened
            )
        except AgentError as error:
            await self._start_failed(error)
            return
        finally:
            slow.cancel()
        await self._started(self._agent)

    def _launched(self, client: AgentClient) -> None:
        self._client = client
        self._changed()

    async def _started(self, running: agents.Running) -> None:
        self._reader.offer = running.offer
        self._state = "ready"
        self._wanted = True
        self._resident_since = self._clock.now_ms()
        await self._set_exit_cause(None)
        if not running.with_memory:
            self._notice("resumed without memory", "warning")
        self.counters.mode = running.offer.mode or self.counters.mode
        self.counters.model = running.offer.model or self.counters.model
        self._aside()
        self._changed()

    async def _start_failed(self, error: AgentError) -> None:
        """Visible, with what to do; prompts are held until somebody asks again (R5)."""
        self._client = None
        self._state = None
        self._gone = None
        self._wanted = False
        self._held = True
        self._login = cause_text(error.message) if error.needs_login else None
        cause = cause_text(f"agent not started: {error.text()}")
        await self._memory.ended("failed")
        await self._set_exit_cause(cause)
        self._notice(cause, "error")
        self._aside()
        self._changed()

    async def _tell_slow_start(self) -> None:
        """An agent that takes long says in the transcript what it says on stderr (A2)."""
        await self._clock.sleep(_SLOW_START)
        lines = self._client.child.stderr.lines() if self._client else ()
        text = "the agent is still starting"
        self._notice(f"{text}: {' / '.join(lines)}" if lines else text, "info")

    async def _agent_gone(self) -> None:
        """It went away between turns (S51): the next prompt brings it back."""
        replaced = await self._replaced()
        cause = await self._end_agent()
        await self._set_exit_cause(cause)
        if cause:
            self._notice(cause, "warning")
        self._wanted = replaced
        self._changed()

    async def _end_agent(self) -> str | None:
        """Stop the process with all it started; how it ended, None for a normal end."""
        await self._replaced()
        client, self._client, self._agent = self._client, None, None
        stopping = self._gone is None
        self._expire_requests()
        self._gone = None
        if client is None:
            self._state = None
            return None
        self._state = "stopping"
        self._changed()
        code = await client.child.wait(0 if stopping else _EXIT_WAIT)
        await client.stop((SESSION_TAG, self.session.session_id))
        self._state = None
        self._background = 0
        with contextlib.suppress(StaleEpoch):
            await self._memory.ended("completed" if stopping or code == 0 else "interrupted")
        self._changed()
        return None if stopping or not code else _exit_cause(code)

    # turns

    async def _turn(self, running: agents.Running) -> None:
        """Send the next prompt and see its turn through."""
        reach("worker.before_sent")
        prompt = await self.queue.send_next()
        reach("worker.after_sent")
        self._aside()
        if prompt is None:
            self._changed()
            return
        if not prompt.intact:
            await self._finish(prompt, cut_off("the stored prompt is damaged"))
            return
        self._begin(prompt)
        try:
            end = await self._converse(running, prompt)
        except asyncio.CancelledError:
            await self._finish(prompt, cut_off(self._cause))
            raise
        await self._finish(prompt, end)
        self._help(self._look_for_background())

    def _begin(self, prompt: StoredPrompt) -> None:
        now = self._clock.now_ms()
        self._tools.forget()
        self._reader.echo = prompt.text
        self._unconfirmed = False
        self._turn_over.clear()
        self._work = Work(prompt_id=prompt.prompt_id, turn="thinking", started_at_ms=now)
        self._last_update_ms = now
        self.journal.add(
            PromptEntry(prompt_id=prompt.prompt_id, text=prompt.text, source=prompt.source)
        )
        self.counters.message_count += 1
        self.counters.first_message = self.counters.first_message or clean(prompt.text, 200)
        self._touch(now)
        self._changed()

    async def _converse(self, running: agents.Running, prompt: StoredPrompt) -> TurnEnd:
        blocks = [prompt.text]
        if not running.with_memory and running.entry.frame:
            tail = await transcript_tail(self.journal, prompt.prompt_id)
            blocks = [tail, prompt.text] if tail else blocks
        running.with_memory = True
        try:
            stop_reason = await running.client.prompt(blocks)
            reach("worker.after_prompt")
            return answered(stop_reason)
        except AgentError as error:
            if self._unconfirmed:
                return UNCONFIRMED
            if self._gone is None and not running.client.child.exited.done():
                return refused(error)
            cause = await self._end_agent() or f"agent ended: {error.message}"
            await self._set_exit_cause(cause_text(cause))
            self._wanted = False
            return cut_off(cause)

    async def _finish(self, prompt: StoredPrompt, end: TurnEnd) -> None:
        """Close what is open, then make the end durable, then show it."""
        for entry in self._tools.close_open(end.tools):
            self.journal.add(entry)
        self._expire_requests()
        reach("worker.before_done")
        with contextlib.suppress(StaleEpoch):
            await self.queue.finish(prompt.prompt_id, end.state, end.stop_reason)
        self.journal.add(
            TurnEndEntry(prompt_id=prompt.prompt_id, stop_reason=end.stop_reason, cause=end.cause)
        )
        if self._work is not None and self._work.said_something:
            self.counters.message_count += 1
        self._work = None
        self._touch(self._clock.now_ms())
        self._turn_over.set()
        self._changed()

    async def cancel(self) -> None:
        """End the turn; returns when it is over (A3). Raises `DaemonError(conflict)` if none runs.

        A cancel that is not confirmed in time replaces the agent: the session is usable again.
        """
        work, client = self._work, self._client
        if work is None or client is None:
            raise DaemonError(ErrorCode.CONFLICT, "no turn runs")
        client.cancel()
        for request in self._permissions.cancel_all():
            self._outcome(request.request_id, "cancelled", "cancel")
        self._aside()
        self._changed()
        if await self._turn_ends(self._shared.settings.agent.cancel_timeout):
            return
        self._unconfirmed = True
        log.warning("cancel unconfirmed session=%s: agent replaced", self.session.session_id)
        self._replacing = self._help(self._replace(client))
        await asyncio.shield(self._replacing)
        await self._turn_ends(_EXIT_WAIT)

    async def _replace(self, client: AgentClient) -> None:
        """End an agent that does not obey; that ends its turn, and `_agent_gone` follows."""
        self._agent, self._client = None, None
        self._state = "starting"
        await client.stop((SESSION_TAG, self.session.session_id))
        await self._memory.ended("interrupted")

    async def _replaced(self) -> bool:
        """Wait until an agent that did not obey is gone; whether there was one.

        Its sweep goes by the tag, which the next agent of the session carries too.
        """
        if self._replacing is None:
            return False
        await asyncio.shield(self._replacing)
        self._replacing = None
        return True

    async def _turn_ends(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                await self._turn_over.wait()
        except TimeoutError:
            return False
        return True

    # AgentEvents

    def on_update(self, update: Update, raw: bytes, *, replay: bool) -> None:
        before = self._reader.offer
        if replay:
            self._reader.replayed(update)
        else:
            self._live(update, raw)
        offer = self._reader.offer
        if offer is not before:
            self.counters.mode = offer.mode or self.counters.mode
            self.counters.model = offer.model or self.counters.model
            self._aside()
            self._changed()

    def _live(self, update: Update, raw: bytes) -> None:
        now = self._clock.now_ms()
        self._last_update_ms = now
        if self._work is not None:
            self._work.quiet_since_ms = None
        entry = self._reader.live(update, raw, self._work)
        if entry is None:
            return
        self.journal.add(entry)
        if isinstance(entry, (MessageEntry, ToolEntry)):
            self._touch(now)
        self._changed()

    def on_permission(self, asked: PermissionAsked) -> None:
        """Parked, unless a policy answers; the tool it is about may be new to us (A12)."""
        known = self._tools.get(asked.tool.tool_call_id)
        entry = self._tools.upsert(asked.tool, default_status="pending")
        if known is None or entry.title or entry.output or entry.diffs:
            self.journal.add(entry)
        tool = self._tools.get(asked.tool.tool_call_id) or entry
        command = command_of(asked.tool, known)
        text = tool.title or command or "something"
        request = self._permissions.park(asked, text, command, self._clock.now_ms())
        self.journal.add(
            PermissionEntry(request_id=request.request_id, text=clean_lines(command or text))
        )
        allowed = self._allowed_kinds()
        option_id = chosen_by_policy(asked, tool.tool_kind, allowed)
        if option_id is not None:
            option = self._permissions.answer(request.request_id, option_id)
            self._outcome(request.request_id, option.name or option.kind, "policy")
        self._aside()
        self._changed()

    def _allowed_kinds(self) -> tuple[str, ...]:
        own = self._agent.entry.permissions if self._agent else ()
        return (*self._shared.settings.permissions.allow, *own)

    def answer(self, request_id: str, option_id: str) -> None:
        """A person answers. Raises `DaemonError`."""
        option = self._permissions.answer(request_id, option_id)
        self._outcome(request_id, option.name or option.kind, "person")
        self._aside()
        self._changed()

    def on_noise(self, text: str) -> None:
        """Kept and shown, not fatal (A6)."""
        self._notice(f"the agent printed: {clean(text, 1000)}", "info")

    def on_closed(self, reason: str) -> None:
        self._gone = reason
        self._wake.set()

    # orders

    async def edit_queued(self, prompt_id: str, text: str | None) -> None:
        """Raises `DaemonError(conflict)` for a prompt that does not wait any more."""
        done = await self.queue.edit(prompt_id, text)
        self._aside()
        self._changed()
        if not done:
            raise DaemonError(ErrorCode.CONFLICT, "the prompt is not queued any more")

    async def set_mode(self, mode: str) -> None:
        """Raises `DaemonError(agent_failed)` with what the agent says."""
        await self._configure(agents.set_mode, mode)
        self.counters.mode = mode
        self._changed()

    async def set_model(self, model: str) -> None:
        await self._configure(agents.set_model, model)
        self.counters.model = model
        self._changed()

    async def _configure(self, change, value: str) -> None:
        running = self._agent
        if running is None:
            raise DaemonError(ErrorCode.CONFLICT, "the session is not resident: wake it first")
        try:
            await change(running, value)
        except AgentError as error:
            raise DaemonError(ErrorCode.AGENT_FAILED, cause_text(error.text())) from None

    async def set_option(self, option_id: str, value: str) -> None:
        running = self._agent
        if running is None:
            raise DaemonError(ErrorCode.CONFLICT, "the session is not resident: wake it first")
        try:
            await running.client.set_config_option(option_id, value)
        except AgentError as error:
            raise DaemonError(ErrorCode.AGENT_FAILED, cause_text(error.text())) from None

    # telling

    async def tick(self) -> None:
        """Every few seconds: silence inside a turn (A16), background processes, counters."""
        now = self._clock.now_ms()
        work = self._work
        quiet_after = int(self._shared.settings.agent.quiet_after * 1000)
        if work is not None and now - self._last_update_ms > quiet_after:
            work.quiet_since_ms = self._last_update_ms
            self._changed()
        if self._background:
            await self._look_for_background()
        await self._memory.save_counters(self.counters)

    async def _look_for_background(self) -> None:
        """What the agent left running on purpose, outside its group (A15)."""
        client = self._client
        if client is None:
            return
        tag = (SESSION_TAG, self.session.session_id)
        found = await asyncio.to_thread(client.child.background, tag)
        own = self._agent.entry.kill_background if self._agent else None
        if own if own is not None else self._shared.settings.agent.kill_background:
            await processes.end_all(found, self._shared.settings.agent.stop_step)
            found = []
        if self._background != len(found):
            self._background = len(found)
            self._changed()

    def facts(self) -> SessionFacts:
        """Everything that is said about this session."""
        identity = self._client.child.identity if self._client else None
        waiting = self._permissions.waiting or self._memory.login(self._login)
        return facts_of(
            session_id=self.session.session_id,
            state=self._state,
            resident_since_ms=self._resident_since,
            agent=(identity.pid, identity.start) if identity else None,
            background=self._background,
            work=self._work or Work(),
            open_tools=len(self._tools.open),
            tool_label=self._tools.label,
            queued=len(self.queue.waiting),
            held=self._held,
            waiting=waiting,
            exit_cause=self._exit_cause,
            action_label=None,
            counters=self.counters,
        )

    def tell_all(self) -> None:
        """Facts and aside, for a supervisor that knows nothing yet."""
        self._aside()
        self._changed()

    def _changed(self) -> None:
        self._shared.upward.facts(self.facts())

    def _aside(self) -> None:
        self._shared.upward.aside(
            Aside(
                session_id=self.session.session_id,
                queue=self.queue.shown(held=self._held),
                pending=self._permissions.pending,
                choices=self._reader.offer.choices,
            )
        )

    def _touch(self, now: int) -> None:
        if now - self.counters.last_activity_at_ms >= _ACTIVITY_STEP:
            self.counters.last_activity_at_ms = now

    def _notice(self, text: str, level: NoticeLevel) -> None:
        self.journal.add(NoticeEntry(text=cause_text(text), level=level))

    def _outcome(self, request_id: str, outcome: str, by) -> None:
        self.journal.add(PermissionEntry(request_id=request_id, outcome=outcome, by=by))

    def _expire_requests(self) -> None:
        for request in self._permissions.cancel_all():
            self._outcome(request.request_id, "expired", "expiry")
        self._aside()

    async def _set_exit_cause(self, cause: str | None) -> None:
        if cause != self._exit_cause:
            self._exit_cause = cause
            await self._memory.save_exit(cause)

    def _fail(self, cause: str) -> None:
        self._state = None
        self._held = True
        self._exit_cause = cause_text(cause)
        self._changed()

    def _not_recorded(self, error: OSError) -> None:
        log.error("transcript not written session=%s: %s", self.session.session_id, error)

    def _help(self, work) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"helper-{self.session.session_id[-8:]}")
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        return task


def _exit_cause(code: int) -> str:
    if code == processes.UNKNOWN_EXIT:
        return "agent ended: nobody saw how"
    if code < 0:
        return f"agent killed: {processes.exit_text(code)}"
    return f"agent exited: code {code}"
