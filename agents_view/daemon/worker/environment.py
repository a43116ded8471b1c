"""What an agent's process is started with (A9)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agents_view.acp.catalogue import SHELL
from agents_view.base.settings import AgentEntry
from agents_view.daemon.aftermath import SESSION_TAG
from daemon_client.launch import daemon_environment
from daemon_client.protocol.commands import Environ


def agent_environment(
    *,
    session_id: str,
    agent: str,
    entry: AgentEntry,
    person: Environ,
    kept: Environ,
    socket: str,
    state: Path,
) -> dict[str, str]:
    """The person's environment if we have it, else the daemon's with what was kept on disk.

    Our own variables of whoever started the daemon never reach an agent, only the two that tell
    it who it is.
    """
    base: Mapping[str, str] = person or daemon_environment(dict(os.environ)) | kept
    env = {name: value for name, value in base.items() if not name.startswith("AGENTS_VIEW_")}
    env |= entry.env
    env[SESSION_TAG] = session_id
    env["AGENTS_VIEW_SOCKET"] = socket
    if agent == SHELL:
        env["AGENTS_VIEW_SHELL_HISTORY"] = str(state / "shell")
    return env


def missing_keys(
    entry: AgentEntry, env: Mapping[str, str], known_at_creation: tuple[str, ...]
) -> list[str]:
    """Keys the agent had when the session was made and would not have now: it must wait (A9)."""
    return [name for name in entry.env_pass if name in known_at_creation and name not in env]
