"""The catalogue of agents (spec 08.4): ours, the user's over it, what is found, what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agents_view.acp import catalogue
from agents_view.acp.catalogue import SHELL, argv_of, find, find_all, load_catalogue, versions
from agents_view.base.settings import AgentEntry

KNOWN = {
    *("shell", "claude", "codex", "gemini", "opencode", "copilot", "qwen", "pi", "vibe", "hermes"),
    *("fast-agent", "cursor", "goose", "kimi", "kiro", "auggie", "droid", "junie", "qoder"),
    *("kilocode", "cline", "openhands", "openclaw"),
}


def program(folder: Path, name: str, text: str = "#!/bin/sh\necho 1.2.3\n") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_08_4_the_known_agents_are_there_with_all_a_person_needs() -> None:
    agents = load_catalogue({}).agents
    assert set(agents) == KNOWN
    for key, entry in agents.items():
        assert entry.label, key
        assert key == SHELL or (entry.command and entry.install_hint), key


def test_08_4_a_users_entry_is_added_and_one_key_of_ours_overridden() -> None:
    own = {"mine": AgentEntry(command="my-agent"), "qwen": AgentEntry(args=("--acp", "-x"))}
    merged = load_catalogue(own)
    assert merged.agents["mine"].command == "my-agent"
    assert merged.agents["qwen"].args == ("--acp", "-x")
    assert merged.agents["qwen"].command == "qwen"
    assert merged.problems == ()
    assert load_catalogue({}).agents["qwen"].args == ("--acp",)


def test_08_4_a_bad_entry_is_skipped_and_named_and_the_others_load() -> None:
    merged = load_catalogue({"broken": AgentEntry(label="x"), "fine": AgentEntry(command="f")})
    assert "broken" not in merged.agents and "fine" in merged.agents
    assert merged.problems == ("[agents.broken] has no command: skipped",)


def test_the_built_in_shell_needs_no_command() -> None:
    entry = load_catalogue({}).agents[SHELL]
    assert argv_of(SHELL, entry) == (sys.executable, "-m", "agents_view.agents.shell")
    assert find(SHELL, entry, "/nowhere").found


def test_a_command_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = program(tmp_path, "agent")
    entry = AgentEntry(command="~/agent", args=("a",))
    assert argv_of("x", entry) == (str(path), "a")
    assert find("x", entry, "").found


def test_what_is_not_found_says_how_to_get_it(tmp_path: Path) -> None:
    entry = AgentEntry(command="thing", install_hint="npm i thing")
    missing = find("x", entry, str(tmp_path))
    assert (missing.found, missing.hint) == (False, "npm i thing")
    program(tmp_path, "thing").chmod(0o644)
    plain = find("x", entry, str(tmp_path))
    assert (plain.found, plain.hint) == (False, f"{tmp_path / 'thing'} is not executable")


def test_what_an_agent_needs_beside_itself_is_named(tmp_path: Path) -> None:
    program(tmp_path, "thing")
    entry = AgentEntry(command="thing", requires=("pi",), install_hint="npm i pi")
    assert find("x", entry, str(tmp_path)).hint == "needs pi: npm i pi"
    program(tmp_path, "pi")
    assert find("x", entry, str(tmp_path)).found


def test_found_agents_come_first_and_shell_before_all(tmp_path: Path) -> None:
    program(tmp_path, "qwen")
    keys = [item.key for item in find_all(load_catalogue({}), str(tmp_path))]
    assert keys[:2] == [SHELL, "qwen"] and set(keys) == KNOWN


async def test_versions_are_asked_and_one_that_hangs_costs_no_more_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_PROBE", 0.5)
    program(tmp_path, "good")
    program(tmp_path, "hangs", "#!/bin/sh\nexec sleep 1000\n")
    program(tmp_path, "empty", "#!/bin/sh\n")
    program(tmp_path, "broken", "no interpreter here")
    entries = {name: AgentEntry(command=name) for name in ("good", "hangs", "empty", "broken")}
    found = [find(key, entry, str(tmp_path)) for key, entry in entries.items()]
    assert all(item.found for item in found)
    assert (await versions(found)).get("good") == "1.2.3"
    assert not {"hangs", "empty"} & set(await versions(found))
