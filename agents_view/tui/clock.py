"""The dashboard's one reading of the time; tests hand in another."""

from __future__ import annotations

import time
from collections.abc import Callable

Now = Callable[[], int]


def wall_clock_ms() -> int:
    """ms UTC."""
    return time.time_ns() // 1_000_000
