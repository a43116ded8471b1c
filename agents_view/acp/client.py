"""The session client: one agent process, one ACP session, every step bounded (A2, A12–A14).

It says what happened through `AgentEvents`, in the order the agent said it, and never decides what
it means: that is the worker's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import msgspec

from agents_view.acp import schema
from agents_view.acp.rpc import (
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

AUTH_REQUIRED = -32000

_LAST_WORDS = 0.5

T = TypeVar("T")

Opened = Literal["new", "resume", "load"]


class AgentError(Exception):
    """A step of an agent that failed: which, why, and what its process said last."""

    def __init__(
        self,
        step: str,
        message: str,
        *,
        command: str = "",
        exit_code: int | None = None,
        stderr: tuple[str, ...] = (),
        needs_login: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.message = message
        self.command = command
        self.exit_code = exit_code
        self.stderr = stderr
        self.needs_login = needs_login

    def text(self) -> str:
        """All of it in one line for people."""
        parts = [self.message if self.step == "start" else f"{self.step}: {self.message}"]
        if self.exit_code is not None and "exit" not in self.message:
            parts.append(exit_text(self.exit_code))
        if self.command:
            parts.append(f"command: {self.command}")
        if self.stderr:
            parts.append("last words: " + " / ".join(self.stderr))
        return " · ".join(parts)


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


class Launch(msgspec.Struct, kw_only=True, frozen=True):
    """How an agent is started."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    hint: str = ""
    stderr_path: Path | None = None


class AgentClient:
    """Made by `launch`; ended by `stop`, whatever happened in between."""

    def __init__(self, child: Child, launch: Launch, events: AgentEvents, limits: AgentLimits):
        self.child = child
        self._launch = launch
        self._events = events
        self._limits = limits
        self._replaying = False
        self.session_id = ""
        self.capabilities = schema.AgentCapabilities()
        self.auth_methods: tuple[str, ...] = ()
        self._rpc = RpcPeer(child.read, child.write, self, limits.max_line)
        self._reader = asyncio.create_task(self._rpc.run(), name=f"rpc-{child.pid}")

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
            raise self._error("initialize", message)
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
                )
            except AgentError as error:
                if self.child.exited.done() or self._reader.done():
                    raise
                self._events.on_noise(f"{way} of the conversation failed: {error.message}")
                continue
            finally:
                self._replaying = False
            return way, opened
        self.session_id = ""
        return None

    # the conversation

    async def prompt(self, blocks: Sequence[str]) -> str:
        """Run one turn; its stop reason. It lasts as long as it lasts. Raises `AgentError`."""
        content = tuple(schema.TextBlock(text=text) for text in blocks)
        prompt = schema.Prompt(session_id=self.session_id, prompt=content)
        answer = await self._step("session/prompt", prompt, None, schema.Prompted)
        return answer.stop_reason or "end_turn"

    def cancel(self) -> None:
        """Ask it to end the turn; the prompt then returns."""
        self._rpc.notify("session/cancel", schema.Cancel(session_id=self.session_id))

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
        report = await stop_child(self.child, self._limits.stop_step, tag)
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        self._rpc.close("the agent was ended")
        return report

    # RpcHandler

    def on_notification(self, method: str, params: bytes) -> None:
        if method != "session/update":
            return  # extensions we did not ask for
        try:
            notification = msgspec.json.decode(params, type=schema.UpdateNotification)
            raw = bytes(notification.update)
            update = _tolerant_update(raw)
        except (msgspec.MsgspecError, RecursionError):
            self._events.on_noise(params.decode("utf-8", "replace"))
            return
        self._events.on_update(update, raw, replay=self._replaying)

    def on_request(self, method: str, request: IncomingRequest) -> None:
        if method != "session/request_permission":
            request.fail(METHOD_NOT_FOUND, f"agents-view does not offer {method}")
            return
        try:
            content = msgspec.json.decode(request.params, type=schema.RequestPermission)
        except (msgspec.MsgspecError, RecursionError) as error:
            request.fail(-32602, f"permission request not understood: {error}")
            self._events.on_noise(f"a permission request that makes no sense: {error}")
            return
        self._events.on_permission(PermissionAsked(request, content))

    def on_noise(self, text: str) -> None:
        self._events.on_noise(text)

    def on_closed(self, reason: str) -> None:
        self._events.on_closed(reason)

    # inside

    async def _step(
        self, method: str, params: msgspec.Struct, timeout: float | None, kind: type[T]
    ) -> T:
        try:
            raw = await self._rpc.request(method, params, timeout)
            return msgspec.json.decode(raw if raw != b"null" else b"{}", type=kind)
        except TimeoutError:
            raise self._error(method, f"no answer within {timeout:g} s") from None
        except RpcClosed as closed:
            # its exit code and last words come a moment after the end of its output
            await self.child.wait(_LAST_WORDS)
            raise self._error(method, self._ended(str(closed))) from None
        except RpcError as error:
            login = error.code == AUTH_REQUIRED
            text = f"{error.message} ({error.code})" + (f" {error.data}" if error.data else "")
            raise self._error(method, text, needs_login=login) from None
        except msgspec.MsgspecError as error:
            raise self._error(method, f"an answer that makes no sense: {error}") from None

    def _ended(self, reason: str) -> str:
        if not self.child.exited.done():
            return reason
        return f"it ended: {exit_text(self.child.exited.result())}"

    def _error(self, step: str, message: str, *, needs_login: bool = False) -> AgentError:
        return AgentError(
            step,
            message,
            command=shlex.join(self._launch.argv),
            exit_code=self.child.exited.result() if self.child.exited.done() else None,
            stderr=self.child.stderr.lines(),
            needs_login=needs_login,
        )


