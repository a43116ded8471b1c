"""What the board derives from one row, once per change of that row. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from agents_view.board.steady import steady
from daemon_client.ids import short_id
from daemon_client.roster import RosterRow
from daemon_client.status import Section, section_of

_LAST: Final = 1 << 62

SortKey = tuple[int, int, int, str, str]


class Item(NamedTuple):
    """A row with what the board needs of it; `key` orders it inside its section (R21)."""

    row: RosterRow
    section: Section
    title: str
    key: SortKey

    @property
    def place(self) -> tuple[object, ...]:
        """What decides where a line stands: if it did not change, no line moves (R22)."""
        row = self.row
        return (self.section, self.key, row.parent_id, row.archived, bool(row.name))


def item_of(row: RosterRow) -> Item:
    """Derive everything about a row."""
    section = section_of(row)
    title = title_of(row)
    return Item(row, section, title, _key(row, section, title))


def title_of(row: RosterRow) -> str:
    """What people call it: name, else first message, else agent and the end of its id."""
    for text in (row.name, row.first_message):
        if text and (shown := steady(text, 300).strip()):
            return shown
    return f"{steady(row.agent, 40)} {short_id(row.session_id)}"


def spawn_key(item: Item) -> tuple[int, str, str]:
    """Children stand in the order they were spawned, whatever they do. Invalid times sort last."""
    created = item.row.created_at_ms
    return (created if created > 0 else _LAST, item.title, item.row.session_id)


def _newest_first(time_ms: int) -> int:
    """Invalid times sort last."""
    return -time_ms if time_ms > 0 else _LAST


def _key(row: RosterRow, section: Section, title: str) -> SortKey:
    """Three numbers, title, id in every section: siblings of different sections are compared."""
    created = _newest_first(row.created_at_ms)
    if section == "running":
        return (created, 0, 0, title, row.session_id)
    activity = _newest_first(row.last_activity_at_ms)
    if section == "idle":
        return (activity, created, 0, title, row.session_id)
    armed = row.tree_heartbeats.active or row.tree_crons.active
    return (0 if armed else 1, activity, created, title, row.session_id)
