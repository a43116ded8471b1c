"""Laid-out blocks, kept for the version, width and folding they were made for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from agents_view.board.transcript.draw import can_fold, draw, fold_of, is_silent
from agents_view.board.transcript.frame import Drawn, FoldState, Frame
from agents_view.board.transcript.prose import ProseLayout
from daemon_client.blocks import MessageBlock, PromptBlock, ThoughtBlock, ToolBlock
from daemon_client.transcript import TranscriptFolder

_KEPT: Final = 256
"""Laid-out blocks kept; of the others only heights are remembered."""
_MEASURED: Final = 48 << 10
"""Characters of a text an estimate looks at: about what is shown of a very long one."""


class _Laid(msgspec.Struct):
    version: int
    width: int
    fold: FoldState
    second: int
    drawn: Drawn
    prose: ProseLayout


class Layouts:
    """The layout of every block, on demand, and how each is folded."""

    def __init__(self, folder: TranscriptFolder) -> None:
        self._folder = folder
        self._folds: dict[int, FoldState] = {}
        self._laid: OrderedDict[int, _Laid] = OrderedDict()
        self.frame = Frame(width=80)

    def fold(self, key: int) -> FoldState:
        """How a block stands: as somebody left it, or as its kind stands at first."""
        return self._folds.get(key) or fold_of(self._folder.block(key))

    def set_fold(self, key: int, fold: FoldState) -> None:
        """Fold or open a block."""
        self._folds[key] = fold

    def next_fold(self, key: int) -> FoldState | None:
        """Folded → open → all, if there is more → folded; None if there is nothing to fold."""
        fold, hidden = self.fold(key), self.drawn(key).hidden
        foldable = can_fold(self._folder.block(key))
        if not foldable and not hidden and fold != "all":
            return None
        closed: FoldState = "folded" if foldable else "open"
        if fold == "open" and hidden:
            return "all"
        return "open" if fold == "folded" else closed

    def known(self, key: int) -> bool:
        """Whether the block was laid out, for whatever version."""
        return key in self._laid

    def live(self, key: int) -> bool:
        """Whether the block, as last laid out, counts time."""
        laid = self._laid.get(key)
        return laid is not None and laid.drawn.live

    def drawn(self, key: int) -> Drawn:
        """The layout for the block as it is now and, if it counts, for this second."""
        version, fold, width = self._folder.version(key), self.fold(key), self.frame.width
        second = self.frame.now_ms // 1000
        laid = self._laid.get(key)
        same = laid and (laid.version, laid.width, laid.fold) == (version, width, fold)
        if laid is not None and same and (not laid.drawn.live or laid.second == second):
            self._laid.move_to_end(key)
            return laid.drawn
        if laid is None or laid.width != width:
            prose = ProseLayout(self.frame.room(self.frame.text))
        else:
            prose = laid.prose
        drawn = draw(self._folder.block(key), fold, self.frame, prose)
        self._laid[key] = _Laid(version, width, fold, second, drawn, prose)
        self._laid.move_to_end(key)
        if len(self._laid) > _KEPT:
            self._laid.popitem(last=False)
        return drawn

    def estimate(self, key: int) -> int:
        """A height without laying out: cheap, and right for one-liners."""
        block = self._folder.block(key)
        if is_silent(block):
            return 0
        if isinstance(block, ToolBlock | ThoughtBlock):
            return 1 if self.fold(key) == "folded" else 10
        if isinstance(block, MessageBlock | PromptBlock):
            room = min(96, self.frame.room(self.frame.text))
            text = block.text[-_MEASURED:]
            return 2 + text.count("\n") + len(text) // room
        return 2
