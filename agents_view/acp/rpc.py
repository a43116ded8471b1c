"""JSON-RPC 2.0 over newline-delimited JSON, for both sides of an ACP connection (A6, A11).

Ours, because status truth depends on it: order is kept, nothing is dropped, noise is no end, and
every wait has a bound. Faults of the other side become values handed to the owner, not exceptions
in a reader task.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

log = logging.getLogger(__name__)

_NEWLINE: Final = b"\n"
_MOST_NOISE: Final = 1 << 16
"""Bytes of a line of noise that are handed on."""


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
    code: Any = INTERNAL_ERROR
    message: Any = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


_NULL: Final = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    """Any message. `id` absent: a notification; `method` absent: a response.

    What an agent may misname is raw: a turn must not hang because an error is a bare string.
    """

    method: str | None = None
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = _NULL
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw = _NULL


class _Outgoing(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: int | msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Struct | msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Struct | msgspec.Raw | msgspec.UnsetType | None = msgspec.UNSET
    error: msgspec.Struct | msgspec.UnsetType = msgspec.UNSET


class _OutgoingError(msgspec.Struct):
    code: int
    message: str


class IncomingRequest:
    """A request of the other side; answer it once, now or much later."""

    def __init__(self, peer: RpcPeer, identifier: msgspec.Raw, params: bytes) -> None:
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


class _Pending:
    def __init__(self, future: asyncio.Future[bytes], answered: Callable[[], None] | None) -> None:
        self.future = future
        self.answered = answered


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
        self._pending: dict[int, _Pending] = {}
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed: str | None = None

    # talking

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        timeout: float | None,
        answered: Callable[[], None] | None = None,
    ) -> bytes:
        """Send a request; the raw JSON of its result.

        `timeout` in seconds (None: as long as it takes). `answered` is called when the answer is
        read: after everything before it in the stream, and before anything behind it. Raises
        `RpcError`, `RpcClosed`, `TimeoutError`.
        """
        if self._closed is not None:
            raise RpcClosed(self._closed)
        number = next(self._numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[number] = _Pending(future, answered)
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

    @property
    def backlog(self) -> int:
        """Messages that the other side has not taken yet."""
        return self._outbox.qsize()

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
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(RpcClosed(reason))
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
                # the other side is gone; reading will tell
                log.debug("a message could not be sent")
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
                if size + len(line) > self._max_line:
                    return self._too_long()
                parts.append(line)
                self._line(b"".join(parts))
                parts, size = [], 0
            if rest:
                parts.append(rest)
                size += len(rest)
            if size > self._max_line:
                return self._too_long()

    def _too_long(self) -> str:
        return f"it printed a line of more than {self._max_line} bytes"

    def _last(self, rest: bytes) -> None:
        if rest.strip():
            self._line(rest)

    def _line(self, line: bytes) -> None:
        """Dispatch one line. A fault of ours in doing so is logged and ends nothing."""
        line = line.strip()
        if not line:
            return
        try:
            message = self._decode(line)
            self._dispatch(message, line)
        except RecursionError:
            self._handler.on_noise("a message that is nested too deeply")
        except msgspec.MsgspecError:
            self._noise(line)
        except Exception:
            log.exception("a message could not be handled")

    def _noise(self, line: bytes) -> None:
        text = line[:_MOST_NOISE].decode("utf-8", "replace")
        more = len(line) - _MOST_NOISE
        self._handler.on_noise(f"{text}… ({more} bytes more)" if more > 0 else text)

    def _decode(self, line: bytes) -> _Envelope:
        fit = _repaired(line)
        message = self._decoder.decode(fit)
        if fit is not line:
            self._handler.on_noise("invalid UTF-8 in a message was replaced")
        return message

    def _dispatch(self, message: _Envelope, line: bytes) -> None:
        if message.method is None:
            if not self._respond(message):
                self._noise(line)
        elif isinstance(message.id, msgspec.UnsetType):
            self._handler.on_notification(message.method, bytes(message.params))
        else:
            identifier = msgspec.Raw(bytes(message.id))
            request = IncomingRequest(self, identifier, bytes(message.params))
            self._handler.on_request(message.method, request)

    def _respond(self, message: _Envelope) -> bool:
        """Resolve the request this answers."""
        is_error = bytes(message.error) != b"null"
        pending = self._pending.get(_number(message.id))
        if pending is None:
            # a late answer to something given up, or no message at all
            return is_error or message.result is not msgspec.UNSET
        if pending.future.done():
            return True
        if is_error:
            pending.future.set_exception(_error_of(bytes(message.error)))
        else:
            result = message.result
            raw = b"null" if isinstance(result, msgspec.UnsetType) else bytes(result)
            pending.future.set_result(raw)
        if pending.answered is not None:
            pending.answered()
        return True


def _number(identifier: msgspec.Raw | msgspec.UnsetType) -> int:
    """Our number in an id; some agents send it back as text, or as 1.0. -1 if it is none."""
    if isinstance(identifier, msgspec.UnsetType):
        return -1
    try:
        return int(float(bytes(identifier).strip(b'"')))
    except (ValueError, OverflowError):
        return -1


def _error_of(raw: bytes) -> RpcError:
    """An error object, or whatever was sent in its place."""
    try:
        error = msgspec.json.decode(raw, type=_ErrorObject)
    except msgspec.MsgspecError:
        return RpcError(INTERNAL_ERROR, raw.decode("utf-8", "replace")[:_MOST_NOISE].strip('"'))
    code = error.code if isinstance(error.code, int) else INTERNAL_ERROR
    message = error.message if isinstance(error.message, str) else str(error.message)
    data = bytes(error.data).decode("utf-8", "replace")
    return RpcError(code, message, "" if data == "null" else data)


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair, which is fine
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"  # half of one; any other escape
)


def _repaired(line: bytes) -> bytes:
    """The line itself if its text is sound, else one without what no text may hold (A6).

    Invalid UTF-8, and halves of surrogate pairs: programs that cut their strings by UTF-16 units
    do send those.
    """
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            line = line.decode("utf-8", "replace").encode()
    if _SURROGATE.search(line) is None:
        return line
    fixed = _ESCAPE.sub(lambda found: rb"\ufffd" if found.group(1) else found.group(), line)
    return line if fixed == line else fixed
