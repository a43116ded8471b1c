"""Every message between a client and the daemon, as msgspec Structs (spec 07.2)."""

from __future__ import annotations

from daemon_client.protocol import base, commands, replies, transcript
from daemon_client.protocol.base import (
    OLDEST_PROTOCOL,
    PROTOCOL_VERSION,
    Closing,
    Failure,
    Hello,
    Message,
    Welcome,
    WireError,
)
from daemon_client.protocol.commands import AnyCommand, Command, Request
from daemon_client.protocol.replies import (
    AnyResult,
    DaemonClosing,
    Recording,
    Reply,
    Result,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
    SessionChunk,
    SessionGone,
    SessionState,
)

FromClient = Hello | Request
FromDaemon = (
    Welcome | Reply | Failure | Closing | RosterBegin | RosterChunk | RosterEnd | RosterDelta
    | SessionChunk | SessionState | SessionGone | Recording | DaemonClosing
)  # fmt: skip

__all__ = [
    "OLDEST_PROTOCOL",
    "PROTOCOL_VERSION",
    "AnyCommand",
    "AnyResult",
    "Closing",
    "Command",
    "DaemonClosing",
    "Failure",
    "FromClient",
    "FromDaemon",
    "Hello",
    "Message",
    "Recording",
    "Reply",
    "Request",
    "Result",
    "RosterBegin",
    "RosterChunk",
    "RosterDelta",
    "RosterEnd",
    "SessionChunk",
    "SessionGone",
    "SessionState",
    "Welcome",
    "WireError",
    "base",
    "commands",
    "replies",
    "transcript",
]
