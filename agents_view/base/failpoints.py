"""Named points at which a test can kill this very process (spec 10.2).

`AGENTS_VIEW_FAILPOINT=name` ends the process with SIGKILL when it reaches that point; `name:3` at
the third time; several are separated by commas. With `AGENTS_VIEW_FAILPOINT_ONCE=DIR` each point
kills one process only, whichever comes first, and leaves a file of its name in DIR. Unset, a point
costs one test.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def _armed() -> dict[str, int]:
    wanted = os.environ.get("AGENTS_VIEW_FAILPOINT", "")
    pairs = (item.partition(":") for item in wanted.split(",") if item)
    return {name: int(count or 1) for name, _, count in pairs}


_left = _armed()
_once = os.environ.get("AGENTS_VIEW_FAILPOINT_ONCE", "")


def reach(name: str) -> None:
    """Die here if a test asked for it."""
    if not _left or name not in _left:
        return
    _left[name] -= 1
    if _left[name] <= 0 and _first(name):
        os.kill(os.getpid(), signal.SIGKILL)


def _first(name: str) -> bool:
    if not _once:
        return True
    try:
        os.close(os.open(Path(_once) / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
