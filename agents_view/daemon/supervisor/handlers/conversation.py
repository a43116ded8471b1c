"""Prompts, cancels, answers, modes; attach and transcripts."""

from __future__ import annotations

import asyncio

import msgspec

from agents_view.daemon.store import prompts
from agents_view.daemon.store.transcripts import read_page
from agents_view.daemon.supervisor.context import Call, Daemon
from agents_view.daemon.supervisor.handlers.sessions import check_prompt
from agents_view.daemon.supervisor.lookup import active_session_of, queue_of, session_of
from agents_view.daemon.supervisor.streams import state_of
from agents_view.daemon.wire import (
    AnswerRequest,
    AnyOrder,
    Cancel,
    Deliver,
    EditQueued,
    Refresh,
    SetConfigOption,
    SetMode,
    SetModel,
    Watch,
)
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    Attached,
    Done,
    PendingRequests,
    PromptAccepted,
    TranscriptPage,
)
from daemon_client.roster import SessionId

_LONGEST_PAGE = 2000


async def prompt(daemon: Daemon, call: Call, command: c.Prompt) -> PromptAccepted:
    """Accepted means committed by the tree's worker; its id is the request id."""
    check_prompt(daemon, command.text)
    session = active_session_of(daemon, command.session_id)
    if not call.caller.is_agent:
        daemon.environments.remember(session.session_id, command.environ)
    done = await daemon.workers.order(
        session.root_id,
        Deliver(
            session_id=session.session_id,
            prompt_id=call.request_id,
            text=command.text,
            source="agent" if call.caller.is_agent else "person",
            steer=command.steer,
            environ=daemon.environments.of(session.session_id),
        ),
        timeout=daemon.settings.daemon.order_timeout + daemon.settings.agent.cancel_timeout,
    )
    return PromptAccepted(
        session_id=session.session_id, prompt_id=call.request_id, position=done.position
    )


async def cancel_turn(daemon: Daemon, call: Call, command: c.CancelTurn) -> Done:
    """Done when the turn is over, confirmed by the agent or by replacing it (A3)."""
    limits = daemon.settings.agent
    bound = limits.cancel_timeout + 4 * limits.stop_step + daemon.settings.daemon.order_timeout
    await _if_running(
        daemon, command.session_id, Cancel(session_id=command.session_id), "no turn runs", bound
    )
    return Done()


async def queue_edit(daemon: Daemon, call: Call, command: c.QueueEdit) -> Done:
    """A queued prompt of a passive session needs its worker: only that writes prompts (07.4)."""
    session = session_of(daemon, command.session_id)
    if command.text is not None:
        check_prompt(daemon, command.text)
    stored = await daemon.db.read(lambda t: prompts.get(t, command.prompt_id))
    if stored is None or stored.session_id != session.session_id:
        raise DaemonError(ErrorCode.NOT_FOUND, "no such prompt in this session")
    if stored.state != "queued":
        raise DaemonError(ErrorCode.CONFLICT, f"the prompt is not queued any more: {stored.state}")
    order = EditQueued(
        session_id=session.session_id, prompt_id=command.prompt_id, text=command.text
    )
    await daemon.workers.order(session.root_id, order)
    return Done()


async def answer(daemon: Daemon, call: Call, command: c.Answer) -> Done:
    """By request id; whoever comes second is told so (spec 03.3)."""
    order = AnswerRequest(
        session_id=command.session_id,
        request_id=command.waiting_id,
        option_id=command.option_id,
    )
    await _if_running(daemon, command.session_id, order, "already answered, or expired")
    return Done()


async def pending(daemon: Daemon, call: Call, command: c.Pending) -> PendingRequests:
    """What waits for a person, oldest first."""
    if command.session_id is not None:
        wanted = [session_of(daemon, command.session_id).session_id]
    else:
        wanted = [row.session_id for row in daemon.roster.rows()]
    found = [r for key in wanted for r in daemon.session_streams.aside(key).pending]
    found.sort(key=lambda request: request.since_ms)
    return PendingRequests(requests=tuple(found))


async def set_mode(daemon: Daemon, call: Call, command: c.SetMode) -> Done:
    order = SetMode(session_id=command.session_id, mode=command.mode)
    await _configure(daemon, command.session_id, order)
    return Done()


async def set_model(daemon: Daemon, call: Call, command: c.SetModel) -> Done:
    order = SetModel(session_id=command.session_id, model=command.model)
    await _configure(daemon, command.session_id, order)
    return Done()


