"""Orders of the supervisor, each to the session it names; the answer when it is carried out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from agents_view.daemon.store import sessions
from agents_view.daemon.store.errors import StaleEpoch, StoreError
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.wire import (
    AnswerRequest,
    AnyOrder,
    Cancel,
    Deliver,
    EditQueued,
    Order,
    OrderDone,
    OrderFailed,
    Refresh,
    Release,
    SetConfigOption,
    SetMode,
    SetModel,
    Start,
    StopTree,
    Watch,
)
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.link import Link
from agents_view.daemon.worker.session import SessionRunner
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import WireError
from daemon_client.protocol.commands import Environ

log = logging.getLogger(__name__)


class Orders:
    """Each order is a task of its own: a slow one holds up no other session."""

    def __init__(
        self,
        shared: Shared,
        link: Link,
        runners: dict[str, SessionRunner],
        stop: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._link = link
        self._runners = runners
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._stop_order: int | None = None

    def receive(self, order: Order) -> None:
        """Begin to carry it out."""
        if isinstance(order.body, StopTree):
            self._stop_order = order.order_id
            self._stop(order.body.cause)
            return
        task = asyncio.create_task(self._carry_out(order), name=f"order-{order.order_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """The tree is being stopped: give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def confirm_stop(self) -> None:
        """Every agent is gone: answer the order that asked for it."""
        if self._stop_order is not None:
            self._link.send(OrderDone(order_id=self._stop_order))

    async def open(self, session: Session) -> SessionRunner:
        """Take a member of the tree into care; nothing is started."""
        parent = session.parent_id
        runner = SessionRunner(session, self._shared, lambda: self._environ_of(parent))
        await runner.open()
        self._runners[session.session_id] = runner
        return runner

    def _environ_of(self, session_id: str | None) -> Environ:
        """What a person gave for that session, or for the nearest one above it (A9)."""
        while session_id is not None and session_id in self._runners:
            runner = self._runners[session_id]
            if runner.environ:
                return runner.environ
            session_id = runner.state.session.parent_id
        return {}

    async def _carry_out(self, order: Order) -> None:
        try:
            position = await self._do(order.body)
        except DaemonError as error:
            self._fail(order, error)
        except StaleEpoch as error:
            self._stop(str(error))
            self._fail(order, DaemonError(ErrorCode.UNAVAILABLE, "the tree has another worker"))
        except StoreError as error:
            self._fail(order, DaemonError(ErrorCode.UNAVAILABLE, str(error)))
        except Exception as error:
            log.exception("order failed order=%s", type(order.body).__name__)
            text = f"internal error: {type(error).__name__}: {error}"
            self._fail(order, DaemonError(ErrorCode.UNAVAILABLE, text))
        else:
            self._link.send(OrderDone(order_id=order.order_id, position=position))

    def _fail(self, order: Order, error: DaemonError) -> None:
        wire = WireError(code=error.code, message=error.message, detail=error.detail)
        self._link.send(OrderFailed(order_id=order.order_id, error=wire))

    async def _do(self, body: AnyOrder) -> int:
        """Carry out; the position for a `Deliver`, else 0."""
        runner = await self._runner(body.session_id)
        match body:
            case Deliver():
                return await runner.deliver(body)
            case Start():
                if body.retry:
                    await self._shared.read_agents_again()
                await runner.start(body.environ, retry=body.retry)
            case EditQueued():
                await runner.edit_queued(body.prompt_id, body.text)
            case Cancel():
                await runner.cancel()
            case AnswerRequest():
                runner.answer(body.request_id, body.option_id)
            case SetMode():
                await runner.set_mode(body.mode)
            case SetModel():
                await runner.set_model(body.model)
            case SetConfigOption():
                await runner.set_option(body.option_id, body.value)
            case Watch():
                self._link.watch(body.session_id, body.on)
                with contextlib.suppress(OSError):  # it is tried again, and said elsewhere
                    await runner.state.journal.flush()
            case Refresh():
                await self._refresh(runner, body)
            case Release():
                await self._release(runner)
        return 0

    async def _runner(self, session_id: str) -> SessionRunner:
        """The session's runner; one that was spawned since is read from the store."""
        async with self._opening:
            runner = self._runners.get(session_id)
            if runner is not None:
                return runner
            session = await self._shared.db.read(lambda t: sessions.get(t, session_id))
            if session is None or session.deleted_at_ms is not None:
                raise DaemonError(ErrorCode.NOT_FOUND, f"no session {session_id}")
            if session.root_id != self._shared.fence.root_id:
                raise DaemonError(ErrorCode.INVALID, "that session belongs to another tree")
            return await self.open(session)

    async def _refresh(self, runner: SessionRunner, body: Refresh) -> None:
        runner.environ = body.environ or runner.environ
        key = body.session_id
        session = await self._shared.db.read(lambda t: sessions.get(t, key))
        if session is not None:
            runner.state.session = session

    async def _release(self, runner: SessionRunner) -> None:
        """Archived or deleted: end its agent, forget it."""
        self._runners.pop(runner.state.session_id, None)
        await runner.close("put away by a person")
