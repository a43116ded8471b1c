"""Lock files of a store: flock'ed, held by a descriptor, never removed (spec 07.4, B8).

`store.lock` is held shared by whoever has the database open, exclusively by whoever moves it away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agents_view.daemon.store.errors import StoreBusy

_STEP: Final = 0.02


def store_lock(database: Path) -> Path:
    """The lock of the store that `database` belongs to."""
    return database.with_name("store.lock")


def take(path: Path, *, shared: bool = False, patience: float = 0.0) -> int:
    """Lock the file and return its descriptor; closing that is letting go.

    Waits up to `patience` seconds (blocking: call it on a thread). Raises `StoreBusy`, `OSError`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    for attempts_left in range(int(patience / _STEP), -1, -1):
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            if attempts_left:
                time.sleep(_STEP)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor
    os.close(descriptor)
    raise StoreBusy(f"{path} is held by another process")


@contextlib.contextmanager
def held(path: Path, *, shared: bool = False, patience: float = 0.0) -> Iterator[None]:
    """`take` for the length of a block."""
    descriptor = take(path, shared=shared, patience=patience)
    try:
        yield
    finally:
        os.close(descriptor)
