"""One lasting connection to the daemon: hello, requests, reconnect, and what the daemon pushes.

A request survives a lost connection: it is sent again under the same id, and the daemon returns
the first outcome (spec 07.2). Use everything here on the loop that entered the connection.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import uuid
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from daemon_client.errors import DaemonError, ErrorCode, FrameError
from daemon_client.framing import Codec, FrameLink
from daemon_client.ids import new_id
from daemon_client.protocol import (
    PROTOCOL_VERSION,
    AnyCommand,
    AnyResult,
    Closing,
    DaemonClosing,
    Failure,
    FromDaemon,
    Hello,
    Reply,
    Request,
    Welcome,
)
from daemon_client.version import VERSION


class ClientLimits(msgspec.Struct, kw_only=True, frozen=True):
    """Bounds of the client's side, in seconds."""

    connect: float = 5.0
    hello: float = 5.0
    request: float = 60.0
    retry_first: float = 0.1
    retry_most: float = 2.0


class Link(StrEnum):
    """How the connection stands; `CLOSED` is for good."""

    CONNECTING = "connecting"
    UP = "up"
    RESTARTING = "restarting"
    CLOSED = "closed"


class LinkState(msgspec.Struct, kw_only=True, frozen=True):
    """`reason` says why it is not up, in a sentence for people."""

    link: Link
    reason: str = ""
    welcome: Welcome | None = None


Pushed = FromDaemon
"""What listeners get: everything the daemon sends that is no answer."""

_STOPPED: Final = "the daemon was stopped"
_CLIENT_ID: Final = uuid.uuid4().hex
"""One per process, kept over reconnects."""


def product_version() -> str:
    """The version of this side, as both ends tell each other."""
    return VERSION


