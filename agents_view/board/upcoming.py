"""What fires next, over all sessions: for the header (look.md 4). Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from daemon_client.roster import RosterRow, Schedule


class Firing(NamedTuple):
    """The soonest firing of a session's own armed jobs (ms UTC)."""

    at_ms: int
    session_id: str
    kind: Literal["heartbeat", "cron"]


class Upcoming:
    """The soonest of all; the minimum is looked for again only after a change that may move it."""

    def __init__(self) -> None:
        self._firings: dict[str, Firing] = {}
        self._soonest: Firing | None = None
        self._known = True

    def take(self, row: RosterRow) -> None:
        """A row is new or changed."""
        firing = None if row.archived else _next_of(row)
        if self._firings.get(row.session_id) == firing:
            return
        self._known = False
        if firing is None:
            self._firings.pop(row.session_id, None)
        else:
            self._firings[row.session_id] = firing

    def drop(self, session_id: str) -> None:
        """A row is gone."""
        if self._firings.pop(session_id, None) is not None:
            self._known = False

    def clear(self) -> None:
        """A whole new roster begins."""
        self._firings.clear()
        self._known = False

    @property
    def soonest(self) -> Firing | None:
        """None if nothing is armed, or no time is known."""
        if not self._known:
            self._soonest = min(self._firings.values(), default=None)
            self._known = True
        return self._soonest


def _next_of(row: RosterRow) -> Firing | None:
    beat, cron = _at(row.heartbeats), _at(row.crons)
    if cron is not None and (beat is None or cron < beat):
        return Firing(cron, row.session_id, "cron")
    return None if beat is None else Firing(beat, row.session_id, "heartbeat")


def _at(jobs: Schedule) -> int | None:
    return jobs.next_at_ms if jobs.active else None
