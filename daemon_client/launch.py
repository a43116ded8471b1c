"""Find the daemon, or start one (spec 07.1). Ready means: it answered a handshake."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Final

from daemon_client.connection import Connection
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.paths import Paths, make_private

_READY_WITHIN: Final = 15.0
_AGENT_WAITS: Final = 10.0
_AGENT_WAITS_FROM: Final = "AGENTS_VIEW_DAEMON_ENVIRONMENT_TIMEOUT"
"""The same setting as the daemon's; read here since an agent's command has no config of its own."""
_POLL: Final = 0.03

_KEPT: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
    "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
_KEPT_PREFIXES: Final = ("LC_", "XDG_", "AGENTS_VIEW_")
_NEVER: Final = ("AGENTS_VIEW_SESSION_ID",)

_started: list[subprocess.Popen[bytes]] = []
"""Daemons this process started; held so that one that ends is reaped, not left as a zombie."""


def daemon_environment(environ: dict[str, str]) -> dict[str, str]:
    """What supervisor and workers run with: no keys, no terminal of whoever happened to start them.

    An agent gets its session's own environment, not this one (A9).
    """
    return {
        name: value
        for name, value in environ.items()
        if (name in _KEPT or name.startswith(_KEPT_PREFIXES)) and name not in _NEVER
    }


def daemon_command(paths: Paths) -> list[str]:
    """The command line of a supervisor for the instance at `paths`."""
    places = ("--state", paths.state_dir, "--socket", paths.socket, "--config", paths.config_file)
    return [sys.executable, "-m", "agents_view.daemon.supervisor", *map(str, places)]


def inside_agent() -> bool:
    """Whether an agent of ours started this process; it must never start a daemon."""
    return bool(os.environ.get("AGENTS_VIEW_SESSION_ID"))


async def answers(paths: Paths) -> bool:
    """Whether a daemon answers a handshake now. Raises `DaemonError(incompatible)`."""
    connection = Connection(paths.socket)
    try:
        await connection.open()
    except DaemonError as error:
        if error.code in (ErrorCode.INCOMPATIBLE, ErrorCode.REFUSED):
            raise
        return False
    await connection.close()
    return True


async def ensure_daemon(paths: Paths) -> None:
    """Return once a daemon answers; start one if there is none.

    Many callers at once are fine: one daemon wins the lock, the others exit quietly and everybody
    attaches to the winner. Raises `DaemonError(unavailable)` with the log's last lines.
    """
    loop = asyncio.get_running_loop()
    if inside_agent():
        deadline = loop.time() + float(os.environ.get(_AGENT_WAITS_FROM, _AGENT_WAITS))
        while not await answers(paths):
            if loop.time() > deadline:
                message = "no daemon, and a command inside an agent never starts one"
                raise DaemonError(ErrorCode.UNAVAILABLE, message)
            await asyncio.sleep(_POLL * 5)
        return
    if await answers(paths):
        return
    deadline = loop.time() + _READY_WITHIN
    process = await asyncio.to_thread(_start, paths)
    restart_at = 0.0
    while not await answers(paths):
        now = loop.time()
        code = process.poll()
        killed = code is not None and code < 0
        if (code and not killed) or now > deadline:
            why = f"exit code {code}" if code else "no answer in time"
            message = f"the daemon did not start: {why}"
            raise DaemonError(ErrorCode.UNAVAILABLE, message, _log_tail(paths))
        if code is not None:
            # it lost to another one, perhaps to one that is just going away, or was killed
            restart_at = restart_at or now + 0.5
            if now >= restart_at:
                process = await asyncio.to_thread(_start, paths)
                restart_at = 0.0
        await asyncio.sleep(_POLL)


def _start(paths: Paths) -> subprocess.Popen[bytes]:
    make_private(paths.state_dir)
    make_private(paths.logs)
    _started[:] = [process for process in _started if process.poll() is None]
    log = os.open(paths.logs / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            daemon_command(paths),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=daemon_environment(dict(os.environ)),
            start_new_session=True,
        )
    finally:
        os.close(log)
    _started.append(process)
    return process


def _log_tail(paths: Paths) -> tuple[str, ...]:
    try:
        text = (paths.logs / "supervisor.err").read_text(errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-8:])
