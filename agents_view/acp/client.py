"""The session client: one agent process, one ACP session, every step bounded (A2, A12–A14).

It says what happened through `AgentEvents`, in the order the agent said it, and never decides what
it means: that is the worker's.
"""

from __future__ import annotations

import asyncio
import errno
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from agents_view.acp import schema
from agents_view.acp.errors import AgentError
from agents_view.acp.program import Launch, check_launch, find_program
from agents_view.acp.rpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    IncomingRequest,
    RpcClosed,
    RpcError,
    RpcPeer,
)
from agents_view.base.child import Child, StderrLog, start_child
from agents_view.base.processes import exit_text
from agents_view.base.settings import AgentLimits
from agents_view.base.stopping import StopReport, stop_child

__all__ = [
    "AUTH_REQUIRED",
    "AgentClient",
    "AgentError",
    "AgentEvents",
    "Launch",
    "Opened",
    "PermissionAsked",
    "check_launch",
    "find_program",
    "launch",
]

AUTH_REQUIRED = -32000

_PIPE_GRACE = 1.0
"""Seconds to read what a process that has ended left in its pipe, should another one hold it."""
_SHOWN_NOISE = 5

T = TypeVar("T")

Opened = Literal["new", "resume", "load"]


class PermissionAsked:
    """A permission request that waits; answer it once (A5, A13)."""

    def __init__(self, request: IncomingRequest, content: schema.RequestPermission) -> None:
        self._request = request
        self.tool = content.tool_call or schema.ToolCall()
        self.options = content.options or ()

    @property
    def answered(self) -> bool:
        return self._request.answered

    def select(self, option_id: str) -> None:
        """Choose one of `options`."""
        outcome = schema.Outcome(outcome="selected", option_id=option_id)
        self._request.respond(schema.PermissionOutcome(outcome=outcome))

    def cancel(self) -> None:
        """Tell the agent that nobody will answer; without it some never ask again (A13)."""
        outcome = schema.Outcome(outcome="cancelled")
        self._request.respond(schema.PermissionOutcome(outcome=outcome))


class AgentEvents(Protocol):
    """What an agent does, as it does it. Called on the loop, in order, never concurrently."""

    def on_update(self, update: schema.Update, raw: bytes, *, replay: bool) -> None:
        """An update of our session, live or (`replay`) history that is being loaded (A4)."""
        ...

    def on_permission(self, asked: PermissionAsked) -> None: ...

    def on_noise(self, text: str) -> None: ...

    def on_closed(self, reason: str) -> None:
        """The connection ended; the process follows."""
        ...


