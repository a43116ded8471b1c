"""Permission requests: parked until answered, for hours, with nobody attached (A5, A13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from agents_view.acp.client import PermissionAsked
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.ids import new_id
from daemon_client.protocol.replies import PendingRequest, PermissionOption
from daemon_client.roster import Waiting
from daemon_client.text import clean, clean_lines

_LONGEST: Final = 100_000
"""Characters of a command: it has to fit a frame, in any script."""

AnsweredBy = Literal["", "person", "policy", "cancel", "expiry"]


class Parked(msgspec.Struct, kw_only=True):
    """One open request."""

    asked: PermissionAsked
    request: PendingRequest


class Permissions:
    """The open requests of one session, oldest first."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._open: dict[str, Parked] = {}

    def park(self, asked: PermissionAsked, text: str, command: str, now_ms: int) -> PendingRequest:
        """Keep it until somebody answers; its id is ours."""
        request = PendingRequest(
            session_id=self._session_id,
            request_id=new_id(),
            kind="permission",
            text=clean(text, 400),
            since_ms=now_ms,
            command=_whole(command),
            options=tuple(
                PermissionOption(id=o.option_id, kind=o.kind, name=clean(o.name, 120))
                for o in asked.options
            ),
        )
        self._open[request.request_id] = Parked(asked=asked, request=request)
        return request

    @property
    def pending(self) -> tuple[PendingRequest, ...]:
        return tuple(parked.request for parked in self._open.values())

    @property
    def waiting(self) -> Waiting | None:
        """The oldest, as the row shows it."""
        for parked in self._open.values():
            request = parked.request
            return Waiting(
                kind="permission",
                since_ms=request.since_ms,
                text=clean(request.text, 200),
                request_id=request.request_id,
            )
        return None

    def answer(self, request_id: str, option_id: str) -> PermissionOption:
        """Answer one; the option that was chosen.

        Raises `DaemonError`: `conflict` for one that is answered or expired, `invalid` for an
        option that is not offered.
        """
        parked = self._open.get(request_id)
        if parked is None:
            raise DaemonError(ErrorCode.CONFLICT, "already answered, or expired")
        for option in parked.request.options:
            if option.id == option_id:
                del self._open[request_id]
                parked.asked.select(option_id)
                return option
        offered = tuple(f"{o.id} ({o.kind})" for o in parked.request.options)
        message = f"no such option: {clean(option_id, 80)}"
        raise DaemonError(ErrorCode.INVALID, message, offered)

    def cancel_all(self) -> list[PendingRequest]:
        """Answer every open request `cancelled`; without it some agents never ask again (A13)."""
        parked, self._open = list(self._open.values()), {}
        for one in parked:
            one.asked.cancel()
        return [one.request for one in parked]


def chosen_by_policy(asked: PermissionAsked, tool_kind: str, allowed: Iterable[str]) -> str | None:
    """The option a policy picks: `allow_once` by its kind, for an allowed kind of tool only.

    Never the first by position, never `allow_always` (A13).
    """
    if not tool_kind or tool_kind not in allowed:
        return None
    wanted: Literal["allow_once"] = "allow_once"
    return next((o.option_id for o in asked.options if o.kind == wanted), None)


def _whole(command: str) -> str:
    """The text to be allowed; one that no screen could show says what is missing of it."""
    more = len(command) - _LONGEST
    if more <= 0:
        return clean_lines(command)
    return f"{clean_lines(command[:_LONGEST])}\n… {more} more characters that do not fit here"
