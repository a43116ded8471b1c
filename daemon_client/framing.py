"""Length-prefixed MessagePack over a stream: four bytes big-endian, then the payload."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from daemon_client.errors import FrameError

MAX_FRAME: Final = 1 << 20
"""Bytes of payload. Larger things are chunked by the messages themselves."""

_HEADER: Final = 4

T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes any Struct and decodes the union `kind`. Not thread-safe: one per connection."""

    def __init__(self, kind: object) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)  # type: ignore[arg-type]

    def encode(self, message: msgspec.Struct) -> bytes:
        """A whole frame. Raises `FrameError` if the payload is larger than a frame may be."""
        payload = self._encoder.encode(message)
        if len(payload) > MAX_FRAME:
            raise FrameError(f"a {type(message).__name__} of {len(payload)} bytes fits no frame")
        return len(payload).to_bytes(_HEADER, "big") + payload

    def decode(self, payload: bytes) -> T:
        """The message in a payload. Raises `FrameError` with the reason for anything else."""
        try:
            return self._decoder.decode(payload)
        except RecursionError:
            raise FrameError("nested too deeply") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FrameError(str(error)) from None


class FrameLink(asyncio.Protocol):
    """One end of a connection: hands whole payloads to `on_frame`, the end to `on_lost`.

    `on_frame` may raise `FrameError`; like an oversize frame it is passed to `on_garbage`, and
    nothing more is read.
    """

    def __init__(
        self,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
        on_garbage: Callable[[FrameError], None],
        on_made: Callable[[FrameLink], None] | None = None,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_garbage = on_garbage
        self._on_made = on_made
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._dead = False
        self._partial_since: float | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._on_made is not None:
            self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if self._dead:
            return
        self._buffer += data
        try:
            self._take_frames()
        except FrameError as error:
            self._dead = True
            self._buffer.clear()
            self._on_garbage(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._drained.set()
        self._on_lost()

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    # ours

    @property
    def transport(self) -> asyncio.Transport | None:
        """None before the connection is made and after it is lost."""
        return self._transport

    @property
    def unsent(self) -> int:
        """Bytes written and not yet taken by the kernel."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def partial_for(self) -> float:
        """Seconds that an unfinished frame has been waiting for its rest; 0 if there is none."""
        return 0.0 if self._partial_since is None else time.monotonic() - self._partial_since

    def send(self, frame: bytes) -> None:
        """Queue a frame; dropped silently when the connection is gone (`on_lost` has told)."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    async def drain(self) -> None:
        """Wait until the peer reads again."""
        await self._drained.wait()

    def close(self) -> None:
        """End the connection after what is queued was sent."""
        self._dead = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._dead = True
        if self._transport is not None:
            self._transport.abort()

    def _take_frames(self) -> None:
        start, end = 0, len(self._buffer)
        while end - start >= _HEADER and not self._dead:
            size = int.from_bytes(self._buffer[start : start + _HEADER], "big")
            if size > MAX_FRAME:
                raise FrameError(f"a frame of {size} bytes is larger than {MAX_FRAME}")
            if end - start - _HEADER < size:
                break
            payload = bytes(self._buffer[start + _HEADER : start + _HEADER + size])
            start += _HEADER + size
            self._on_frame(payload)
        del self._buffer[:start]
        if not self._buffer:
            self._partial_since = None
        elif start or self._partial_since is None:
            self._partial_since = time.monotonic()
