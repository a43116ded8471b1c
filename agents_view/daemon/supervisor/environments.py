"""The environment each session's person has, in memory only (A9)."""

from __future__ import annotations

from typing import Final

from daemon_client.protocol.commands import Environ
from daemon_client.roster import SessionId

_ON_DISK: Final = ("PATH", "LANG", "SHELL", "VIRTUAL_ENV")


def may_be_stored(environ: Environ) -> Environ:
    """The few values that are no secrets."""
    return {
        name: value for name, value in environ.items() if name in _ON_DISK or name.startswith("LC_")
    }


def of_person(environ: Environ) -> Environ:
    """A person's environment without our own variables, which would mislead an agent."""
    return {name: value for name, value in environ.items() if not name.startswith("AGENTS_VIEW_")}


class Environments:
    """Latest environment of each session; lost with the supervisor, kept by its worker."""

    def __init__(self) -> None:
        self._known: dict[SessionId, Environ] = {}

    def remember(self, session_id: SessionId, environ: Environ) -> None:
        """A person created, prompted or attached."""
        if environ:
            self._known[session_id] = of_person(environ)

    def inherit(self, session_id: SessionId, parent_id: SessionId) -> None:
        """A child spawned by an agent sees what its parent sees."""
        if parent_id in self._known:
            self._known[session_id] = self._known[parent_id]

    def of(self, session_id: SessionId) -> Environ:
        """Empty if nobody has told since this supervisor started."""
        return self._known.get(session_id, {})

    def forget(self, session_id: SessionId) -> None:
        self._known.pop(session_id, None)
