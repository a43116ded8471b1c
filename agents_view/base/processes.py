"""Processes by identity: find them, watch them, end them (A7, A15). Nothing else signals.

A process is only signalled when pid, start time and boot id are the ones recorded: a pid alone
belongs to somebody else tomorrow.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal as signals
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

_LINUX: Final = sys.platform == "linux"
_POLL: Final = 0.05


class Identity(msgspec.Struct, kw_only=True, frozen=True):
    """One process for all time. `start` is in clock ticks after boot (ms of the epoch on macOS)."""

    pid: int
    start: int
    boot_id: str


@functools.cache
def kernel_boot_id() -> str:
    """Names this boot of the machine."""
    if _LINUX:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    import psutil

    return str(int(psutil.boot_time()))


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None if there is none, or only a zombie is left."""
    start = _start_of(pid)
    return None if start is None else Identity(pid=pid, start=start, boot_id=kernel_boot_id())


def is_alive(identity: Identity) -> bool:
    """Whether it still runs; a zombie does not."""
    return identity.boot_id == kernel_boot_id() and _start_of(identity.pid) == identity.start


def _start_of(pid: int) -> int | None:
    if _LINUX:
        fields = _stat(pid)
        return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])
    import psutil

    try:
        process = psutil.Process(pid)
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if zombie else int(process.create_time() * 1000)
    except psutil.Error:
        return None


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; the name before may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _parent_of(pid: int) -> int | None:
    if _LINUX:
        fields = _stat(pid)
        return None if fields is None else int(fields[1])
    import psutil

    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def ancestors(pid: int) -> list[Identity]:
    """The processes above, nearest first."""
    found: list[Identity] = []
    parent = _parent_of(pid)
    while parent and parent > 1 and len(found) < 256:
        identity = identify(parent)
        if identity is None:
            break
        found.append(identity)
        parent = _parent_of(parent)
    return found


def descendants(pid: int) -> list[Identity]:
    """Everything below, nearest first, as the process table has it this moment."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for other in _all_pids():
        parent = _parent_of(other)
        if parent is not None:
            children[parent].append(other)
    found: list[Identity] = []
    frontier = [pid]
    while frontier:
        frontier = [child for parent in frontier for child in children.pop(parent, ())]
        found += [identity for child in frontier if (identity := identify(child))]
    return found


def group_of(pid: int) -> int | None:
    """The process group, None if the process is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def tagged(name: str, value: str) -> list[Identity]:
    """Processes of ours that were started with NAME=VALUE in their environment (A15)."""
    wanted = f"{name}={value}".encode()
    found: list[Identity] = []
    for pid in _all_pids():
        if pid == os.getpid():
            continue
        if wanted in _environment_of(pid) and (identity := identify(pid)):
            found.append(identity)
    return found


def _environment_of(pid: int) -> Sequence[bytes]:
    if _LINUX:
        try:
            return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return ()  # another user's, or gone
    import psutil

    try:
        items = psutil.Process(pid).environ().items()
        return [f"{name}={value}".encode() for name, value in items]
    except psutil.Error:
        return ()


def _all_pids() -> list[int]:
    if _LINUX:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    import psutil

    return psutil.pids()


def memory_of(pid: int) -> int:
    """Resident bytes, 0 if nobody knows."""
    if _LINUX:
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


def signal(identity: Identity, number: int) -> bool:
    """Signal exactly this process; False if it is gone, or its pid is somebody else's by now."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def signal_group(leader: Identity, number: int) -> bool:
    """Signal the group that this process leads; the leader itself may be gone already."""
    current = identify(leader.pid)
    if current is not None and current != leader:
        return False  # the pid was given to somebody else
    try:
        os.killpg(leader.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def become_subreaper() -> None:
    """Orphans below this process become its children, so that none can slip away (A15)."""
    if _LINUX:
        pr_set_child_subreaper = 36
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def reap(pid: int) -> int | None:
    """The exit code of exactly this child if it has ended (negative: a signal), else None."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if found else None


def exit_text(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signals.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


_awaited: Counter[int] = Counter()
"""Processes whose end somebody waits for: their exit codes are not to be taken by others."""

UNKNOWN_EXIT: Final = -1000
"""What `wait_exit` returns for a process that is not our child: it is gone, nobody knows how."""


async def wait_exit(identity: Identity, timeout: float | None = None) -> int | None:
    """Wait for the end of a process, ours or not; its exit code, None if `timeout` ran out.

    A child is reaped, by its pid and no other (`waitpid(-1)` would steal the codes of others).
    """
    _awaited[identity.pid] += 1
    try:
        if not await _gone(identity, timeout):
            return None
        code = reap(identity.pid)
    finally:
        _awaited[identity.pid] -= 1
        if not _awaited[identity.pid]:
            del _awaited[identity.pid]
    return UNKNOWN_EXIT if code is None else code


async def _gone(identity: Identity, timeout: float | None) -> bool:
    try:
        fd = os.pidfd_open(identity.pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return True
    if fd < 0:
        return await _poll_gone(identity, timeout)
    try:
        if not is_alive(identity):
            return True
        return await _readable(fd, timeout)
    finally:
        os.close(fd)


async def _readable(fd: int, timeout: float | None) -> bool:
    """A pidfd becomes readable when its process ends."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    loop.add_reader(fd, done.set)
    try:
        async with asyncio.timeout(timeout):
            await done.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
    return True


async def _poll_gone(identity: Identity, timeout: float | None) -> bool:
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    while is_alive(identity):
        if deadline is not None and loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


async def end_all(
    victims: Iterable[Identity], patience: float, protected: Iterable[Identity] = ()
) -> None:
    """TERM, then KILL after `patience` seconds; returns when all are gone (or KILL was refused)."""
    mine = set(victims) - set(protected)
    mine = {identity for identity in mine if identity.pid != os.getpid()}
    for number in (signals.SIGTERM, signals.SIGKILL):
        waiting = [identity for identity in mine if signal(identity, number)]
        if not waiting:
            return
        await asyncio.gather(*(wait_exit(identity, patience) for identity in waiting))


def spawn_detached(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    cwd: str,
    pass_fds: Sequence[int] = (),
) -> Identity:
    """Start a daemon or a worker: a session of its own, no terminal, output to `log` (0600).

    The caller waits for it with `wait_exit`. Raises `OSError`.
    """
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    finally:
        os.close(out)
    identity = identify(process.pid)
    # we wait by pidfd and reap by pid: the object must not think it still owns a running child
    process.returncode = 0
    if identity is None:
        code = reap(process.pid)
        raise OSError(f"{argv[0]} ended at once: {exit_text(code or 0)}")
    return identity


def reap_orphans() -> int:
    """Collect orphans that became our children and have ended; how many (A15).

    Only pids that are zombies and that nobody waits for, each by its own number.
    """
    count = 0
    for pid in _all_pids():
        fields = _stat(pid) if _LINUX else None
        if fields is None or fields[0] != "Z" or int(fields[1]) != os.getpid():
            continue
        if pid not in _awaited and reap(pid) is not None:
            count += 1
    return count
