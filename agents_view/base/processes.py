"""Processes by identity: find them, watch them, end them (A7, A15). Nothing else signals.

A process is only signalled when pid, start time and boot id are the ones recorded: a pid alone
belongs to somebody else tomorrow.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal as signals
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agents_view.base import proctable
from agents_view.base.proctable import LINUX, Identity, kernel_boot_id, memory_of

__all__ = [
    "UNKNOWN_EXIT",
    "Identity",
    "Protected",
    "ancestors",
    "become_subreaper",
    "descendants",
    "end_all",
    "exit_text",
    "group_of",
    "identify",
    "identify_child",
    "is_alive",
    "is_protected",
    "kernel_boot_id",
    "memory_of",
    "popen",
    "reap",
    "reap_orphans",
    "signal",
    "signal_group",
    "spawn_detached",
    "tagged",
    "wait_exit",
]

Protected = Callable[[Identity], bool]
"""Says which processes a sweep must leave alone."""

_POLL: Final = 0.05
_DAEMONS: Final = (b"agents_view.daemon.supervisor", b"agents_view.daemon.worker")


# --- who is who


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None if there is none, or only a zombie is left."""
    entry = proctable.entry_of(pid)
    return None if entry is None or entry.zombie else entry.identity


def identify_child(pid: int) -> Identity:
    """The same for a child that was not reaped yet: the pid is its own even if it has ended."""
    entry = proctable.entry_of(pid)
    return entry.identity if entry else Identity(pid=pid, start=-1, boot_id=kernel_boot_id())


def is_alive(identity: Identity) -> bool:
    """Whether it still runs; a zombie does not."""
    return identify(identity.pid) == identity


def ancestors(pid: int) -> list[Identity]:
    """The processes above, nearest first."""
    found: list[Identity] = []
    entry = proctable.entry_of(pid)
    while entry is not None and entry.parent > 1 and len(found) < 256:
        entry = proctable.entry_of(entry.parent)
        if entry is not None:
            found.append(entry.identity)
    return found


def descendants(pid: int) -> list[Identity]:
    """Everything below, nearest first, as the process table has it this moment."""
    return [entry.identity for entry in proctable.below(proctable.read_table(), (pid,))]


def group_of(pid: int) -> int | None:
    """The process group, None if the process is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def tagged(name: str, value: str) -> list[Identity]:
    """Processes of our user that were started with NAME=VALUE in their environment (A15).

    Reads the environment of every process: call it in a thread.
    """
    wanted = f"{name}={value}".encode()
    found: list[Identity] = []
    for pid in proctable.all_pids():
        if pid == os.getpid() or proctable.owner_of(pid) != os.getuid():
            continue
        if wanted in proctable.environment_of(pid) and (identity := identify(pid)):
            found.append(identity)
    return found


def is_protected(identity: Identity) -> bool:
    """Whether no sweep may touch it: we, a supervisor, a worker, a holder of our locks (A15).

    Of any instance: an agent may well be working on this very program.
    """
    if identity.pid == os.getpid():
        return True
    words = proctable.command_of(identity.pid)
    if any(words[i] == b"-m" and words[i + 1] in _DAEMONS for i in range(len(words) - 1)):
        return True
    return any(_is_our_lock(path) for path in proctable.locked_files(identity.pid))


def _is_our_lock(path: Path) -> bool:
    return path.name in ("daemon.lock", "store.lock") or path.parent.name == "trees"


# --- signals


def signal(identity: Identity, number: int) -> bool:
    """Signal exactly this process; False if it is gone, or its pid is somebody else's by now."""
    try:
        with _held(identity) as fd:
            if not is_alive(identity):
                return False
            if fd is None:
                os.kill(identity.pid, number)
            else:
                signals.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextlib.contextmanager
