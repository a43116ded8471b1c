"""A transcript as one long sheet of lines: what is in view, following the end, folding (03.2).

Only blocks in view are laid out. The others have an estimated height, which is put right when
they come into view; the line at the top of the view (or the end, while following) stays where it
is meanwhile. A new width costs one estimate per block and the layout of the view.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

import msgspec

from agents_view.board.ink import EMPTY, Line
from agents_view.board.transcript.draw import can_fold, is_silent
from agents_view.board.transcript.frame import FoldState, Frame
from agents_view.board.transcript.heights import Heights
from agents_view.board.transcript.layouts import Layouts
from daemon_client.blocks import Block, ToolBlock
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.transcript import TranscriptFolder


class SheetLine(msgspec.Struct, frozen=True):
    """A line in view, and the block it belongs to (0: beyond the end)."""

    line: Line
    key: int = 0


class Sheet:
    """Not thread-safe. Call `settle` before asking for lines."""

    def __init__(self) -> None:
        self.folder = TranscriptFolder()
        self._layouts = Layouts(self.folder)
        self.height = 24
        self.following = True
        self.cursor: int | None = None
        self._keys: list[int] = []
        self._index: dict[int, int] = {}
        self._heights = Heights()
        self._anchor = 0
        self._offset = 0
        self._left_at: tuple[int, int] | None = None

    # what is there

    @property
    def frame(self) -> Frame:
        """Width and time everything is laid out for."""
        return self._layouts.frame

    @frame.setter
    def frame(self, frame: Frame) -> None:
        self._layouts.frame = frame

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def total(self) -> int:
        """Lines of the whole sheet; an estimate for what was not in view yet."""
        return self._heights.total

    @property
    def top(self) -> int:
        """The first line in view."""
        if not self._keys:
            return 0
        return self._heights.top(self._anchor_index()) + self._offset

    @property
    def below(self) -> int:
        """Lines below the view."""
        return max(0, self.total - self.top - self.height)

    @property
    def new_below(self) -> int:
        """Lines that came since the end was left."""
        if self._left_at is None:
            return 0
        key, height = self._left_at
        index = self._index.get(key)
        if index is None:
            return 0
        grown = self._heights[index] - height
        return max(0, self.total - self._heights.top(index + 1) + grown)

    @property
    def at_start(self) -> bool:
        """Whether the beginning of what is known is in view, or nearly."""
        return self.top < self.height

    # changes

    def feed(self, entries: Iterable[TranscriptEntry]) -> bool:
        """Take entries; False if nothing changed."""
        held = self._held()
        change = self.folder.feed(entries)
        if not change.changed and not change.reordered:
            return False
        if change.reordered:
            self._rebuild()
        else:
            for key in self.folder.keys_from(len(self._keys)):
                self._index[key] = len(self._keys)
                self._keys.append(key)
                self._heights.append(self._layouts.estimate(key))
        for key in change.changed:
            if key in self._index:
                self._measure(self._index[key])
        self._hold(held)
        return True

    def _held(self) -> tuple[int, int, int] | None:
        """The block at the top of the view, where it begins, and its height."""
        if not self._keys:
            return None
        index = self._anchor_index()
        key = self._keys[index]
        return key, self.folder.block(key).seq, self._heights[index]

    def _hold(self, held: tuple[int, int, int] | None) -> None:
        """An older page continued the block at the top upwards: its lines in view stay."""
        if held is None or held[0] != self._anchor or self._anchor not in self._index:
            return
        key, seq, height = held
        if self.folder.block(key).seq < seq:
            grown = self._exact_height(self._index[key]) - height
            self._offset = max(0, self._offset + grown)

    def resize(self, width: int, height: int) -> None:
        """The view has a new size."""
        self.height = max(1, height)
        if width != self.frame.width:
            self.frame = msgspec.structs.replace(self.frame, width=max(10, width))
            share = self._offset / max(1, self._height_of_anchor())
            self._heights.reset(map(self._layouts.estimate, self._keys))
            if self._keys:
                self._offset = int(share * self._exact_height(self._anchor_index()))

    def tick(self, now_ms: int, tz: tzinfo | None = None) -> bool:
        """A new time; True if something in view counts it."""
        self.frame = msgspec.structs.replace(self.frame, now_ms=now_ms, tz=tz)
        return any(self._layouts.live(key) for key in self._in_view())

    # folding

    def toggle(self, key: int) -> bool:
        """Fold or open a block, its head staying where it is; False if it cannot be folded."""
        index = self._index.get(key)
        fold = None if index is None else self._layouts.next_fold(key)
        if index is None or fold is None:
            return False
        row = self._heights.top(index) - self.top
        self._set_fold(key, fold)
        if row >= 0 and index < len(self._keys) - 1:
            self._leave_end()
            self._place(index, 0)
            self.scroll(-row)
        self.settle()
        return True

    def fold_all(self) -> None:
        """Fold every tool and thought, or open them if all are folded."""
        keys = [key for key in self._keys if can_fold(self.folder.block(key))]
        to: FoldState = "folded" if any(self.fold(key) != "folded" for key in keys) else "open"
        for key in keys:
            self._set_fold(key, to)
        self.settle()

    def fold(self, key: int) -> FoldState:
        """How a block stands."""
        return self._layouts.fold(key)

    def _set_fold(self, key: int, fold: FoldState) -> None:
        self._layouts.set_fold(key, fold)
        index = self._index[key]
        self._measure(index)
        if index + 1 < len(self._keys):
            self._measure(index + 1)  # the gap above it depends on this one

    # moving

    def scroll(self, lines: int) -> None:
        """Move the view; upwards into blocks never seen, their real height counts."""
        if not self._keys or not lines:
            return
        self._leave_end()
        index, offset = self._anchor_index(), self._offset + lines
        while offset < 0 and index > 0:
            index -= 1
            offset += self._exact_height(index)
        while index < len(self._keys) - 1 and offset >= self._exact_height(index):
            offset -= self._heights[index]
            index += 1
        self._place(index, max(0, offset))
        self.settle()

    def to_start(self) -> None:
        """The first line known."""
        if self._keys:
            self._leave_end()
            self._place(0, 0)
            self.cursor = self._first_shown(0, 1)
            self.settle()

    def to_end(self) -> None:
        """The end, and follow it."""
        self.following = True
        self._left_at = None
        self.cursor = None
        self.settle()

    def move_cursor(self, step: int) -> None:
        """To the next or previous block; through a block higher than the view line by line."""
        current = self.current()
        if current is None:
            return
        index = self._index[current]
        top = self._heights.top(index) + self._gap(index)
        bottom = self._heights.top(index + 1)
        if step < 0 and top < self.top:
            self.scroll(-1)
            return
        if step > 0 and bottom > self.top + self.height:
            self.scroll(1)
            return
        found = self._first_shown(index + step, step)
        if found is None:
            self.to_end() if step > 0 else self.scroll(-self.height)
            return
        self.cursor = found
        self._reveal(self._index[found], step)

    def current(self) -> int | None:
        """The block keys act on: the cursor while it is in view, else the last one in view."""
        shown = [key for key in self._in_view() if not is_silent(self.folder.block(key))]
        if self.cursor in shown:
            return self.cursor
        return shown[-1] if shown else None

    def current_block(self) -> Block | None:
        """Its content."""
        key = self.current()
        return None if key is None else self.folder.block(key)

    def _reveal(self, index: int, step: int) -> None:
        self._exact_height(index)
        top = self._heights.top(index) + self._gap(index)
        bottom = self._heights.top(index + 1)
        if step < 0 and top < self.top:
            self.scroll(top - self.top)
        elif step > 0 and bottom > self.top + self.height:
            self.scroll(min(bottom - self.top - self.height, top - self.top))

    def _first_shown(self, index: int, step: int) -> int | None:
        while 0 <= index < len(self._keys):
            if not is_silent(self.folder.block(self._keys[index])):
                return self._keys[index]
            index += step
        return None

    def _leave_end(self) -> None:
        if self.following and self._keys:
            self.following = False
            self._left_at = (self._keys[-1], self._heights[len(self._keys) - 1])

    # the view

    def settle(self) -> None:
        """Lay out what is in view, and put the view where it belongs."""
        if not self._keys:
            return
        if not self.following:
            self._fill_down(self._anchor_index(), self.height + self._offset)
            if self.total - self.top >= self.height:
                return
            self.following = True  # the end came into view
            self._left_at = None
        index, missing = len(self._keys), self.height
        while index > 0 and missing > 0:
            index -= 1
            missing -= self._exact_height(index)
        self._place(index, max(0, -missing))

    def lines(self) -> list[SheetLine]:
        """The lines in view, top to bottom, as many as there are."""
        if not self._keys:
            return []
        found: list[SheetLine] = []
        index, skip = self._anchor_index(), self._offset
        while index < len(self._keys) and len(found) < self.height:
            key = self._keys[index]
            rows = [SheetLine(EMPTY)] * self._gap(index)
            rows += [SheetLine(line, key) for line in self._layouts.drawn(key).lines]
            found += rows[skip : skip + self.height - len(found)]
            skip = 0
            index += 1
        return found

    def _in_view(self) -> list[int]:
        if not self._keys:
            return []
        index = self._anchor_index()
        end = self.top + self.height
        keys: list[int] = []
        while index < len(self._keys) and self._heights.top(index) < end:
            keys.append(self._keys[index])
            index += 1
        return keys

    def _fill_down(self, index: int, room: int) -> None:
        while index < len(self._keys) and room > 0:
            room -= self._exact_height(index)
            index += 1

    def _place(self, index: int, offset: int) -> None:
        self._anchor, self._offset = self._keys[index], offset

    def _anchor_index(self) -> int:
        return self._index.get(self._anchor, 0)

    def _height_of_anchor(self) -> int:
        return self._heights[self._anchor_index()] if self._keys else 0

    # layout

    def _exact_height(self, index: int) -> int:
        """Lay a block out and take its real height."""
        lines = len(self._layouts.drawn(self._keys[index]).lines)
        height = lines + self._gap(index) if lines else 0
        self._heights.set(index, height)
        return height

    def _measure(self, index: int) -> None:
        """After a change: exactly if it was laid out before, else by estimate."""
        key = self._keys[index]
        if self._layouts.known(key):
            self._exact_height(index)
        else:
            self._heights.set(index, self._layouts.estimate(key))

    def _gap(self, index: int) -> int:
        """An empty line above every block, but none between a folded tool and the next tool."""
        block = self.folder.block(self._keys[index])
        if is_silent(block):
            return 0
        before = self._first_shown(index - 1, -1)
        if before is None or not isinstance(block, ToolBlock):
            return 1
        folded = isinstance(self.folder.block(before), ToolBlock) and self.fold(before) == "folded"
        return 0 if folded else 1

    def _rebuild(self) -> None:
        old = self._anchor_index() if self._keys else 0
        self._keys = list(self.folder.keys())
        self._index = {key: index for index, key in enumerate(self._keys)}
        self._heights.reset(map(self._layouts.estimate, self._keys))
        for index, key in enumerate(self._keys):
            if self._layouts.known(key):
                self._exact_height(index)
        if self._anchor not in self._index and self._keys:
            self._place(min(old, len(self._keys) - 1), 0)
