"""The built-in `shell` agent: a prompt is a command line (spec 08.3). A stand-alone ACP program.

`?cmd` asks permission first. Nothing to install, no key: for the first start, tests, and
heartbeats such as "run the tests every 30 minutes".
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import msgspec

from agents_view.acp.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    IncomingRequest,
    RpcPeer,
)
from agents_view.agents import protocol as p
from agents_view.agents.command import PATIENCE, Command
from agents_view.agents.history import Exchange, History, directory
from daemon_client.ids import new_id
from daemon_client.version import VERSION

_MAX_LINE: Final = 64 << 20
_LIVE_EVERY: Final = 0.1
_LIVE_TAIL: Final = 64 << 10
_ANSWER_TAIL: Final = 4000
_LAST_PATIENCE: Final = 1.0
"""Seconds a command has on our way out."""

_OPTIONS: Final = (
    p.PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
    p.PermissionOption(option_id="always", name="Allow in this session", kind="allow_always"),
    p.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    p.PermissionOption(option_id="never", name="Reject in this session", kind="reject_always"),
)


class Session:
    """One conversation: a directory, a history, at most one command at a time."""

    def __init__(self, session_id: str, cwd: str, history: History) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.history = history
        self.command: Command | None = None
        self.asking: asyncio.Task[bytes] | None = None
        self.ending: asyncio.Task[None] | None = None
        self.busy = False
        self.cancelled = False
        self.always: str | None = None

    def begin(self) -> None:
        """A turn begins, at once: a cancel may be right behind its prompt."""
        self.busy, self.cancelled, self.ending = True, False, None

    def cancel(self, patience: float) -> None:
        """End the turn, whatever it is at."""
        if not self.busy:
            return
        self.cancelled = True
        if self.asking is not None:
            self.asking.cancel()
        if self.command is not None and self.ending is None:
            self.ending = asyncio.create_task(self.command.cancel(patience), name="cancel")

    async def ended(self) -> None:
        """Wait until a cancel has ended all it was to end."""
        if self.ending is not None:
            await self.ending


class ShellAgent:
    """Serves one client on stdin and stdout."""

    def __init__(self, folder: Path, shell: str) -> None:
        self._folder = folder
        self._shell = shell
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.rpc: RpcPeer

    # RpcHandler

    def on_request(self, method: str, request: IncomingRequest) -> None:
        try:
            if method == "initialize":
                request.respond(_initialized())
            elif method == "session/new":
                self._new(request)
            elif method == "session/load":
                self._load(request)
            elif method == "session/prompt":
                self._prompt(request)
            else:
                request.fail(METHOD_NOT_FOUND, f"Method not found: {method}")
        except msgspec.MsgspecError as error:
            request.fail(INVALID_PARAMS, str(error))
        except (OSError, ValueError) as error:
            request.fail(INTERNAL_ERROR, str(error))

    def on_notification(self, method: str, params: bytes) -> None:
        if method == "session/cancel":
            session = self._sessions.get(_session_id(params))
            if session is not None:
                session.cancel(PATIENCE)

    def on_noise(self, text: str) -> None:
        sys.stderr.write(f"not a message: {text[:200]!r}\n")

    def on_closed(self, reason: str) -> None:
        """Nothing to do: `serve` ends what runs."""

    async def end(self) -> None:
        """End every command, politely but soon."""
        sessions = list(self._sessions.values())
        for session in sessions:
            session.cancel(_LAST_PATIENCE)
        await asyncio.gather(*(session.ended() for session in sessions), return_exceptions=True)

    # sessions

    def _new(self, request: IncomingRequest) -> None:
        params = msgspec.json.decode(request.params, type=p.NewSession)
        if not Path(params.cwd).is_dir():
            request.fail(INVALID_PARAMS, f"no directory {params.cwd}")
            return
        session_id = new_id()
        history = History(self._folder, session_id)
        history.create()
        self._sessions[session_id] = Session(session_id, params.cwd, history)
        request.respond(p.Opened(session_id=session_id))

    def _load(self, request: IncomingRequest) -> None:
        params = msgspec.json.decode(request.params, type=p.LoadSession)
        history = History(self._folder, params.session_id)
        live = self._sessions.get(params.session_id)
        if not history.exists():
            request.fail(INVALID_PARAMS, f"no session {params.session_id}")
            return
        if live is not None and live.busy:
            request.fail(INVALID_PARAMS, "a turn of this session runs here")
            return
        self._sessions[params.session_id] = Session(params.session_id, params.cwd, history)
        for exchange in history.read():
            self._replay(params.session_id, exchange)
        request.respond(p.Loaded())

    def _replay(self, session_id: str, exchange: Exchange) -> None:
        said = p.Chunk(session_update="user_message_chunk", content=p.Text(text=exchange.prompt))
        self._update(session_id, said)
        call = _call("tool_call", exchange, exchange.output, exchange.exit_code)
        self._update(session_id, call)
        cut_off = exchange.status == "failed" and not exchange.answer
        self._say(session_id, "interrupted" if cut_off else exchange.answer)

    # a turn

    def _prompt(self, request: IncomingRequest) -> None:
        params = msgspec.json.decode(request.params, type=p.Prompt)
        session = self._sessions.get(params.session_id)
        if session is None:
            request.fail(INVALID_PARAMS, f"no session {params.session_id}")
            return
        if session.busy:
            request.fail(INVALID_PARAMS, "a turn of this session runs already")
            return
        text = "\n".join(block.text for block in params.prompt if block.text)
        session.begin()
        self._own(self._turn(session, text, request))

    async def _turn(self, session: Session, text: str, request: IncomingRequest) -> None:
        """Run it and answer, whatever happens: a turn without an end would hold the session."""
        try:
            await self._run(session, text)
            await session.ended()
        except Exception as error:
            self._say(session.session_id, f"cannot run it: {error}")
        stop = "cancelled" if session.cancelled else "end_turn"
        await self.rpc.drain()
        session.busy = False
        request.respond(p.Stopped(stop_reason=stop))

    async def _run(self, session: Session, text: str) -> None:
        exchange = Exchange(tool_id=new_id(), prompt=text, status="failed")
        self._record(session, exchange)
        asks = text.strip().startswith("?")
        allowed = not asks or await self._allowed(session, exchange.tool_id, exchange.line)
        if session.cancelled or not allowed:
            answer = "cancelled" if session.cancelled else f"not run: {exchange.line}"
            self._finish(session, msgspec.structs.replace(exchange, answer=answer))
            return
        begun = msgspec.structs.replace(exchange, status="in_progress")
        self._update(session.session_id, _call("tool_call", begun, ""))
        try:
            session.command = Command(exchange.line, session.cwd, self._shell)
        except OSError as error:
            failed = msgspec.structs.replace(exchange, answer=f"cannot run it: {error}")
            self._update(session.session_id, _call("tool_call_update", failed, ""))
            self._finish(session, failed)
            return
        await self._watch(session, session.command, begun)

    async def _watch(self, session: Session, command: Command, begun: Exchange) -> None:
        """See a command through: its output as it comes, then all of it with the exit code."""
        live = _Live(self, session, begun)
        try:
            code = await command.run(live.changed)
        finally:
            live.stop()
            session.command = None
        output = command.output.text()
        done = msgspec.structs.replace(
            begun,
            output=output,
            exit_code=code,
            status="completed" if code == 0 else "failed",
            answer=_answer(output, code, cancelled=session.cancelled),
        )
        self._update(session.session_id, _call("tool_call_update", done, output, code))
        self._finish(session, done)

    def _finish(self, session: Session, exchange: Exchange) -> None:
        self._say(session.session_id, exchange.answer)
        self._record(session, exchange)

    def _record(self, session: Session, exchange: Exchange) -> None:
        """A command runs even if it cannot be remembered; that is said."""
        try:
            session.history.add(exchange)
        except OSError as error:
            sys.stderr.write(f"history not kept: {error}\n")
            sys.stderr.flush()

    async def _allowed(self, session: Session, tool_id: str, line: str) -> bool:
        if session.always is not None:
            return session.always == "always"
        call = p.ToolCall(
            session_update=None,
            tool_call_id=tool_id,
            title=line,
            kind="execute",
            status="pending",
            raw_input=p.Input(command=line),
        )
        question = p.RequestPermission(
            session_id=session.session_id, tool_call=call, options=_OPTIONS
        )
        asked = self.rpc.request("session/request_permission", question, None)
        session.asking = asyncio.ensure_future(asked)
        try:
            raw = await session.asking
        except asyncio.CancelledError:
            if session.cancelled:
                return False
            raise
        finally:
            session.asking = None
        outcome = msgspec.json.decode(raw, type=p.PermissionAnswer).outcome
        if outcome.outcome != "selected":
            return False
        if outcome.option_id in ("always", "never"):
            session.always = outcome.option_id
        return outcome.option_id in ("once", "always")

    # saying

    def _say(self, session_id: str, text: str) -> None:
        if text:
            chunk = p.Chunk(session_update="agent_message_chunk", content=p.Text(text=text))
            self._update(session_id, chunk)

    def _update(self, session_id: str, update: msgspec.Struct) -> None:
        self.rpc.notify("session/update", p.Notification(session_id=session_id, update=update))

    def show(self, session: Session, exchange: Exchange, text: str) -> None:
        """The output so far."""
        self._update(session.session_id, _call("tool_call_update", exchange, text))

    def _own(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Live:
    """Shows the tail of the output while it comes, at most ten times a second."""

    def __init__(self, agent: ShellAgent, session: Session, exchange: Exchange) -> None:
        self._agent = agent
        self._session = session
        self._exchange = exchange
        self._due: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_LIVE_EVERY, self._show)

    def stop(self) -> None:
        """The command ended: its last word is the whole output."""
        if self._due is not None:
            self._due.cancel()

    def _show(self) -> None:
        self._due = None
        command = self._session.command
        if self._agent.rpc.backlog:
            self.changed()  # nobody has read the last one yet
        elif command is not None:
            self._agent.show(self._session, self._exchange, command.output.tail(_LIVE_TAIL))


def _call(update: str, exchange: Exchange, output: str, code: int | None = None) -> p.ToolCall:
    return p.ToolCall(
        session_update=update,
        tool_call_id=exchange.tool_id,
        title=exchange.line,
        kind="execute",
        status=exchange.status,
        content=(p.ToolText(content=p.Text(text=output)),) if output else None,
        raw_input=p.Input(command=exchange.line),
        raw_output=None if code is None else p.Result(exit_code=code),
    )


def _answer(output: str, code: int, *, cancelled: bool) -> str:
    """The end of the output, and how it ended if that was not well."""
    text = output[-_ANSWER_TAIL:]
    if cancelled:
        end = "cancelled"
    else:
        end = "" if code == 0 else f"exit {code}" if code > 0 else f"killed by signal {-code}"
    return "\n".join(part for part in (text.rstrip("\n"), end) if part)


def _initialized() -> p.Initialized:
    return p.Initialized(agent_info=p.Implementation(name="shell", version=VERSION))


def _session_id(params: bytes) -> str:
    try:
        return msgspec.json.decode(params, type=p.Named).session_id
    except msgspec.MsgspecError:
        return ""


async def serve() -> None:
    """Talk on stdin and stdout until the client goes away or we are told to go; never returns."""
    agent = ShellAgent(directory(os.environ), os.environ.get("SHELL") or "/bin/sh")
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    async def read() -> bytes:
        return await asyncio.to_thread(os.read, 0, 1 << 16)

    async def write(data: bytes) -> None:
        await asyncio.to_thread(_write_all, 1, data)

    agent.rpc = RpcPeer(read, write, agent, _MAX_LINE)
    talking = asyncio.create_task(agent.rpc.run(), name="rpc")
    leaving = asyncio.create_task(told.wait(), name="told")
    await asyncio.wait((talking, leaving), return_when=asyncio.FIRST_COMPLETED)
    await agent.end()
    # threads that still read or write a pipe would hold back a normal end
    sys.stderr.flush()
    os._exit(0)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main() -> None:
    """Entry point of the program."""
    asyncio.run(serve())


if __name__ == "__main__":
    main()
