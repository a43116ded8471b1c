"""A connection that sends whatever bytes a test likes, and sees what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from daemon_client.errors import ErrorCode
from daemon_client.framing import Codec
from daemon_client.ids import new_id
from daemon_client.paths import paths_for
from daemon_client.protocol import (
    PROTOCOL_VERSION,
    AnyCommand,
    Closing,
    FromDaemon,
    Hello,
    Request,
    Welcome,
)

HELLO = Hello(protocol=PROTOCOL_VERSION, product="raw", pid=1, client_id="raw")


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class RawPeer:
    """One connection. `sizes` are those of the frames that came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._codec: Codec[FromDaemon] = Codec(FromDaemon)
        self.sizes: list[int] = []

    async def send(self, data: bytes | msgspec.Struct) -> None:
        """Bytes as they are, a message as a frame; a closed connection is no error."""
        try:
            whole = isinstance(data, bytes)
            self._writer.write(data if whole else self._codec.encode(data))
            await self._writer.drain()
        except ConnectionError:
            return

    async def ask(self, command: AnyCommand) -> None:
        await self.send(Request(request_id=new_id(), body=command))

    async def greet(self, hello: Hello = HELLO) -> Welcome:
        await self.send(hello)
        message = await self.read()
        assert isinstance(message, Welcome), message
        return message

    async def read(self, within: float = 15.0) -> msgspec.Struct | None:
        """The next message, None at the end."""
        try:
            async with asyncio.timeout(within):
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                payload = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self.sizes.append(size)
        return self._codec.decode(payload)

    async def until(self, kind: type) -> list[msgspec.Struct]:
        """Everything up to the first message of this kind."""
        got: list[msgspec.Struct] = []
        while (message := await self.read()) is not None:
            got.append(message)
            if isinstance(message, kind):
                return got
        raise AssertionError(f"the connection ended before a {kind.__name__}: {got[-3:]}")

    async def reason(self) -> tuple[ErrorCode, str] | None:
        """Why the daemon closed the connection; waits for its end."""
        why = None
        while (message := await self.read()) is not None:
            if isinstance(message, Closing):
                why = (message.error.code, message.error.message)
        return why

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


@asynccontextmanager
async def raw_peer(home: Path) -> AsyncIterator[RawPeer]:
    reader, writer = await asyncio.open_unix_connection(str(paths_for(home).socket))
    peer = RawPeer(reader, writer)
    try:
        yield peer
    finally:
        await peer.close()
