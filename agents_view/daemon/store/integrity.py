"""Is this database what SQLite wrote, and what becomes of one that is not (spec 07.4, B9.4, T14).

A damaged database is moved aside with its `-wal` and `-shm`, never deleted, never overwritten, and
never while anybody could be writing to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agents_view.base import failpoints
from agents_view.daemon.store import backup, locks
from agents_view.daemon.store.errors import StoreBusy
from agents_view.daemon.store.files import SIDES, inspect, quick_check, side, sync

__all__ = ["Quarantine", "finish_set_aside", "inspect", "quick_check", "set_aside"]


class Quarantine(msgspec.Struct, kw_only=True, frozen=True):
    """What was set aside and why; `backup` is the newest good one, None if there is none."""

    reason: str
    moved: tuple[Path, ...]
    backup: Path | None


def set_aside(database: Path, tree_locks: Path, reason: str, now_ms: int) -> Quarantine:
    """Move the database with its sides to `state.db.corrupt-<time>…`. Blocking.

    Close every `Database` of it and stop the workers before: raises `StoreBusy`, and has moved
    nothing, while a tree lock in `tree_locks` or a share of `store.lock` is held.
    """
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    with _no_trees(tree_locks), locks.held(locks.store_lock(database)):
        moved = _move(database, _unused(database, f".corrupt-{stamp}"))
    return Quarantine(reason=reason, moved=moved, backup=backup.newest_good(database))


def finish_set_aside(database: Path) -> tuple[Path, ...]:
    """Go on where a killed `set_aside` stopped: a `-wal` without its database would be replayed
    into the next one. What was moved now; raises `StoreBusy`.
    """
    if database.exists() or not any(side(database, end).exists() for end in SIDES):
        return ()
    with locks.held(locks.store_lock(database)):
        if database.exists():
            return ()
        aside = sorted(
            path for path in database.parent.glob(f"{database.name}.corrupt-*")
            if not path.name.endswith(SIDES[1:])
        )  # fmt: skip
        last = aside[-1] if aside else _unused(database, ".corrupt-left")
        if any(side(last, end).exists() for end in SIDES[1:]):
            last = _unused(last, "-left")
        return _move(database, last)


def _move(database: Path, target: Path) -> tuple[Path, ...]:
    """The main file first: from then on `finish_set_aside` sees that the rest must follow."""
    moved: list[Path] = []
    for end in SIDES:
        source = side(database, end)
        if source.exists():
            source.rename(side(target, end))
            moved.append(side(target, end))
            failpoints.reach("store.set_aside.moved")
    sync(database.parent)
    return tuple(moved)


def _unused(database: Path, suffix: str) -> Path:
    """A name that nothing has, with any side: nothing is overwritten."""
    for number in range(1, 10_000):
        target = side(database, suffix if number == 1 else f"{suffix}-{number}")
        if not any(side(target, end).exists() for end in SIDES):
            return target
    raise StoreBusy(f"{database.parent} is full of files set aside: clear them away")


@contextlib.contextmanager
def _no_trees(tree_locks: Path) -> Iterator[None]:
    """Hold every tree lock: no worker lives, and none can begin meanwhile."""
    with contextlib.ExitStack() as stack:
        for lock in sorted(tree_locks.iterdir()) if tree_locks.is_dir() else ():
            if lock.is_file():
                stack.enter_context(locks.held(lock))
        yield
