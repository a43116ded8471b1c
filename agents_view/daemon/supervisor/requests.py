"""Carry out requests: who may, once each, and the same answer for a repeat (spec 07.2, 07.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agents_view.daemon.policy.access import refusal
from agents_view.daemon.store import requests as store
from agents_view.daemon.store.errors import StoreError
from agents_view.daemon.supervisor.context import Call, Daemon
from agents_view.daemon.supervisor.handlers import conversation, residency, service, sessions
from agents_view.daemon.supervisor.lookup import row_of
from agents_view.daemon.supervisor.peer import Peer, wire_error
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import AnyCommand, AnyResult, Failure, Reply, Request, WireError
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import Done, PromptAccepted, SessionReply

log = logging.getLogger(__name__)

Handler = Callable[[Daemon, Call, Any], Awaitable[AnyResult]]

_AT_ONCE = 64
"""Requests of one connection under way; more are answered `busy`."""

_PASSING = (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.BUSY)
"""No outcome: asked again under the same id, it may well be done."""

READS: dict[type[AnyCommand], Handler] = {
    c.Ping: service.ping,
    c.Status: service.status,
    c.AgentsList: service.agents_list,
    c.Explain: service.explain,
    c.DeletePreview: sessions.preview,
    c.Pending: conversation.pending,
    c.Attach: conversation.attach,
    c.Detach: conversation.detach,
    c.Transcript: conversation.transcript,
    c.Shutdown: service.shutdown,
    c.Seen: service.seen,
}
"""Commands that may simply be carried out again."""

REPEATABLE: dict[type[AnyCommand], Handler] = {
    c.Create: sessions.create,
    c.Spawn: sessions.spawn,
    c.Rename: sessions.rename,
    c.Archive: sessions.archive,
    c.Restore: sessions.restore,
    c.Delete: sessions.delete,
    c.Purge: sessions.purge,
    c.Stop: residency.stop,
    c.Wake: residency.wake,
    c.RetryWorker: residency.retry_worker,
    c.Prompt: conversation.prompt,
}
"""What they write is keyed by the request id, or says "make it so": one that a crash left
unfinished goes on where it stopped, and what it had written decides (a prompt by its row)."""

ONCE: dict[type[AnyCommand], Handler] = {
    c.CancelTurn: conversation.cancel_turn,
    c.QueueEdit: conversation.queue_edit,
    c.Answer: conversation.answer,
    c.SetMode: conversation.set_mode,
    c.SetModel: conversation.set_model,
    c.SetConfigOption: conversation.set_config_option,
}
"""If a crash left one of these unfinished nobody can tell: the answer is `uncertain`."""


class Outcome(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What is kept of an answer: whether it was done, never what it said."""

    error: WireError | None = None


class Requests:
    """Dispatches requests. One loop only."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._running: dict[str, asyncio.Future[AnyResult]] = {}

    def receive(self, peer: Peer, request: Request) -> None:
        """Begin to carry it out; the answer goes to the peer when it is known."""
        if len(peer.tasks) >= _AT_ONCE:
            error = DaemonError(ErrorCode.BUSY, f"more than {_AT_ONCE} requests at once")
            peer.send(Failure(request_id=request.request_id, error=wire_error(error)))
            return
        task = asyncio.create_task(self._answer(peer, request), name=f"request-{peer.number}")
        peer.tasks.add(task)
        task.add_done_callback(peer.tasks.discard)

    async def _answer(self, peer: Peer, request: Request) -> None:
        key = request.request_id
        call = Call(request_id=key, command=request.body, caller=peer.caller, peer=peer)
        try:
            result = await self._once(call)
        except DaemonError as error:
            peer.send(Failure(request_id=key, error=wire_error(error)))
        except StoreError as error:
            failure = WireError(code=ErrorCode.UNAVAILABLE, message=str(error))
            peer.send(Failure(request_id=key, error=failure))
        except Exception as error:
            # a bug of ours: this request fails visibly, everything else goes on
            log.exception("request failed command=%s", type(request.body).__name__)
            text = f"internal error: {type(error).__name__}: {error}"
            failure = WireError(code=ErrorCode.UNAVAILABLE, message=text)
            peer.send(Failure(request_id=key, error=failure))
        else:
            # what it changed is on its way before the answer is (the row says running at once)
            self._daemon.roster_stream.flush()
            peer.send(Reply(request_id=key, result=result))
            if call.after_reply is not None:
                call.after_reply()

    async def _once(self, call: Call) -> AnyResult:
        """Carry it out, or join the one under way with the same id, or return its outcome."""
        body, peer = call.command, call.peer
        self._check_access(peer, body)
        if isinstance(body, c.RosterSubscribe):
            position = body.position
            call.after_reply = lambda: self._daemon.roster_stream.subscribe(peer, position)
            return Done()
        reader = READS.get(type(body))
        if reader is not None:
            return await reader(self._daemon, call, body)
        running = self._running.get(call.request_id)
        if running is not None:
            return await asyncio.shield(running)
        # detached from the peer: a client that goes away does not undo what it asked for
        work = asyncio.ensure_future(self._carry_out(call))
        self._running[call.request_id] = work
        work.add_done_callback(lambda done: self._forget(call.request_id, done))
        return await asyncio.shield(work)

    def _forget(self, request_id: str, done: asyncio.Future[AnyResult]) -> None:
        self._running.pop(request_id, None)
        if not done.cancelled():
            done.exception()  # told to whoever asked, if anybody is still there

    def _check_access(self, peer: Peer, body: AnyCommand) -> None:
        named = getattr(body, "session_id", None) or getattr(body, "parent_id", None)
        target = self._daemon.roster.session(named) if named else None
        why = refusal(peer.caller, body, target.root_id if target else None)
        if why is not None:
            self._daemon.counters["refused"] += 1
            raise DaemonError(ErrorCode.REFUSED, why)

    async def _carry_out(self, call: Call) -> AnyResult:
        """Record, do, record the outcome."""
        kind, key = type(call.command), call.request_id
        now = self._daemon.clock.now_ms()
        before = await self._daemon.db.write(lambda t: store.begin(t, key, kind.__name__, now))
        if before is not None and before.outcome is not None:
            return await self._repeat(call, msgspec.msgpack.decode(before.outcome, type=Outcome))
        if before is not None and kind in ONCE:
            message = "the daemon crashed while it did this; look whether it was done"
            raise DaemonError(ErrorCode.UNCERTAIN, message)
        handler = REPEATABLE.get(kind) or ONCE[kind]
        try:
            result = await handler(self._daemon, call, call.command)
        except DaemonError as error:
            if error.code not in _PASSING:
                await self._record(key, Outcome(error=wire_error(error)))
            raise
        await self._record(key, Outcome())
        return result

    async def _record(self, key: str, outcome: Outcome) -> None:
        encoded = msgspec.msgpack.encode(outcome)
        await self._daemon.db.write(lambda t: store.finish(t, key, encoded))

    async def _repeat(self, call: Call, outcome: Outcome) -> AnyResult:
        """The first outcome again, with what it is about as it stands now."""
        if outcome.error is not None:
            error = outcome.error
            raise DaemonError(error.code, error.message, error.detail)
        if isinstance(call.command, (c.Create, c.Spawn)):
            return SessionReply(row=row_of(self._daemon, call.request_id))
        if isinstance(call.command, c.Prompt):
            return PromptAccepted(
                session_id=call.command.session_id, prompt_id=call.request_id, position=0
            )
        return Done()
