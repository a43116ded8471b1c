"""Trees of sessions from a flat roster (R30–R33). Pure.

A child whose parent is unknown stands as a root, and so does the first of a cycle: nothing that
comes over the wire can hang the board.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from agents_view.board.item import Item


class Forest:
    """Roots, and children by parent id, among the items given."""

    def __init__(self, items: Mapping[str, Item]) -> None:
        self.children: defaultdict[str, list[Item]] = defaultdict(list)
        self.roots: list[Item] = []
        orphans: list[Item] = []
        for item in items.values():
            parent = item.row.parent_id
            if parent is None or parent == item.row.session_id or parent not in items:
                self.roots.append(item)
            else:
                self.children[parent].append(item)
                orphans.append(item)
        if orphans:
            self._cut_cycles(orphans)

    def _cut_cycles(self, nested: list[Item]) -> None:
        """Whatever no root reaches is a cycle: its first member becomes a root."""
        reached: set[str] = set()
        for root in self.roots:
            if root.row.session_id in self.children:
                self._reach(root.row.session_id, reached)
        for item in nested:
            key = item.row.session_id
            if key not in reached:
                self.children[item.row.parent_id or ""].remove(item)
                self.roots.append(item)
                self._reach(key, reached)

    def _reach(self, key: str, reached: set[str]) -> None:
        frontier = [key]
        while frontier:
            current = frontier.pop()
            if current not in reached:
                reached.add(current)
                frontier += [c.row.session_id for c in self.children.get(current, ())]

    def below(self, key: str) -> list[Item]:
        """All descendants, depth first."""
        found: list[Item] = []
        frontier = list(self.children.get(key, ()))
        while frontier:
            item = frontier.pop()
            found.append(item)
            frontier.extend(self.children.get(item.row.session_id, ()))
        return found
