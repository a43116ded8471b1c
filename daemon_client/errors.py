"""The errors a client of the daemon can meet, with codes scripts can rely on (spec 07.2)."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why a request was not done. The texts are stable: scripts compare them."""

    NOT_FOUND = "not_found"
    AMBIGUOUS = "ambiguous"
    BUSY = "busy"
    UNCERTAIN = "uncertain"
    CONFLICT = "conflict"
    REFUSED = "refused"
    AGENT_FAILED = "agent_failed"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    INCOMPATIBLE = "incompatible"
    INVALID = "invalid"


class DaemonError(Exception):
    """A request that failed, or a daemon that cannot be reached.

    `code` is for programs, `message` is a sentence for people, `detail` holds what more is known
    (candidates of an ambiguous name, the last stderr lines of an agent, …), one fact a line.
    """

    def __init__(self, code: ErrorCode, message: str, detail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


class FrameError(Exception):
    """Bytes that are no frame of ours: oversize, truncated, garbage, or nested too deep."""
