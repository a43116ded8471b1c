"""The catalogue of agents: our data, and what the user adds or changes (spec 08.4)."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from agents_view.acp.program import find_program
from agents_view.base.child import StderrLog, start_child
from agents_view.base.settings import AgentEntry
from agents_view.base.stopping import stop_child

SHELL: Final = "shell"
"""The built-in agent: runs with nothing installed."""

_PROBE: Final = 3.0
_PATIENCE: Final = 0.2


class Catalogue(msgspec.Struct, kw_only=True, frozen=True):
    """Agents by key; `problems` names the entries that were skipped."""

    agents: dict[str, AgentEntry]
    problems: tuple[str, ...] = ()


class Found(msgspec.Struct, kw_only=True, frozen=True):
    """One agent on this machine. `hint` says what to do if it is not found."""

    key: str
    entry: AgentEntry
    found: bool
    command: str
    program: str = ""
    hint: str = ""


@functools.cache
def _built_in() -> dict[str, AgentEntry]:
    text = resources.files("agents_view.acp").joinpath("agents.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, AgentEntry])


def load_catalogue(own: Mapping[str, AgentEntry]) -> Catalogue:
    """Ours with the user's merged over it, field by field.

    An entry without a command is skipped and named; the others load.
    """
    agents = dict(_built_in())
    problems: list[str] = []
    for key, entry in own.items():
        merged = _merge(agents[key], entry) if key in agents else entry
        if not merged.command and key != SHELL:
            problems.append(f"[agents.{key}] has no command: skipped")
            continue
        agents[key] = merged
    return Catalogue(agents=agents, problems=tuple(problems))


def _merge(base: AgentEntry, over: AgentEntry) -> AgentEntry:
    """What the user wrote wins; what is at its default was not written."""
    default = AgentEntry()
    changed = {
        name: getattr(over, name)
        for name in over.__struct_fields__
        if getattr(over, name) != getattr(default, name)
    }
    return msgspec.structs.replace(base, **changed)


def argv_of(key: str, entry: AgentEntry) -> tuple[str, ...]:
    """The command line that starts it."""
    if key == SHELL and not entry.command:
        return (sys.executable, "-m", "agents_view.agents.shell", *entry.args)
    return (str(Path(entry.command).expanduser()), *entry.args)


def find(key: str, entry: AgentEntry, path: str) -> Found:
    """Look for its program, and for the others it needs, on `path`."""
    argv = argv_of(key, entry)
    where = {"PATH": path}
    program = find_program(argv[0], where)
    usable = program is not None and os.access(program, os.X_OK)
    missing = [name for name in entry.requires if find_program(name, where) is None]
    if not usable:
        hint = f"{program} is not executable" if program else entry.install_hint
    else:
        hint = f"needs {', '.join(missing)}: {entry.install_hint}" if missing else ""
    return Found(
        key=key,
        entry=entry,
        found=usable and not missing,
        command=" ".join(argv) if key != SHELL or entry.command else "built in",
        program=program or "",
        hint=hint,
    )


def find_all(catalogue: Catalogue, path: str) -> list[Found]:
    """Every agent, those that are there first."""
    found = [find(key, entry, path) for key, entry in catalogue.agents.items()]
    return sorted(found, key=lambda item: (not item.found, item.key != SHELL))


async def versions(found: list[Found]) -> dict[str, str]:
    """What each found program says to `--version`, asked all at once, 3 s at most."""
    asked = [item for item in found if item.found and item.key != SHELL]
    answers = await asyncio.gather(*(_version(item.program) for item in asked))
    return {item.key: answer for item, answer in zip(asked, answers, strict=True) if answer}


async def _version(program: str) -> str:
    """The first line; nothing of the program is left, however it behaves."""
    command = (program, "--version")
    try:
        child = await start_child(command, cwd="/", env=os.environ, stderr=StderrLog(None, 1, 1))
    except OSError:
        return ""
    out = b""
    try:
        child.close_stdin()
        async with asyncio.timeout(_PROBE):
            while b"\n" not in out and (chunk := await child.read()):
                out += chunk
    except TimeoutError:
        pass
    finally:
        await stop_child(child, _PATIENCE)
    lines = out.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:80] if lines else ""
