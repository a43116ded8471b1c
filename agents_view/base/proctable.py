"""The process table, read: /proc on Linux, psutil elsewhere. Signals nothing, waits for nothing."""

from __future__ import annotations

import functools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

LINUX: Final = sys.platform == "linux"


class Identity(msgspec.Struct, kw_only=True, frozen=True):
    """One process for all time. `start` is in clock ticks after boot (ms of the epoch on macOS)."""

    pid: int
    start: int
    boot_id: str


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """One line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    zombie: bool = False

    @property
    def identity(self) -> Identity:
        return Identity(pid=self.pid, start=self.start, boot_id=kernel_boot_id())


Table = Mapping[int, Entry]
"""Every process of one moment, by pid; zombies included."""


@functools.cache
def kernel_boot_id() -> str:
    """Names this boot of the machine."""
    if LINUX:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    import psutil

    return str(int(psutil.boot_time()))


def entry_of(pid: int) -> Entry | None:
    """What the table says of this pid now; None if it has no process."""
    if not LINUX:
        return _entry_elsewhere(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # the name before the last parenthesis may hold anything, spaces and parentheses included
    fields = text.rpartition(b")")[2].split()
    return Entry(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        zombie=fields[0] in (b"Z", b"X"),
    )


def _entry_elsewhere(pid: int) -> Entry | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return Entry(
                pid=pid,
                parent=process.ppid(),
                group=os.getpgid(pid),
                session=os.getsid(pid),
                start=int(process.create_time() * 1000),
                zombie=process.status() == psutil.STATUS_ZOMBIE,
            )
    except (psutil.Error, OSError):
        return None


def all_pids() -> list[int]:
    if LINUX:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    import psutil

    return psutil.pids()


def read_table() -> Table:
    """The whole table. It costs about 30 µs a process: call it in a thread."""
    found = (entry_of(pid) for pid in all_pids())
    return {entry.pid: entry for entry in found if entry is not None}


def below(
    table: Table, roots: Iterable[int], stop_at: Callable[[Identity], bool] | None = None
) -> list[Entry]:
    """Everything alive below `roots`, nearest first.

    Neither a process that `stop_at` names nor anything below it is part of the answer.
    """
    children: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in table.values():
        children[entry.parent].append(entry)
    found: list[Entry] = []
    frontier = list(dict.fromkeys(roots))
    while frontier:
        level = [child for parent in frontier for child in children.pop(parent, ())]
        level = [one for one in level if stop_at is None or not stop_at(one.identity)]
        found += [one for one in level if not one.zombie]
        frontier = [one.pid for one in level]
    return found


def owner_of(pid: int) -> int | None:
    """The user a process belongs to."""
    try:
        if LINUX:
            return Path(f"/proc/{pid}").stat().st_uid
        import psutil

        return psutil.Process(pid).uids().effective
    except Exception:  # gone, or not ours to ask about: psutil has its own errors for both
        return None


def environment_of(pid: int) -> Sequence[bytes]:
    """NAME=VALUE as the process was started; empty if it is gone or not ours to read."""
    if LINUX:
        return _zero_separated(pid, "environ")
    import psutil

    try:
        items = psutil.Process(pid).environ().items()
        return [f"{name}={value}".encode() for name, value in items]
    except psutil.Error:
        return ()


def command_of(pid: int) -> Sequence[bytes]:
    """Its command line, empty if it is gone."""
    if LINUX:
        return _zero_separated(pid, "cmdline")
    import psutil

    try:
        return [os.fsencode(word) for word in psutil.Process(pid).cmdline()]
    except psutil.Error:
        return ()


def _zero_separated(pid: int, name: str) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:
        return ()


def locked_files(pid: int) -> list[Path]:
    """Files on which a descriptor of this process holds a `flock`; inherited ones count (Linux)."""
    if not LINUX:
        return []
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    found = (_locked_by(descriptor) for descriptor in descriptors)
    return [path for path in found if path is not None]


def _locked_by(descriptor: Path) -> Path | None:
    try:
        target = descriptor.readlink()
        if target.suffix != ".lock":
            return None
        info = descriptor.parent.with_name("fdinfo") / descriptor.name
        return target if b"FLOCK" in info.read_bytes() else None
    except OSError:
        return None


def memory_of(pid: int) -> int:
    """Resident bytes, 0 if nobody knows."""
    if LINUX:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")
    import psutil

    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0
