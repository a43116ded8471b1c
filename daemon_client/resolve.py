"""Which session somebody means: full id, exact name, or the end of an id (spec 01). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.roster import RosterRow, SessionId
from daemon_client.text import clean

_SHORTEST: Final = 4
_ID_LENGTH: Final = 32


def resolve(text: str, rows: Iterable[RosterRow]) -> SessionId:
    """The id of the session that `text` names.

    Tried in this order: id, exact name, suffix of at least four characters. Raises
    `DaemonError`: `not_found`, or `ambiguous` with the candidates in `detail`.
    """
    known = list(rows)
    if any(row.session_id == text for row in known):
        return text
    named = [row for row in known if row.name == text]
    found = named or [
        row for row in known if len(text) >= _SHORTEST and row.session_id.endswith(text.lower())
    ]
    if not found:
        hint = "" if len(text) >= _SHORTEST else " (the end of an id needs four characters)"
        raise DaemonError(ErrorCode.NOT_FOUND, f"no session {clean(text, 80)!r}{hint}")
    if len(found) > 1:
        candidates = tuple(f"{r.session_id}  {clean(r.name or r.first_message, 60)}" for r in found)
        message = f"{clean(text, 80)!r} means {len(found)} sessions"
        raise DaemonError(ErrorCode.AMBIGUOUS, message, candidates)
    return found[0].session_id


def is_full_id(text: str) -> bool:
    """Whether it can only be an id: one in the trash is not in the roster, yet can be restored."""
    return len(text) == _ID_LENGTH and all(letter in "0123456789abcdef" for letter in text)
