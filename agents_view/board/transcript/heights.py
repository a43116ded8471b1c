"""Heights of a long list, and where each item begins, without adding them all up every time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Heights:
    """Item heights with prefix sums that are mended from the first change on, when asked for."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._tops: list[int] = [0]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def reset(self, heights: Iterable[int]) -> None:
        """Begin anew."""
        self._heights = list(heights)
        self._tops = [0]

    def append(self, height: int) -> None:
        """One more at the end."""
        self._heights.append(height)

    def set(self, index: int, height: int) -> None:
        """Change one; only the sums behind it are forgotten."""
        if self._heights[index] != height:
            self._heights[index] = height
            del self._tops[index + 1 :]

    def top(self, index: int) -> int:
        """Where an item begins; the total height for the index after the last."""
        tops, heights = self._tops, self._heights
        if len(tops) <= index:
            total = tops[-1]
            for height in heights[len(tops) - 1 : index]:
                total += height
                tops.append(total)
        return tops[index]

    @property
    def total(self) -> int:
        """Height of everything."""
        return self.top(len(self._heights))

    def index_at(self, y: int) -> int:
        """The item that covers a line; the last one below the end."""
        total = self.total
        if not self._heights or y >= total:
            return len(self._heights) - 1
        return bisect_right(self._tops, max(0, y)) - 1
