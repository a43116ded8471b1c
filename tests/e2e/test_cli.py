"""Every command against a real daemon: what it prints, in which shape, and its exit code (09)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import ROW_KEYS, data, failure, quiet_session, run, words_of
from tests.support.homes import PYTHON, cli, environment, new_home


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """One home for the tests that mind their own sessions only."""
    with new_home() as path:
        yield path


# --- sessions


def test_r1_new_is_running_at_once_then_idle_and_its_log_holds_the_answer(shared: Path) -> None:
    made = data(shared, "new", "sleep 1; echo done", "--cwd", "/tmp")
    assert set(made) == ROW_KEYS
    (row,) = [r for r in data(shared, "ls") if r["session_id"] == made["session_id"]]
    assert row["section"] == "running" and set(row) == ROW_KEYS
    run(shared, "wait", made["session_id"], "--until", "idle", "--timeout", "20s")
    assert words_of(shared, made["session_id"]) == "done"
    assert "done" in run(shared, "log", made["session_id"])


def test_new_prints_the_id_and_works_where_it_is_told(shared: Path, tmp_path: Path) -> None:
    printed = run(shared, "new", "pwd", "--cwd", str(tmp_path)).strip()
    assert len(printed) == 32
    run(shared, "wait", printed, "--timeout", "20s")
    assert words_of(shared, printed) == str(tmp_path)
    assert [r["session_id"] for r in data(shared, "ls", "--cwd", str(tmp_path))] == [printed]


def test_new_wait_prints_the_answer(shared: Path) -> None:
    assert run(shared, "new", "echo hello", "--wait") == "hello\n"
    answer = data(shared, "new", "echo hello", "--wait")
    assert set(answer) >= {"session_id", "stop_reason", "text"}
    assert (answer["stop_reason"], answer["text"]) == ("end_turn", "hello")


def test_a_session_that_cannot_be_made_says_why(shared: Path) -> None:
    assert failure(shared, "new", "--agent", "nosuch", code=2) == "invalid"
    assert failure(shared, "new", "--cwd", "/nonexistent", code=2) == "invalid"


def test_what_a_person_has_in_the_environment_reaches_the_agent(shared: Path) -> None:
    answer = run(shared, "new", 'echo "$COLOUR"', "--wait", COLOUR="green")
    assert answer == "green\n"


def test_spawn_makes_a_child_and_needs_a_parent(shared: Path) -> None:
    parent = quiet_session(shared, "parent")
    child = data(shared, "spawn", "true", "--parent", "parent")
    assert set(child) == ROW_KEYS
    assert (child["parent_id"], child["root_id"], child["depth"]) == (parent, parent, 1)
    assert failure(shared, "spawn", "true", code=2) == "invalid"
    assert failure(shared, "spawn", "true", "--parent", "nobody", code=3) == "not_found"


def test_ls_is_a_table_for_people(shared: Path) -> None:
    session_id = quiet_session(shared, "on the table")
    (line,) = [x for x in run(shared, "ls").splitlines() if session_id[-8:] in x]
    assert "on the table" in line and "needs input" in line and "idle" in line


def test_ls_filters(shared: Path) -> None:
    session_id = quiet_session(shared, "needle-in-hay")

    def found(*words: str) -> bool:
        return any(row["session_id"] == session_id for row in data(shared, "ls", *words))

    assert found("--filter", "needle hay") and not found("--filter", "needle nothing")
    assert found("--section", "idle") and not found("--section", "running")
    assert found("--agent", "shell") and not found("--agent", "claude")
    assert found("--cwd", "/tmp") and not found("--cwd", "/")


def test_archived_ones_are_hidden_until_restored(shared: Path) -> None:
    session_id = quiet_session(shared, "put away")

    def listed(*words: str) -> list[bool]:
        rows = data(shared, "ls", *words)
        return [row["archived"] for row in rows if row["session_id"] == session_id]

    assert data(shared, "archive", "put away")["done"] is True
    assert (listed(), listed("--archived"), listed("--all")) == ([], [True], [True])
    run(shared, "restore", session_id)
    assert (listed(), listed("--archived"), listed("--all")) == ([False], [], [False])


def test_show_and_explain(shared: Path) -> None:
    session_id = quiet_session(shared, "explained")
    assert set(data(shared, "show", "explained")) == ROW_KEYS | {"jobs"}
    assert session_id in run(shared, "show", "explained")
    why = data(shared, "explain", session_id)
    assert set(why) == {"session_id", "section", "label", "evidence", "task"}
    assert (why["section"], why["label"], why["task"]) == ("idle", "needs input", None)
    assert all(set(item) == {"fact", "value", "age_ms", "source"} for item in why["evidence"])
    assert run(shared, "explain", session_id).startswith("idle · needs input\n")


def test_rename_and_the_ways_to_name_a_session(shared: Path) -> None:
    session_id = quiet_session(shared, "old name")
    run(shared, "rename", "old name", "new name")
    for text in (session_id, "new name", session_id[-8:]):
        assert data(shared, "show", text)["session_id"] == session_id
    assert failure(shared, "show", "old name", code=3) == "not_found"
    run(shared, "rename", session_id, "")
    assert data(shared, "show", session_id)["name"] is None


def test_an_ambiguous_name_is_exit_2_with_the_candidates(shared: Path) -> None:
    ids = {quiet_session(shared, "twin"), quiet_session(shared, "twin")}
    error = data(shared, "show", "twin", code=2)["error"]
    assert error["code"] == "ambiguous"
    assert {line.split()[0] for line in error["detail"]} == ids
    ran = cli(shared, "show", "twin")
    assert ran.returncode == 2 and ran.stdout == ""
    assert all(session_id in ran.stderr for session_id in ids)


@pytest.mark.parametrize(
    "words",
    [
        ["show"], ["explain"], ["log"], ["wait"], ["cancel"], ["stop"], ["wake"], ["retry"],
        ["archive"], ["restore"], ["rm"], ["answer"],
    ],
)  # fmt: skip
def test_an_unknown_session_is_exit_3_and_a_sentence(shared: Path, words: list[str]) -> None:
    assert failure(shared, *words, "nobody", code=3) == "not_found"
    ran = cli(shared, *words, "nobody")
    assert (ran.returncode, ran.stdout) == (3, "") and "no session 'nobody'" in ran.stderr


def test_unknown_sessions_of_commands_with_text(shared: Path) -> None:
    assert failure(shared, "send", "nobody", "hi", code=3) == "not_found"
    assert failure(shared, "rename", "nobody", "x", code=3) == "not_found"
    assert failure(shared, "restore", "0" * 32, code=3) == "not_found"
    assert failure(shared, "rm", "0" * 32, "--purge", "--yes", code=3) == "not_found"


def test_stop_wake_and_retry(shared: Path) -> None:
    session_id = quiet_session(shared, "sleeper")
    assert data(shared, "stop", "sleeper")["done"] is True
    assert data(shared, "show", session_id)["section"] == "inactive"
    assert data(shared, "wake", "sleeper")["done"] is True
    run(shared, "wait", session_id, "--until", "idle", "--timeout", "20s")
    assert data(shared, "retry", "sleeper")["done"] is True


def test_rm_needs_yes_without_somebody_to_ask(shared: Path) -> None:
    session_id = quiet_session(shared, "kept")
    ran = cli(shared, "rm", "kept")
    assert ran.returncode == 1 and "delete: kept" in ran.stderr and "--yes" in ran.stderr
    assert data(shared, "show", session_id)["session_id"] == session_id


def test_rm_names_what_goes_along_and_restore_brings_it_back(shared: Path) -> None:
    session_id = quiet_session(shared, "doomed")
    run(shared, "spawn", "sleep 60", "--parent", "doomed", "--name", "busy child")
    ran = cli(shared, "rm", "doomed", "--yes")
    assert ran.returncode == 0 and ran.stdout == ""
    assert re.search("1 subagents?, working: busy child", ran.stderr) and session_id in ran.stderr
    assert failure(shared, "show", session_id, code=3) == "not_found"
    assert data(shared, "restore", session_id)["done"] is True
    assert data(shared, "show", session_id)["name"] == "doomed"
    assert data(shared, "show", "busy child")["parent_id"] == session_id


def test_purge_is_for_good_from_the_roster_and_from_the_trash(shared: Path) -> None:
    live, trashed = quiet_session(shared, "live"), quiet_session(shared, "trashed")
    run(shared, "rm", "trashed", "--yes")
    for session_id in (live, trashed):
        assert data(shared, "rm", session_id, "--purge", "--yes")["done"] is True
        assert failure(shared, "restore", session_id, code=3) == "not_found"


# --- the surroundings


def test_agents_lists_the_catalogue(shared: Path) -> None:
    found = data(shared, "agents")
    assert all(set(a) == {"id", "name", "found", "command", "version", "hint"} for a in found)
    (shell,) = [agent for agent in found if agent["id"] == "shell"]
    assert shell["found"] is True
    assert run(shared, "agents").startswith("shell ")


def test_config_path_check_and_show(tmp_path: Path) -> None:
    assert run(tmp_path, "config", "path") == f"{tmp_path}/config.toml\n"
    assert run(tmp_path, "config", "check") == ""
    assert data(tmp_path, "config", "show")["agent"]["cancel_timeout"] == 10
    (tmp_path / "config.toml").write_text("[agent]\ncancel_timeuot = 3\ncancel_timeout = '1m'\n")
    ran = cli(tmp_path, "config", "check")
    assert ran.returncode == 2
    said = ran.stdout + ran.stderr
    assert "config.toml:2: agent.cancel_timeuot" in said and "did you mean" in said
    assert data(tmp_path, "config", "show")["agent"]["cancel_timeout"] == 60
    assert not (tmp_path / "state").exists(), "no daemon is needed for that"


def test_the_dashboard_without_a_terminal_is_exit_2(tmp_path: Path) -> None:
    ran = cli(tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "") and "needs a terminal" in ran.stderr
    assert not (tmp_path / "state").exists()


_LIST = """
import sys
from agents_view.cli.main import main
code = main(["ls", "--json", "--filter", "x"])
heavy = ("textual", "rich", "sqlite3", "agents_view.daemon", "agents_view.tui")
sys.stderr.write("%s %s" % (code, [name for name in heavy if name in sys.modules]))
"""


def test_ls_json_imports_nothing_heavy(shared: Path) -> None:
    ran = subprocess.run(
        [PYTHON, "-c", _LIST], env=environment(shared), capture_output=True, text=True, timeout=30
    )
    assert ran.stderr == "0 []"
