"""A file that exists to be deleted (spec 07.4, B9.3).

On a full disk even deleting rows needs room. So 512 KiB are held from the start, given up when a
write finds no room, and then kept for the clean-up alone: ordinary writes wait until there is more
than that again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

SIZE: Final = 512 << 10
"""Bytes of the ballast file."""

RESUME_AT: Final = SIZE + (256 << 10)
"""Bytes that must be free for ordinary writes while there is no ballast."""

RESTORE_AT: Final = RESUME_AT + SIZE
"""Bytes that must be free to create the ballast."""


def ballast_path(database: Path) -> Path:
    """Where the ballast of a store is."""
    return database.with_name("ballast")


def free_bytes(directory: Path) -> int | None:
    """What we may still write there; None if the file system does not tell."""
    try:
        facts = os.statvfs(directory)
    except OSError:
        return None
    if facts.f_blocks == 0:
        return None
    blocks = facts.f_bfree if os.geteuid() == 0 else facts.f_bavail
    return blocks * facts.f_frsize


def ensure(ballast: Path) -> bool:
    """Create the file if it is missing and there is room for it and more; whether it is there."""
    with contextlib.suppress(OSError):
        if ballast.stat().st_size >= SIZE:
            return True
    room = free_bytes(ballast.parent)
    if room is not None and room < RESTORE_AT:
        return False
    fresh = ballast.with_name(ballast.name + ".tmp")
    try:
        _fill(fresh)
        fresh.replace(ballast)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        return False
    return True


def _fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # noise, so that no file system stores it in less
        file.write(os.urandom(SIZE))
        file.flush()
        os.fsync(file.fileno())


def release(ballast: Path) -> bool:
    """Give its room back; whether there was any."""
    try:
        ballast.unlink()
    except OSError:
        return False
    return True


def exhausted(ballast: Path) -> bool:
    """Whether what is free is only what the ballast gave up: then it is for the clean-up."""
    if ballast.exists():
        return False
    room = free_bytes(ballast.parent)
    return room is not None and room < RESUME_AT
