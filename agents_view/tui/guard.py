"""Keys that answer or destroy are inert where they could hit something else than was meant.

After an involuntary change of the list or the selection for a moment, and in a burst: a paste over
the list must destroy and answer nothing (spec 03.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_BURST = 5
_WINDOW = 0.02


class KeyGuard:
    """`clock` is monotonic, in seconds."""

    def __init__(self, hold: float, clock: Callable[[], float]) -> None:
        self._hold = hold
        self._clock = clock
        self._changed_at = -1e9
        self._burst_until = -1e9
        self._keys: deque[float] = deque(maxlen=_BURST + 1)

    def changed(self) -> None:
        """Something moved that nobody asked for."""
        self._changed_at = self._clock()

    def pressed(self) -> None:
        """Any key came."""
        now = self._clock()
        self._keys.append(now)
        if len(self._keys) > _BURST and now - self._keys[0] < _WINDOW * _BURST:
            self._burst_until = now + self._hold

    def allows(self) -> bool:
        """Whether a dangerous key means what it says now."""
        now = self._clock()
        return now - self._changed_at >= self._hold and now >= self._burst_until
