"""When a crashed worker is started again (spec 05.6). Pure."""

from __future__ import annotations

import msgspec


class Restart(msgspec.Struct, kw_only=True, frozen=True):
    """The next crash count, and the delay in seconds; None: it is `failed` now."""

    crashes: int
    delay: float | None


def after_crash(
    crashes: int, healthy_for: float, delays: tuple[float, ...], reset_after: float
) -> Restart:
    """What follows a crash of a worker that had been up for `healthy_for` seconds."""
    count = 1 if healthy_for >= reset_after else crashes + 1
    delay = delays[count - 1] if count <= len(delays) else None
    return Restart(crashes=count, delay=delay)
