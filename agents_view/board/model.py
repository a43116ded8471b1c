"""The board's model: the mirror's rows and what a person chose to see, as a flat list of lines.

Pure, and fast where it matters: a change that moves no line rebuilds nothing (R22).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from agents_view.board.filtering import Predicate, parse_filter
from agents_view.board.forest import Forest
from agents_view.board.item import Item, item_of, spawn_key
from agents_view.board.selection import survivor
from agents_view.board.upcoming import Upcoming
from agents_view.board.welcome import lesson
from daemon_client.roster import RosterRow
from daemon_client.status import SECTIONS, Section

LineKind = Literal["heading", "session", "summary", "nothing", "lesson", "blank"]


class BoardLine(NamedTuple):
    """One line of the list. `key` is stable over every rebuild: the selection is a key (R40)."""

    kind: LineKind
    key: str
    session_id: str = ""
    section: Section = "running"
    depth: int = 0
    guide: str = ""

    @property
    def selectable(self) -> bool:
        return self.kind in ("session", "summary")


class Counts(NamedTuple):
    """What the header says; the three sections are counted from the very lines shown (R23)."""

    running: int = 0
    idle: int = 0
    inactive: int = 0
    need_you: int = 0
    unread: int = 0

    def of(self, section: Section) -> int:
        return getattr(self, section)


_BLANK: Final = "blank"
_TEACHING: Final = 24


class BoardModel:
    """Rows in, lines out."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.expanded: set[str] = set()
        self.complete = False
        """Whether a whole roster was received: before that nobody may say that there is none."""
        self.upcoming = Upcoming()
        self.show_archived = False
        self.airy = True
        """Blank lines before headings: where there is room (look.md 4)."""
        self.height = 24
        """Lines of the terminal: an empty board is airy earlier, it has little to show."""
        self.installed: tuple[str, ...] = ()
        """Agents found on this machine, for the empty board."""
        self.lines: list[BoardLine] = []
        self.counts = Counts()
        self.position: dict[str, int] = {}
        self._filter_text = ""
        self._filter: Predicate | None = None
        self._forest = Forest({})
        self._whole = self._forest
        """The same without the filter: how many there are does not depend on what is shown."""
        self._need_you: set[str] = set()
        self._unread: set[str] = set()

    # rows

    def replace(self, rows: Iterable[RosterRow]) -> None:
        """A whole new roster."""
        self.items = {row.session_id: item_of(row) for row in rows}
        self._need_you = {k for k, i in self.items.items() if i.row.waiting is not None}
        self._unread = {k for k, i in self.items.items() if i.row.unread and not i.row.archived}
        self.upcoming.clear()
        for item in self.items.values():
            self.upcoming.take(item.row)
        self.rebuild()

    def update(self, changed: Iterable[RosterRow], removed: Iterable[str]) -> bool:
        """Take changes over; True if lines moved (then they are rebuilt)."""
        moved = False
        for key in removed:
            moved |= self.items.pop(key, None) is not None
            self._need_you.discard(key)
            self._unread.discard(key)
            self.upcoming.drop(key)
        for row in changed:
            key, fresh = row.session_id, item_of(row)
            before = self.items.get(key)
            self.items[key] = fresh
            moved |= before is None or before.place != fresh.place
            moved = moved or self._lets_through(before) != self._lets_through(fresh)
            self.upcoming.take(row)
            (self._need_you.add if row.waiting is not None else self._need_you.discard)(key)
            new = row.unread and not row.archived
            (self._unread.add if new else self._unread.discard)(key)
        if moved:
            self.rebuild()
        else:
            self._count(self.counts)
        return moved

    def _lets_through(self, item: Item | None) -> bool:
        return self._filter is None or (item is not None and self._filter(item.row))

    # what a person chose

    @property
    def filter_text(self) -> str:
        return self._filter_text

    def set_filter(self, text: str) -> None:
        """Show only what matches, and the ancestors of that."""
        self._filter_text = text
        self._filter = parse_filter(text)
        self.rebuild()

    def set_expanded(self, session_id: str, expanded: bool) -> None:
        """Unfold or fold the children of a session (R30)."""
        (self.expanded.add if expanded else self.expanded.discard)(session_id)
        self.rebuild()

    def fold_all(self) -> None:
        self.expanded.clear()
        self.rebuild()

    # asking

    def item_at(self, index: int) -> Item | None:
        """The session of a line: its own, or for a summary the parent."""
        if not 0 <= index < len(self.lines):
            return None
        return self.items.get(self.lines[index].session_id)

    def has_children(self, session_id: str) -> bool:
        return bool(self._forest.children.get(session_id))

    def child_count(self, session_id: str) -> int:
        """All descendants, filtered or not (R33)."""
        return len(self._whole.below(session_id))

    def waiting(self) -> list[str]:
        """Who needs a person, the longest wait first."""
        return sorted(self._need_you, key=lambda key: self._since(key))

    def _since(self, key: str) -> int:
        waiting = self.items[key].row.waiting
        return waiting.since_ms if waiting else 0

    def reveal(self, session_id: str) -> None:
        """Unfold the ancestors of a session, so that it has a line."""
        item = self.items.get(session_id)
        seen: set[str] = set()
        while item is not None and item.row.parent_id and item.row.parent_id not in seen:
            seen.add(item.row.parent_id)
            item = self.items.get(item.row.parent_id)
        if not seen <= self.expanded:
            self.expanded |= seen & self.items.keys()
            self.rebuild()

    def section_start(self, section: Section) -> str | None:
        """The key of a section's first row."""
        for line in self.lines:
            if line.section == section and line.kind == "session":
                return line.key
        return None

    def nearest(self, key: str, before: Sequence[BoardLine], index: int) -> str | None:
        """The selection after a rebuild; `before` are the lines as they were shown (R40)."""
        kept = survivor(key, before, index, self.position, self.items)
        return kept or next((line.key for line in self.lines if line.selectable), None)

    # building

    def rebuild(self) -> None:
        """All lines anew."""
        everything = self._unarchived()
        self._whole = self._forest = Forest(everything)
        if self._filter is not None:
            self._forest = Forest(self._filtered(everything, self._filter))
        airy = self.airy or (not self.items and self.height >= _TEACHING)
        groups: dict[Section, list[Item]] = {section: [] for section in SECTIONS}
        for root in self._forest.roots:
            groups[root.section].append(root)
        lines: list[BoardLine] = []
        for section in SECTIONS:
            roots = groups[section]
            roots.sort(key=lambda item: item.key)
            if airy:
                lines.append(BoardLine("blank", f"{_BLANK}:{section}"))
            lines.append(BoardLine("heading", f"heading:{section}", section=section))
            for root in roots:
                self._add_tree(lines, root, section)
            if not roots:
                lines.append(BoardLine("nothing", f"nothing:{section}", section=section))
        if not self.items and self.complete:
            self._add_lesson(lines)
        self.lines = lines
        self.position = {line.key: index for index, line in enumerate(lines)}
        self._count(Counts(*(len(groups[section]) for section in SECTIONS)))

    def _add_lesson(self, lines: list[BoardLine]) -> None:
        """An empty board says what to do; `session_id` carries the number of the line."""
        lines.append(BoardLine("blank", f"{_BLANK}:lesson"))
        numbers = map(str, range(len(lesson(self.installed))))
        lines.extend(BoardLine("lesson", f"lesson:{number}", number) for number in numbers)

    def _count(self, counts: Counts) -> None:
        need = sum(1 for key in self._need_you if not self.items[key].row.archived)
        self.counts = counts._replace(need_you=need, unread=len(self._unread))

    def _unarchived(self) -> dict[str, Item]:
        """What the archive switch lets through."""
        if self.show_archived:
            return self.items
        return {key: item for key, item in self.items.items() if not item.row.archived}

    def _filtered(self, items: dict[str, Item], matches: Predicate) -> dict[str, Item]:
        """What matches, with all its ancestors (2.6)."""
        kept: dict[str, Item] = {}
        for key, item in items.items():
            if key not in kept and matches(item.row):
                current: Item | None = item
                while current is not None and current.row.session_id not in kept:
                    kept[current.row.session_id] = current
                    current = items.get(current.row.parent_id or "")
        return kept

    def _add_tree(self, lines: list[BoardLine], root: Item, section: Section) -> None:
        key = root.row.session_id
        lines.append(BoardLine("session", key, key, section))
        if self._forest.children.get(key):
            self._add_children(lines, key, section, 1, "")

    def _add_children(
        self, lines: list[BoardLine], parent: str, section: Section, depth: int, guide: str
    ) -> None:
        """The summary line, and behind it the children if they are unfolded (or filtered for)."""
        lines.append(BoardLine("summary", f"below:{parent}", parent, section, depth, guide))
        if parent not in self.expanded and self._filter is None:
            return
        children = sorted(self._forest.children[parent], key=spawn_key)
        for number, child in enumerate(children):
            key = child.row.session_id
            last = number == len(children) - 1
            mark = guide + ("└ " if last else "├ ")
            lines.append(BoardLine("session", key, key, section, depth, mark))
            if depth < 32 and self._forest.children.get(key):
                rest = guide + ("  " if last else "│ ")
                self._add_children(lines, key, section, depth + 1, rest)