class AgentClient:
    """Made by `launch`; ended by `stop`, whatever happened in between."""

    def __init__(self, child: Child, launch: Launch, events: AgentEvents, limits: AgentLimits):
        self.child = child
        self._launch = launch
        self._events = events
        self._limits = limits
        self._replaying = False
        self._in_turn = False
        self._cancelling = False
        self._asked: list[PermissionAsked] = []
        self._noise: deque[str] = deque(maxlen=_SHOWN_NOISE)
        self._given_up: set[str] = set()
        self.session_id = ""
        self.capabilities = schema.AgentCapabilities()
        self.auth_methods: tuple[str, ...] = ()
        self._rpc = RpcPeer(child.read, child.write, self, limits.max_line)
        self._reader = asyncio.create_task(self._read(), name=f"rpc-{child.pid}")

    # starting

    async def initialize(self, version: str) -> None:
        """Shake hands. Raises `AgentError`."""
        hello = schema.Initialize(
            protocol_version=schema.PROTOCOL,
            client_info=schema.Implementation(
                name="agents-view", version=version, title="agents-view"
            ),
        )
        bound = self._limits.initialize_timeout
        answer = await self._step("initialize", hello, bound, schema.Initialized)
        if str(answer.protocol_version) != str(schema.PROTOCOL):
            message = f"it speaks protocol {answer.protocol_version}, we speak {schema.PROTOCOL}"
            raise self._error("initialize", message, advice="update the agent, or agents-view")
        self.capabilities = answer.capabilities
        self.auth_methods = tuple(method.id for method in answer.auth_methods or ())

    async def new_session(self) -> schema.SessionOpened:
        """A fresh conversation. Raises `AgentError`."""
        opened = await self._step(
            "session/new",
            schema.NewSession(cwd=self._launch.cwd),
            self._limits.new_session_timeout,
            schema.SessionOpened,
        )
        if not opened.session_id:
            raise self._error("session/new", "it gave no session id")
        self.session_id = opened.session_id
        return opened

    async def reopen(self, session_id: str) -> tuple[Opened, schema.SessionOpened] | None:
        """Bring a conversation back by resume, else load (A14); None if it can do neither now.

        Advertised but missing methods, and any refusal, mean the next way.
        """
        ways: list[Opened] = ["resume"] if self.capabilities.can_resume else []
        if self.capabilities.load_session:
            ways.append("load")
        request = schema.LoadSession(session_id=session_id, cwd=self._launch.cwd)
        self.session_id = session_id
        for way in ways:
            self._replaying = True
            try:
                opened = await self._step(
                    f"session/{way}",
                    request,
                    self._limits.load_session_timeout,
                    schema.SessionOpened,
                    answered=self._replay_over,
                )
            except AgentError as error:
                if self.child.exited.done() or self._reader.done():
                    raise
                self._events.on_noise(f"{way} of the conversation failed: {error.message}")
                continue
            finally:
                self._replaying = False
            return way, opened
        if ways:
            self._given_up.add(session_id)
        self.session_id = ""
        return None

    # the conversation

    async def prompt(self, blocks: Sequence[str]) -> str:
        """Run one turn; its stop reason. It lasts as long as it lasts. Raises `AgentError`."""
        content = tuple(schema.TextBlock(text=text) for text in blocks)
        prompt = schema.Prompt(session_id=self.session_id, prompt=content)
        self._in_turn, self._cancelling = True, False
        answer = await self._step(
            "session/prompt", prompt, None, schema.Prompted, answered=self._turn_over
        )
        return answer.stop_reason or "end_turn"

    def cancel(self) -> None:
        """Ask it to end the turn; the prompt then returns.

        Whatever it asks, before or until then, is answered `cancelled` (A13).
        """
        self._rpc.notify("session/cancel", schema.Cancel(session_id=self.session_id))
        self._cancelling = self._in_turn
        asked, self._asked = self._asked, []
        for one in asked:
            one.cancel()

    async def set_mode(self, mode: str) -> None:
        """Raises `AgentError`."""
        request = schema.SetMode(session_id=self.session_id, mode_id=mode)
        bound = self._limits.configure_timeout
        await self._step("session/set_mode", request, bound, schema.SessionOpened)

    async def set_model(self, model: str) -> None:
        """The way of agents that list `models`. Raises `AgentError`."""
        request = schema.SetModel(session_id=self.session_id, model_id=model)
        bound = self._limits.configure_timeout
        await self._step("session/set_model", request, bound, schema.SessionOpened)

    async def set_config_option(self, option: str, value: str) -> None:
        """The way of agents that list config options. Raises `AgentError`."""
        request = schema.SetConfigOption(session_id=self.session_id, config_id=option, value=value)
        bound = self._limits.configure_timeout
        await self._step("session/set_config_option", request, bound, schema.ConfigOptionsChanged)

    # ending

    async def stop(self, tag: tuple[str, str]) -> StopReport:
        """End it with everything it started (A15)."""
        try:
            return await stop_child(self.child, self._limits.stop_step, tag)
        finally:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._rpc.close("the agent was ended")

    # RpcHandler

    def on_notification(self, method: str, params: bytes) -> None:
        if method != "session/update":
            return  # extensions we did not ask for
        try:
            notification = schema.read(params, schema.UpdateNotification)
            raw = bytes(notification.update)
            update = schema.read(raw, schema.Update)
        except (msgspec.MsgspecError, RecursionError):
            self.on_noise(params.decode("utf-8", "replace"))
            return
        if notification.session_id in self._given_up:
            return  # it still replays what it refused to load, or took too long for
        self._events.on_update(update, raw, replay=self._replaying)

    def on_request(self, method: str, request: IncomingRequest) -> None:
        if method != "session/request_permission":
            request.fail(METHOD_NOT_FOUND, f"agents-view does not offer {method}")
            return
        try:
            content = schema.read(request.params, schema.RequestPermission)
        except (msgspec.MsgspecError, RecursionError) as error:
            request.fail(INVALID_PARAMS, f"permission request not understood: {error}")
            self._events.on_noise(f"a permission request that makes no sense: {error}")
            return
        asked = PermissionAsked(request, content)
        if self._cancelling:
            asked.cancel()  # it crossed our cancel on the way
            return
        self._asked = [one for one in self._asked if not one.answered]
        self._asked.append(asked)
        self._events.on_permission(asked)

    def on_noise(self, text: str) -> None:
        self._noise.append(text)
        self._events.on_noise(text)

    def on_closed(self, reason: str) -> None:
        self._events.on_closed(reason)

    # inside

    async def _read(self) -> None:
        """Read until the output ends. A process that is gone is gone, whoever holds its pipes."""
        reading = asyncio.create_task(self._rpc.run(), name=f"rpc-read-{self.child.pid}")
        try:
            await asyncio.wait((reading, self.child.exited), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((reading,), timeout=_PIPE_GRACE)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        self._rpc.close(self._ended("it stopped talking"))

    def _replay_over(self) -> None:
        self._replaying = False

    def _turn_over(self) -> None:
        self._in_turn = self._cancelling = False

    async def _step(
        self,
        method: str,
        params: msgspec.Struct,
        timeout: float | None,
        kind: type[T],
        answered: Callable[[], None] | None = None,
    ) -> T:
        try:
            raw = await self._rpc.request(method, params, timeout, answered)
            return schema.read(raw, kind)
        except TimeoutError:
            advice = _LOOK if method == "initialize" else ""
            raise self._error(method, f"no answer within {timeout:g} s", advice=advice) from None
        except RpcClosed as closed:
            # its exit code and last words come a moment after the end of its output
            await self.child.last_words()
            advice = _LOOK if method == "initialize" else ""
            raise self._error(method, self._ended(str(closed)), advice=advice) from None
        except RpcError as error:
            login = error.code == AUTH_REQUIRED
            text = f"{error.message} ({error.code})" + (f" {error.data}" if error.data else "")
            raise self._error(method, text, needs_login=login) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._error(method, f"an answer that makes no sense: {error}") from None

    def _ended(self, reason: str) -> str:
        if not self.child.exited.done():
            return reason
        return f"it ended: {exit_text(self.child.exited.result())}"

    def _error(
        self, step: str, message: str, *, advice: str = "", needs_login: bool = False
    ) -> AgentError:
        return AgentError(
            step,
            message,
            command=shlex.join(self._launch.argv),
            exit_code=self.child.exited.result() if self.child.exited.done() else None,
            stderr=self.child.stderr.lines(),
            noise=tuple(self._noise) if step == "initialize" else (),
            advice=advice,
            needs_login=needs_login,
        )


_LOOK = "run the command in a terminal to see what it wants"


async def launch(plan: Launch, events: AgentEvents, limits: AgentLimits) -> AgentClient:
    """Start the process. Raises `AgentError` that says what is missing and how to get it."""
    check_launch(plan)
    stderr = StderrLog(plan.stderr_path, limits.stderr_log, limits.stderr_tail)
    try:
        child = await start_child(plan.argv, cwd=plan.cwd, env=plan.env, stderr=stderr)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.ENOENT:
            why = "the interpreter that its first line names is missing"
        message = f"{plan.argv[0]} cannot be started: {why}"
        raise AgentError("start", message, command=shlex.join(plan.argv)) from None
    return AgentClient(child, plan, events, limits)
