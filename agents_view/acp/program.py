"""What is started for a session, and what is wrong with it before it is (A2, A10)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agents_view.acp.errors import AgentError


class Launch(msgspec.Struct, kw_only=True, frozen=True):
    """How an agent is started."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    hint: str = ""
    stderr_path: Path | None = None


def check_launch(plan: Launch) -> None:
    """Say beforehand what the kernel would say less clearly. Raises `AgentError`."""
    command = shlex.join(plan.argv)
    if not Path(plan.cwd).is_dir():
        message = f"its directory is gone: {plan.cwd}"
        raise AgentError("start", message, command=command, advice="choose another directory")
    program = plan.argv[0]
    found = find_program(program, plan.env, plan.cwd)
    if found is None:
        where = "does not exist" if os.sep in program else "is not on PATH"
        hint = f"; {plan.hint}" if plan.hint else ""
        raise AgentError("start", f"{program} {where}{hint}", command=command)
    if not os.access(found, os.X_OK):
        raise AgentError("start", f"{found} is not executable", command=command)


def find_program(program: str, env: Mapping[str, str], cwd: str = ".") -> str | None:
    """Where a program is: itself if it is a path, else the first on PATH, executable first.

    Relative places count from `cwd`, as they do for the process that is started there.
    """
    if os.sep in program:
        path = Path(cwd, program)
        return str(path) if path.is_file() else None
    places = env.get("PATH", os.defpath).split(os.pathsep)
    candidates = [str(Path(cwd, place or ".", program)) for place in places]
    present = [path for path in candidates if Path(path).is_file()]
    executable = [path for path in present if os.access(path, os.X_OK)]
    return next(iter(executable or present), None)
