"""Keys that answer or destroy are inert where they could hit something else than was meant.

After an involuntary change of the list or the selection for a moment, and in a burst: a paste over
the list must destroy and answer nothing (spec 03.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

_BURST: Final = 5
_WINDOW: Final = 0.02
_AFTER_BURST: Final = 0.1
SETTLE: Final = 0.05
"""Seconds after which a key is known not to have begun a burst."""

Later = Callable[[float, Callable[[], None]], object]
"""A screen's or a widget's `set_timer`."""


class KeyGuard:
    """`clock` is monotonic, in seconds."""

    def __init__(self, hold: float, clock: Callable[[], float]) -> None:
        self._hold = hold
        self._clock = clock
        self._changed_at = -1e9
        self._burst_until = -1e9
        self._bursts = 0
        self._keys: deque[float] = deque(maxlen=_BURST + 1)

    def changed(self) -> None:
        """Something moved that nobody asked for."""
        self._changed_at = self._clock()

    def pressed(self) -> None:
        """Any key came."""
        now = self._clock()
        self._keys.append(now)
        if len(self._keys) > _BURST and now - self._keys[0] < _WINDOW * _BURST:
            self._burst_until = now + max(self._hold, _AFTER_BURST)
            self._bursts += 1

    def allows(self) -> bool:
        """Whether a dangerous key means what it says now."""
        now = self._clock()
        return now - self._changed_at >= self._hold and now >= self._burst_until

    def deliberately(self, later: Later, act: Callable[[], object]) -> None:
        """Run `act` a moment later, unless its key was not meant or turns out to begin a paste.

        The first keys of a burst cannot be told from single ones when they come.
        """
        if self.allows():
            bursts = self._bursts
            later(SETTLE, lambda: self._act(act, bursts))

    def _act(self, act: Callable[[], object], bursts: int) -> None:
        """Counted, not timed: it holds however late a busy screen gets to it."""
        if bursts == self._bursts:
            act()