def _held(identity: Identity) -> Iterator[int | None]:
    """A pidfd, so that the pid cannot change hands between look and signal; None without them."""
    try:
        fd = os.pidfd_open(identity.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        raise
    except OSError:
        fd = None  # out of descriptors, or a sandbox without pidfds
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def signal_group(leader: Identity, number: int) -> bool:
    """Signal the group that this process leads, or did until it ended and before it was reaped."""
    if identify_child(leader.pid) != leader:
        return False  # reaped: the number may be somebody else's group by now
    try:
        os.killpg(leader.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def end_all(
    victims: Iterable[Identity], patience: float, protected: Protected = is_protected
) -> bool:
    """TERM, then KILL after `patience` seconds; whether all are gone (KILL waits as long).

    What `protected` names is left alone, and does not count.
    """
    mine = [identity for identity in set(victims) if not protected(identity)]
    for number in (signals.SIGTERM, signals.SIGKILL):
        waiting = [identity for identity in mine if signal(identity, number)]
        if not waiting:
            break
        await asyncio.gather(*(wait_exit(identity, patience) for identity in waiting))
    return not any(is_alive(identity) for identity in mine)


def become_subreaper() -> None:
    """Orphans below this process become its children, so that none can slip away (A15)."""
    if LINUX:
        pr_set_child_subreaper = 36
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


# --- the end of a process

UNKNOWN_EXIT: Final = -1000
"""What `wait_exit` returns for a process that is not our child: it is gone, nobody knows how."""

_awaited: Counter[int] = Counter()
_codes: dict[int, int] = {}
"""Exit codes of processes that several wait for: one of them reaps, all are told."""

_started: set[int] = set()
"""Children we started and did not reap yet: their exit codes are not an orphan's."""
_starting = 0
_starting_lock = threading.Lock()


def reap(pid: int) -> int | None:
    """The exit code of exactly this child if it has ended (negative: a signal), else None."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if not found:
        return None
    _started.discard(pid)
    return os.waitstatus_to_exitcode(status)


def exit_text(code: int) -> str:
    """An exit code in words."""
    if code == UNKNOWN_EXIT:
        return "nobody saw how"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signals.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


async def wait_exit(identity: Identity, timeout: float | None = None) -> int | None:
    """Wait for the end of a process, ours or not; its exit code, None if `timeout` ran out.

    A child is reaped, by its pid and no other (`waitpid(-1)` would steal the codes of others).
    """
    pid = identity.pid
    _awaited[pid] += 1
    try:
        if not await _gone(identity, timeout):
            return None
        code = reap(pid)
        if code is not None and _awaited[pid] > 1:
            _codes[pid] = code
        return code if code is not None else _codes.get(pid, UNKNOWN_EXIT)
    finally:
        _awaited[pid] -= 1
        if not _awaited[pid]:
            del _awaited[pid]
            _codes.pop(pid, None)


async def _gone(identity: Identity, timeout: float | None) -> bool:
    try:
        with _held(identity) as fd:
            if not is_alive(identity):
                return True
            if fd is None:
                return await _poll_gone(identity, timeout)
            return await _readable(fd, timeout)
    except ProcessLookupError:
        return True


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


def reap_orphans() -> int:
    """Collect orphans that became our children and have ended; how many (A15).

    Each by its own number, and only those of another session that we did not start ourselves: the
    exit codes of a program that we are embedded in are not ours to take.
    """
    if _starting:
        return 0  # a child of ours may be there that is not on our list yet
    count = 0
    mine = os.getsid(0)
    for entry in proctable.read_table().values():
        if not entry.zombie or entry.parent != os.getpid() or entry.session == mine:
            continue
        if entry.pid not in _started and entry.pid not in _awaited and reap(entry.pid) is not None:
            count += 1
    return count


# --- the start of a process


def popen(
    argv: Sequence[str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    cwd: str,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child as leader of a session of its own. Blocks until it runs. Raises `OSError`.

    It is waited for by `wait_exit` and reaped by pid: the object's own waiting is not to be used.
    """
    global _starting
    with _starting_lock:
        _starting += 1
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            pass_fds=tuple(pass_fds),
            bufsize=0,
        )
        _started.add(process.pid)
    except ValueError as error:
        raise OSError(str(error)) from None  # a NUL in a word
    finally:
        with _starting_lock:
            _starting -= 1
    process.returncode = 0  # or it would believe that it owns a child nobody waits for
    return process


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
    null = subprocess.DEVNULL
    try:
        process = popen(
            argv, stdin=null, stdout=out, stderr=out, cwd=cwd, env=env, pass_fds=pass_fds
        )
    finally:
        os.close(out)
    identity = identify(process.pid)
    if identity is None:
        code = reap(process.pid)
        raise OSError(f"{argv[0]} ended at once: {exit_text(code or 0)}")
    return identity
