"""Which line is selected after the lines changed (R40). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agents_view.board.item import Item

if TYPE_CHECKING:
    from agents_view.board.model import BoardLine


def survivor(
    key: str,
    before: Sequence[BoardLine],
    index: int,
    position: Mapping[str, int],
    items: Mapping[str, Item],
) -> str | None:
    """The same line, else the parent it was folded into, else its nearest neighbour.

    Neighbours are looked for among the lines as they stood (`before`, where it was at `index`), so
    that it does not matter how many others came or went with it; of two as near the lower one.
    """
    if key in position:
        return key
    line = before[index] if 0 <= index < len(before) and before[index].key == key else None
    if line is not None and (parent := _visible_parent(line.session_id, position, items)):
        return parent
    for distance in range(1, len(before) + 1):
        for near in (index + distance, index - distance):
            if 0 <= near < len(before) and before[near].selectable and before[near].key in position:
                return before[near].key
    return None


def _visible_parent(
    session_id: str, position: Mapping[str, int], items: Mapping[str, Item]
) -> str | None:
    seen: set[str] = set()
    item = items.get(session_id)
    while item is not None and item.row.session_id not in seen:
        key = item.row.session_id
        if key in position:
            return key
        seen.add(key)
        item = items.get(item.row.parent_id or "")
    return None