def peer_uid(sock: socket.socket) -> int | None:
    """The uid at the other end of a unix socket, or None where the platform does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", raw)[1]


class Connection:
    """Keeps one link to the daemon at `socket_path` alive until closed.

    `revive` is awaited before each reconnect; it may start a daemon, or raise `DaemonError` to
    say why none can be had (tried again later, unless the versions do not fit). A daemon that was
    stopped on purpose is not revived before the next request.
    """

    def __init__(
        self,
        socket_path: Path,
        *,
        revive: Callable[[], Awaitable[None]] | None = None,
        limits: ClientLimits | None = None,
    ) -> None:
        self._path = socket_path
        self._revive = revive
        self.limits = limits or ClientLimits()
        self._codec: Codec[FromDaemon] = Codec(FromDaemon)
        self._link: FrameLink | None = None
        self._waiting: dict[str, tuple[Request, asyncio.Future[AnyResult]]] = {}
        self._listeners: list[Callable[[Pushed], None]] = []
        self._link_listeners: list[Callable[[LinkState], None]] = []
        self._on_up: list[Callable[[], None]] = []
        self._lost = asyncio.Event()
        self._welcome: asyncio.Future[Welcome] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopped = False
        self.state = LinkState(link=Link.CONNECTING)

    # life

    async def open(self) -> Welcome:
        """Connect once. Raises `DaemonError` (unavailable, incompatible, refused)."""
        welcome = await self._connect()
        self._keeper = asyncio.create_task(self._keep(), name="daemon-connection")
        return welcome

    def open_in_background(self) -> None:
        """Connect and go on trying; `state` and the link listeners tell how it stands."""
        self._lost.set()
        self._keeper = asyncio.create_task(self._keep(), name="daemon-connection")

    async def close(self) -> None:
        """End the connection; requests under way fail with `unavailable`."""
        if self._keeper is not None:
            self._keeper.cancel()
            # not `suppress`: it would swallow a cancellation of our caller, who then never ends
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._link is not None:
            self._link.close()
        self._fail_all(DaemonError(ErrorCode.UNAVAILABLE, "the connection was closed"))
        self._set_state(LinkState(link=Link.CLOSED))

    # use

    async def request(
        self,
        command: AnyCommand,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> AnyResult:
        """Send a command and wait for its outcome. Raises `DaemonError`.

        `timeout` is in seconds (`limits.request` if not given); running out of it says nothing
        about the outcome, so the error names that.
        """
        if self.state.link is Link.CLOSED:
            raise DaemonError(ErrorCode.UNAVAILABLE, "the connection was closed")
        request = Request(request_id=request_id or new_id(), body=command)
        future: asyncio.Future[AnyResult] = asyncio.get_running_loop().create_future()
        self._waiting[request.request_id] = (request, future)
        self._stopped = False
        try:
            if self.state.link is Link.UP:
                self._send(request)
            async with asyncio.timeout(timeout or self.limits.request):
                return await future
        except TimeoutError:
            name = type(command).__name__.lower()
            message = f"no answer to {name} yet; it may still be carried out"
            raise DaemonError(ErrorCode.TIMEOUT, message) from None
        finally:
            self._waiting.pop(request.request_id, None)

    def tell(self, command: AnyCommand) -> None:
        """Send a command whose answer nobody waits for; lost if the link is down."""
        self._send(Request(request_id=new_id(), body=command))

    def on_push(self, listener: Callable[[Pushed], None]) -> Callable[[], None]:
        """Call `listener` with everything pushed; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_link(self, listener: Callable[[LinkState], None]) -> Callable[[], None]:
        """Call `listener` whenever the link changes; the returned function ends that."""
        self._link_listeners.append(listener)
        return lambda: self._link_listeners.remove(listener)

    def on_up(self, again: Callable[[], None]) -> Callable[[], None]:
        """Call `again` after each reconnect (not the first connect): subscribe anew there."""
        self._on_up.append(again)
        return lambda: self._on_up.remove(again)

    # inside

    async def _keep(self) -> None:
        delay = self.limits.retry_first
        while True:
            await self._lost.wait()
            try:
                if self._revive is not None and not self._stopped:
                    await self._revive()
                await self._connect()
            except DaemonError as error:
                if error.code is ErrorCode.INCOMPATIBLE:
                    self._fail_all(error)
                self._lost.set()
                link = Link.RESTARTING if self.state.link is Link.RESTARTING else Link.CONNECTING
                reason = _STOPPED if self._stopped else error.message
                self._set_state(LinkState(link=link, reason=reason))
                await asyncio.sleep(delay * random.uniform(0.8, 1.2))
                delay = min(delay * 2, self.limits.retry_most)
                continue
            delay = self.limits.retry_first
            for again in tuple(self._on_up):
                again()
            for request, _ in tuple(self._waiting.values()):
                self._send(request)

    async def _connect(self) -> Welcome:
        loop = asyncio.get_running_loop()
        self._welcome = loop.create_future()
        self._lost.clear()
        link = FrameLink(self._on_frame, self._on_lost, self._on_garbage)
        try:
            async with asyncio.timeout(self.limits.connect):
                await loop.create_unix_connection(lambda: link, str(self._path))
        except OSError as error:  # a TimeoutError is one, without a text
            reason = error.strerror or "no answer"
            message = f"no daemon at {self._path}: {reason.lower()}"
            raise DaemonError(ErrorCode.UNAVAILABLE, message) from None
        self._link = link
        self._check_peer(link)
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            product=product_version(),
            pid=os.getpid(),
            client_id=_CLIENT_ID,
            session_id=os.environ.get("AGENTS_VIEW_SESSION_ID"),
        )
        link.send(self._codec.encode(hello))
        try:
            async with asyncio.timeout(self.limits.hello):
                welcome = await self._welcome
        except TimeoutError:
            link.abort()
            message = f"the daemon at {self._path} does not answer"
            raise DaemonError(ErrorCode.UNAVAILABLE, message) from None
        self._set_state(LinkState(link=Link.UP, welcome=welcome))
        return welcome

    def _check_peer(self, link: FrameLink) -> None:
        sock = link.transport.get_extra_info("socket") if link.transport else None
        uid = peer_uid(sock) if sock is not None else None
        if uid is not None and uid != os.getuid():
            link.abort()
            message = f"the daemon at {self._path} runs as uid {uid}, not as us"
            raise DaemonError(ErrorCode.REFUSED, message)

    def _send(self, request: Request) -> None:
        if self._link is None:
            return
        try:
            self._link.send(self._codec.encode(request))
        except FrameError as error:
            self._resolve(request.request_id, DaemonError(ErrorCode.INVALID, str(error)))

    def _on_frame(self, payload: bytes) -> None:
        message = self._codec.decode(payload)
        if isinstance(message, Reply):
            self._resolve(message.request_id, message.result)
        elif isinstance(message, Failure):
            error = message.error
            failure = DaemonError(error.code, error.message, error.detail)
            self._resolve(message.request_id, failure)
        elif isinstance(message, Welcome):
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(message)
        elif isinstance(message, Closing):
            error = message.error
            self._refused(DaemonError(error.code, error.message, error.detail))
        else:
            if isinstance(message, DaemonClosing):
                self._goodbye(message)
            for listener in tuple(self._listeners):
                listener(message)

    def _goodbye(self, message: DaemonClosing) -> None:
        """A daemon that somebody stopped stays stopped until something is asked of it."""
        if message.reason == "shutdown":
            self._stopped = True
            self._set_state(LinkState(link=Link.CONNECTING, reason=_STOPPED))
        else:
            self._set_state(LinkState(link=Link.RESTARTING, reason="daemon restarting"))

    def _resolve(self, request_id: str, outcome: AnyResult | DaemonError) -> None:
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting[1].done():
            return
        if isinstance(outcome, DaemonError):
            waiting[1].set_exception(outcome)
        else:
            waiting[1].set_result(outcome)

    def _refused(self, error: DaemonError) -> None:
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(error)
        if self._link is not None:
            self._link.close()

    def _on_garbage(self, error: FrameError) -> None:
        reason = f"the daemon sent something unreadable: {error}"
        self._refused(DaemonError(ErrorCode.INCOMPATIBLE, reason))

    def _on_lost(self) -> None:
        self._link = None
        if self._welcome is not None and not self._welcome.done():
            message = "the daemon closed the connection before it answered"
            self._welcome.set_exception(DaemonError(ErrorCode.UNAVAILABLE, message))
            # nobody may be waiting any more
            self._welcome.exception()
        if self.state.link is Link.UP:
            self._set_state(LinkState(link=Link.CONNECTING, reason="the daemon went away"))
        elif self.state.link is Link.CLOSED:
            return
        if self._stopped:
            # nobody revives it, so nobody will answer
            self._fail_all(DaemonError(ErrorCode.UNAVAILABLE, f"{_STOPPED} before it answered"))
        self._lost.set()

    def _fail_all(self, error: DaemonError) -> None:
        for _, future in tuple(self._waiting.values()):
            if not future.done():
                future.set_exception(error)

    def _set_state(self, state: LinkState) -> None:
        if state == self.state:
            return
        self.state = state
        for listener in tuple(self._link_listeners):
            listener(state)
