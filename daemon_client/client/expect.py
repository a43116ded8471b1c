"""Narrow an answer to the result its command promises."""

from __future__ import annotations

from typing import TypeVar

from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import AnyResult

R = TypeVar("R")


def expect(kind: type[R], outcome: AnyResult) -> R:
    """`outcome` if it is a `kind`; a daemon that answers otherwise does not fit this client."""
    if isinstance(outcome, kind):
        return outcome
    message = f"the daemon answered {type(outcome).__name__} where {kind.__name__} was expected"
    raise DaemonError(ErrorCode.INCOMPATIBLE, message)
