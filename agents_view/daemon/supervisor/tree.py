"""One covered tree as the supervisor sees it: worker process, link, orders under way."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import Protocol

from agents_view.base.processes import Identity
from agents_view.daemon.policy.rows import Coverage
from agents_view.daemon.store.workers import WorkerRowState
from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.wire import (
    AnyOrder,
    FromPeer,
    Order,
    OrderDone,
    WorkerArguments,
    WorkerHello,
)
from daemon_client.errors import DaemonError, ErrorCode

_numbers = itertools.count(1)


class RunningWorker(Protocol):
    """A worker process that was started or found alive."""

    @property
    def identity(self) -> Identity: ...

    async def wait(self) -> str:
        """Wait for its end; says how it ended, empty for a normal exit."""
        ...

    def kill(self) -> None:
        """End it now (only if it is still the same process)."""
        ...


class Launcher(Protocol):
    """How workers come to life: as processes, or as tasks of this one (embedded, fake clock)."""

    async def launch(self, arguments: WorkerArguments) -> RunningWorker: ...

    def adopt(self, identity: Identity) -> RunningWorker:
        """Watch a worker that an earlier supervisor started."""
        ...


@dataclasses.dataclass(kw_only=True)
class Tree:
    """The worker of one root. `ready` is set while it is connected, `ended` once it is gone."""

    root_id: str
    epoch: int = 0
    state: WorkerRowState = "starting"
    since_ms: int = 0
    up_since: float = 0.0
    crashes: int = 0
    cause: str | None = None
    running: RunningWorker | None = None
    peer: Peer | None = None
    last_heard_ms: int | None = None
    stale: bool = False
    said_bye: bool = False
    ready: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    ended: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    guard: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    orders: dict[int, asyncio.Future[OrderDone]] = dataclasses.field(default_factory=dict)

    @property
    def covers(self) -> bool:
        """Whether the tree has a worker, or is about to have one again (S21)."""
        return self.state in ("starting", "ready", "recovering", "stopping")

    @property
    def pid(self) -> int | None:
        return self.running.identity.pid if self.running else None

    def coverage(self) -> Coverage:
        """The same as rows show it."""
        return Coverage(
            state=None if self.state == "stopped" else self.state,
            pid=self.pid,
            cause=self.cause,
            last_heard_at_ms=self.last_heard_ms,
            stale=self.stale,
        )

    async def order(self, body: AnyOrder, timeout: float) -> OrderDone:
        """Have an order carried out. Raises `DaemonError`; `unavailable` if the link broke."""
        if self.peer is None:
            raise DaemonError(ErrorCode.UNAVAILABLE, "the session's worker is not connected")
        number = next(_numbers)
        future: asyncio.Future[OrderDone] = asyncio.get_running_loop().create_future()
        self.orders[number] = future
        self.peer.send(Order(order_id=number, body=body))
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            message = f"the session's worker did not answer within {timeout:g} s"
            raise DaemonError(ErrorCode.TIMEOUT, message) from None
        finally:
            self.orders.pop(number, None)

    def tell(self, body: AnyOrder) -> None:
        """Give an order whose answer nobody waits for."""
        if self.peer is not None:
            self.peer.send(Order(order_id=next(_numbers), body=body))

    def resolve(self, number: int, outcome: OrderDone | DaemonError) -> None:
        """The worker's answer to an order; a late one is nobody's any more."""
        future = self.orders.get(number)
        if future is None or future.done():
            return
        if isinstance(outcome, DaemonError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def disconnect(self) -> None:
        """The link is gone: whoever waits for an order is told."""
        self.peer = None
        self.ready.clear()
        for future in self.orders.values():
            if not future.done():
                message = "the session's worker went away"
                future.set_exception(DaemonError(ErrorCode.UNAVAILABLE, message))


class PoolEvents(Protocol):
    """Who is told about workers."""

    def covered(self, tree: Tree) -> None:
        """The state of a tree's worker changed."""
        ...

    def greeting(self, tree: Tree) -> None:
        """A worker is about to be welcomed: what it must know before."""
        ...

    def greeted(self, tree: Tree, hello: WorkerHello) -> None:
        """A worker registered, with full facts."""
        ...

    def heard(self, tree: Tree, message: FromPeer) -> None:
        """Facts, events and asides of a worker."""
        ...

    def crashed(self, tree: Tree) -> None:
        """A worker died; it may come again."""
        ...

    async def gone(self, tree: Tree) -> None:
        """A tree has no worker any more: settle what it left, before anybody may start another."""
        ...