async def set_config_option(daemon: Daemon, call: Call, command: c.SetConfigOption) -> Done:
    order = SetConfigOption(
        session_id=command.session_id, option_id=command.option_id, value=command.value
    )
    await _configure(daemon, command.session_id, order)
    return Done()


async def _configure(daemon: Daemon, session_id: SessionId, order: AnyOrder) -> None:
    """Modes and models are the agent's: it has to be there."""
    session = active_session_of(daemon, session_id)
    await daemon.workers.order(session.root_id, order)


async def _if_running(
    daemon: Daemon,
    session_id: SessionId,
    order: AnyOrder,
    otherwise: str,
    timeout: float | None = None,
) -> None:
    """Orders that make no sense for a passive session: `conflict` with the reason."""
    session = session_of(daemon, session_id)
    tree = daemon.workers.connected(session.root_id)
    if tree is None:
        raise DaemonError(ErrorCode.CONFLICT, otherwise)
    await tree.order(order, timeout or daemon.settings.daemon.order_timeout)


async def attach(daemon: Daemon, call: Call, command: c.Attach) -> Attached:
    """Follow a session. Attaching only reads: a passive session is not woken (S33)."""
    session = session_of(daemon, command.session_id)
    key = session.session_id
    if not call.caller.is_agent:
        daemon.environments.remember(key, command.environ)
    if daemon.session_streams.attach(key, call.peer):
        daemon.roster.attached(key, +1)
    tree = daemon.workers.connected(session.root_id)
    if tree is not None:
        bound = daemon.settings.daemon.order_timeout
        await tree.order(Watch(session_id=key, on=True), bound)
        if command.environ and not call.caller.is_agent:
            environ = daemon.environments.of(key)
            await tree.order(Refresh(session_id=key, environ=environ), bound)
    page = await _page(daemon, key, None, command.tail)
    call.after_reply = lambda: _send_first(daemon, call, page)
    return Attached(session_id=key, before=page.before)


def _send_first(daemon: Daemon, call: Call, page: TranscriptPage) -> None:
    """Tail, then what came meanwhile, then what stands beside the transcript."""
    key = page.session_id
    daemon.session_streams.send_tail(key, call.peer, page.entries)
    aside = daemon.session_streams.aside(key)
    call.peer.send(state_of(aside))
    session = daemon.roster.session(key)
    if session is not None and daemon.workers.connected(session.root_id) is None:
        task = asyncio.create_task(_send_stored_queue(daemon, call, key), name="stored-queue")
        call.peer.tasks.add(task)
        task.add_done_callback(call.peer.tasks.discard)


async def _send_stored_queue(daemon: Daemon, call: Call, key: SessionId) -> None:
    """A passive session's queue is in the store only."""
    queue = tuple(await queue_of(daemon, key))
    if queue:
        aside = daemon.session_streams.aside(key)
        call.peer.send(state_of(msgspec.structs.replace(aside, queue=queue)))


async def detach(daemon: Daemon, call: Call, command: c.Detach) -> Done:
    """Stop following; the worker is told once nobody is left."""
    await leave(daemon, call, command.session_id)
    return Done()


async def leave(daemon: Daemon, call: Call, session_id: SessionId) -> None:
    """One peer does not follow a session any more."""
    if not daemon.session_streams.detach(session_id, call.peer):
        return
    daemon.roster.attached(session_id, -1)
    session = daemon.roster.session(session_id)
    if session is None or daemon.session_streams.watched(session_id):
        return
    tree = daemon.workers.connected(session.root_id)
    if tree is not None:
        off = Watch(session_id=session_id, on=False)
        await tree.order(off, daemon.settings.daemon.order_timeout)


async def transcript(daemon: Daemon, call: Call, command: c.Transcript) -> TranscriptPage:
    """One page, read backwards from `before`; the file is never read whole."""
    session = session_of(daemon, command.session_id)
    tree = daemon.workers.connected(session.root_id)
    if tree is not None and command.before is None:
        # the worker writes what it holds back before it answers
        watched = daemon.session_streams.watched(session.session_id)
        flush = Watch(session_id=session.session_id, on=watched)
        await tree.order(flush, daemon.settings.daemon.order_timeout)
    limit = max(1, min(command.limit, _LONGEST_PAGE))
    return await _page(daemon, session.session_id, command.before, limit)


async def _page(
    daemon: Daemon, session_id: SessionId, before: int | None, limit: int
) -> TranscriptPage:
    path = daemon.transcript_path(session_id)
    most = daemon.settings.daemon.transcript_page
    page = await asyncio.to_thread(read_page, path, before=before, limit=limit, max_bytes=most)
    return TranscriptPage(session_id=session_id, entries=page.entries, before=page.before)
