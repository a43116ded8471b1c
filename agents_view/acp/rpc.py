"""JSON-RPC 2.0 over newline-delimited JSON, for both sides of an ACP connection (A6, A11).

Ours, because status truth depends on it: order is kept, nothing is dropped, noise is no end, and
every wait has a bound. Faults of the other side become values handed to the owner, not exceptions
in a reader task.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

_NEWLINE: Final = b"\n"


class RpcError(Exception):
    """The other side answered with an error; `code` and `data` as it gave them."""

    def __init__(self, code: int, message: str, data: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class RpcClosed(Exception):
    """The connection ended before the answer, with the reason."""


METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603


class _ErrorObject(msgspec.Struct):
    code: int = INTERNAL_ERROR
    message: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    """Any message. `id` absent: a notification; `method` absent: a response."""

    method: str | None = None
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: _ErrorObject | None = None


class _Outgoing(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Struct | msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Struct | msgspec.Raw | msgspec.UnsetType | None = msgspec.UNSET
    error: msgspec.Struct | msgspec.UnsetType = msgspec.UNSET


class _OutgoingError(msgspec.Struct):
    code: int
    message: str


class IncomingRequest:
    """A request of the other side; answer it once, now or much later."""

    def __init__(self, peer: RpcPeer, identifier: int | str | None, params: bytes) -> None:
        self._peer = peer
        self._id = identifier
        self.params = params
        self.answered = False

    def respond(self, result: msgspec.Struct | None) -> None:
        """Answer. A second answer is ignored."""
        if not self.answered:
            self.answered = True
            self._peer.post(_Outgoing(jsonrpc="2.0", id=self._id, result=result))

    def fail(self, code: int, message: str) -> None:
        """Answer with an error."""
        if not self.answered:
            self.answered = True
            error = _OutgoingError(code=code, message=message)
            self._peer.post(_Outgoing(jsonrpc="2.0", id=self._id, error=error))


class RpcHandler(Protocol):
    """Whoever owns the connection. Called in the order of arrival, one at a time."""

    def on_notification(self, method: str, params: bytes) -> None: ...

    def on_request(self, method: str, request: IncomingRequest) -> None: ...

    def on_noise(self, text: str) -> None:
        """A line that is no message: a banner, a log line, half a message."""
        ...

    def on_closed(self, reason: str) -> None:
        """No more will come: end of output, or a line that is too long."""
        ...


class RpcPeer:
    """One side of a connection. `read` returns chunks (empty: the end), `write` sends bytes."""

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        handler: RpcHandler,
        max_line: int,
    ) -> None:
        self._read = read
        self._write = write
        self._handler = handler
        self._max_line = max_line
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(_Envelope)
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed: str | None = None

    # talking

    async def request(self, method: str, params: msgspec.Struct, timeout: float | None) -> bytes:
        """Send a request; the raw JSON of its result.

        `timeout` in seconds (None: as long as it takes). Raises `RpcError`, `RpcClosed`,
        `TimeoutError`.
        """
        if self._closed is not None:
            raise RpcClosed(self._closed)
        number = next(self._numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        self.post(_Outgoing(jsonrpc="2.0", id=number, method=method, params=params))
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            self._pending.pop(number, None)

    def notify(self, method: str, params: msgspec.Struct) -> None:
        """Send a notification."""
        self.post(_Outgoing(jsonrpc="2.0", method=method, params=params))

    def post(self, message: msgspec.Struct) -> None:
        """Queue a message; the order of calls is the order on the wire."""
        if self._closed is None:
            self._outbox.put_nowait(self._encoder.encode(message) + _NEWLINE)

    # running

    async def run(self) -> None:
        """Read and write until the other side ends; returns after `on_closed`."""
        writer = asyncio.create_task(self._write_all(), name="rpc-write")
        try:
            reason = await self._read_all()
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        self.close(reason)

    def close(self, reason: str) -> None:
        """Nothing more is sent or expected; whoever waits is told why."""
        if self._closed is not None:
            return
        self._closed = reason
        for future in self._pending.values():
            if not future.done():
                future.set_exception(RpcClosed(reason))
        self._handler.on_closed(reason)

    async def drain(self) -> None:
        """Wait until everything posted was handed to the pipe."""
        await self._outbox.join()

    async def _write_all(self) -> None:
        while True:
            data = await self._outbox.get()
            try:
                await self._write(data)
            except (OSError, RuntimeError):
                pass  # the other side is gone; reading will tell
            finally:
                self._outbox.task_done()

    async def _read_all(self) -> str:
        """Split chunks into lines without ever copying a long line twice per chunk."""
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                chunk = await self._read()
            except OSError as error:
                return f"its output cannot be read: {error}"
            if not chunk:
                self._last(b"".join(parts))
                return "it closed its output"
            *lines, rest = chunk.split(_NEWLINE)
            for line in lines:
                parts.append(line)
                self._line(b"".join(parts))
                parts, size = [], 0
            if rest:
                parts.append(rest)
                size += len(rest)
            if size > self._max_line:
                return f"it printed a line of more than {self._max_line} bytes"

    def _last(self, rest: bytes) -> None:
        if rest.strip():
            self._line(rest)

    def _line(self, line: bytes) -> None:
        line = line.strip()
        if not line:
            return
        try:
            message = self._decode(line)
        except RecursionError:
            self._handler.on_noise("a message that is nested too deeply")
            return
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._handler.on_noise(line.decode("utf-8", "replace"))
            return
        self._dispatch(message, line)

    def _decode(self, line: bytes) -> _Envelope:
        try:
            return self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if isinstance(error, msgspec.ValidationError):
                raise
            # invalid UTF-8 inside a message: replaced, and said so
            repaired = line.decode("utf-8", "replace")
            message = self._decoder.decode(repaired)
            self._handler.on_noise("invalid UTF-8 in a message was replaced")
            return message

    def _dispatch(self, message: _Envelope, line: bytes) -> None:
        if message.method is None:
            if not self._respond(message):
                self._handler.on_noise(line.decode("utf-8", "replace"))
        elif message.id is msgspec.UNSET:
            self._handler.on_notification(message.method, bytes(message.params))
        else:
            request = IncomingRequest(self, message.id, bytes(message.params))
            self._handler.on_request(message.method, request)

    def _respond(self, message: _Envelope) -> bool:
        """Resolve the request this answers; ids come back as text from some agents."""
        identifier = message.id
        if isinstance(identifier, str) and identifier.isdecimal():
            identifier = int(identifier)
        future = self._pending.get(identifier) if isinstance(identifier, int) else None
        if future is None:
            # a late answer to something given up, or no message at all
            return message.error is not None or message.result is not msgspec.UNSET
        if future.done():
            return True
        if message.error is not None:
            error = message.error
            data = bytes(error.data).decode("utf-8", "replace")
            shown = "" if data == "null" else data
            future.set_exception(RpcError(error.code, error.message, shown))
        else:
            result = message.result
            future.set_result(b"null" if isinstance(result, msgspec.UnsetType) else bytes(result))
        return True