def _tolerant_update(raw: bytes) -> schema.Update:
    """The update, or at least its kind if some field of it is not what we know."""
    try:
        return msgspec.json.decode(raw, type=schema.Update)
    except msgspec.ValidationError:
        kind = msgspec.json.decode(raw, type=_Kind)
        return schema.Update(session_update=kind.session_update)


class _Kind(msgspec.Struct, rename="camel"):
    session_update: str = ""


async def launch(plan: Launch, events: AgentEvents, limits: AgentLimits) -> AgentClient:
    """Start the process. Raises `AgentError` that says what is missing and how to get it."""
    check_launch(plan)
    stderr = StderrLog(plan.stderr_path, limits.stderr_log, limits.stderr_tail)
    try:
        child = await start_child(plan.argv, cwd=plan.cwd, env=plan.env, stderr=stderr)
    except OSError as error:
        message = f"cannot be started: {error.strerror or error}"
        raise AgentError("start", message, command=shlex.join(plan.argv)) from None
    return AgentClient(child, plan, events, limits)


def check_launch(plan: Launch) -> None:
    """Say beforehand what the kernel would say less clearly. Raises `AgentError`."""
    command = shlex.join(plan.argv)
    if not Path(plan.cwd).is_dir():
        message = f"its directory is gone: {plan.cwd}"
        raise AgentError("start", message, command=command)
    program = plan.argv[0]
    found = find_program(program, plan.env)
    if found is None:
        hint = f"; {plan.hint}" if plan.hint else ""
        message = f"{program} is not on PATH{hint}"
        raise AgentError("start", message, command=command)
    if not os.access(found, os.X_OK):
        raise AgentError("start", f"{found} is not executable", command=command)


def find_program(program: str, env: Mapping[str, str]) -> str | None:
    """Where a program is: itself if it is a path, else the first on PATH, executable first."""
    if os.sep in program:
        return program if Path(program).exists() else None
    candidates = [
        str(Path(directory or ".") / program) for directory in env.get("PATH", "").split(os.pathsep)
    ]
    present = [path for path in candidates if Path(path).is_file()]
    executable = [path for path in present if os.access(path, os.X_OK)]
    return next(iter(executable or present), None)
