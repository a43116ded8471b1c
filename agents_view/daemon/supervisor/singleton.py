"""Locks that are held for a process's life: the supervisor's, and each tree's (spec 07.1, S3)."""

from __future__ import annotations

import os
from pathlib import Path

from agents_view.daemon.store import locks
from agents_view.daemon.store.errors import StoreBusy
from daemon_client.paths import make_private


class Lock:
    """An exclusive `flock`. The file is never unlinked: a name may be reused, a lock may not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock, -1 if it is not held."""
        return self._fd

    def acquire(self) -> bool:
        """Take it now or not at all; True if it is ours."""
        make_private(self.path.parent)
        try:
            self._fd = locks.take(self.path)
        except StoreBusy:
            return False
        return True

    def note(self, text: str) -> None:
        """Write who holds it, for people; nothing trusts it."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        """Let go. A descriptor inherited by another process keeps holding it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(path: Path) -> bool:
    """Whether some process holds the lock at `path` now."""
    if not path.exists():
        return False
    lock = Lock(path)
    if not lock.acquire():
        return True
    lock.release()
    return False
