"""One connection to the supervisor's socket: a client, or a worker once it has said so."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from agents_view.base.processes import Identity
from agents_view.daemon.policy.access import PERSON, Caller
from agents_view.daemon.wire import FromPeer
from daemon_client.errors import DaemonError, ErrorCode, FrameError
from daemon_client.framing import Codec, FrameLink
from daemon_client.protocol import Closing, WireError

_numbers = itertools.count(1)


class Peer:
    """The supervisor's end of a connection. `identity` is the process at the other end."""

    def __init__(self, link: FrameLink, identity: Identity | None) -> None:
        self.number = next(_numbers)
        self.link = link
        self.identity = identity
        self.caller: Caller = PERSON
        self.client_id = ""
        self.greeted = False
        self.worker_root: str | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.codec: Codec[FromPeer] = Codec(FromPeer)

    @property
    def connected(self) -> bool:
        return self.link.transport is not None

    def send(self, message: msgspec.Struct) -> None:
        """Queue a message. One too large for a frame closes the connection with that reason."""
        try:
            self.link.send(self.codec.encode(message))
        except FrameError as error:
            self.refuse(DaemonError(ErrorCode.INVALID, str(error)))

    def refuse(self, error: DaemonError) -> None:
        """Close the connection with a reason; nobody else notices."""
        self.link.send(self.codec.encode(Closing(error=wire_error(error))))
        self.link.close()


def wire_error(error: DaemonError) -> WireError:
    """An error as it travels."""
    return WireError(code=error.code, message=error.message, detail=error.detail)
