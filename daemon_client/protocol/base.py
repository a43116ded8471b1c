"""Frames every connection knows: hello, request, reply, failure, goodbye (spec 07.2)."""

from __future__ import annotations

from typing import Final

import msgspec

from daemon_client.errors import ErrorCode

PROTOCOL_VERSION: Final = 1
OLDEST_PROTOCOL: Final = 1
"""The oldest version this side still speaks."""


class Message(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="type"):
    """Anything on the wire. Unknown fields are ignored, so that versions can differ by one."""


class Hello(Message, kw_only=True, frozen=True, tag="hello"):
    """First frame of a client. `client_id` is a UUID per process, kept over reconnects.

    `session_id` is the session this process believes to act for; it proves nothing (07.3).
    """

    protocol: int
    product: str
    pid: int
    client_id: str
    session_id: str | None = None
    capabilities: tuple[str, ...] = ()


class Welcome(Message, kw_only=True, frozen=True, tag="welcome"):
    """The daemon's answer to `hello`. `generation` names this life of the daemon."""

    protocol: int
    product: str
    pid: int
    generation: str
    capabilities: tuple[str, ...] = ()
    embedded: bool = False
    recording: str = ""


class WireError(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A `DaemonError` on the wire."""

    code: ErrorCode
    message: str
    detail: tuple[str, ...] = ()


class Failure(Message, kw_only=True, frozen=True, tag="failure"):
    """The request was not done."""

    request_id: str
    error: WireError


class Closing(Message, kw_only=True, frozen=True, tag="closing"):
    """The last frame of a connection, with the reason; the peer closes it."""

    error: WireError
