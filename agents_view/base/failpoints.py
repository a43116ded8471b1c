"""Named points at which a test can kill this very process (spec 10.2).

`AGENTS_VIEW_FAILPOINT=name` ends the process with SIGKILL when it reaches that point; `name:3` at
the third time; several are separated by commas. Unset, a point costs one attribute test.
"""

from __future__ import annotations

import os
import signal


def _armed() -> dict[str, int]:
    wanted = os.environ.get("AGENTS_VIEW_FAILPOINT", "")
    pairs = (item.partition(":") for item in wanted.split(",") if item)
    return {name: int(count or 1) for name, _, count in pairs}


_left = _armed()


def reach(name: str) -> None:
    """Die here if a test asked for it."""
    if _left and name in _left:
        _left[name] -= 1
        if _left[name] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
