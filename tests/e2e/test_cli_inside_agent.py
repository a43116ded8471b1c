"""The command line as an agent calls it: little is allowed, and no daemon is started (07.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, data, failure, quiet_session, run, started
from tests.support.homes import new_home, processes_of, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """A home with `caller`, the agent that calls, and `other`, in another tree."""
    with new_home() as path:
        quiet_session(path, "caller")
        quiet_session(path, "other")
        yield path


def outcome(home: Path, words: str, session: str = "caller") -> tuple[int, str]:
    """Exit code and output of a command that the agent of `session` runs in a turn."""
    said = run(home, "send", session, "--wait", f"{COMMAND} {words} 2>&1; echo exit=$?")
    match = re.search(r"exit=(\d+)\s*$", said)
    assert match is not None, said
    return int(match[1]), said[: match.start()]


def test_an_agent_sees_its_own_tree_only(shared: Path) -> None:
    code, said = outcome(shared, "ls")
    assert code == 0 and "caller" in said and "other" not in said
    code, said = outcome(shared, "show caller --json")
    assert code == 0 and '"name":"caller"' in said


def test_an_agent_may_spawn_a_child_and_talk_to_it(shared: Path) -> None:
    code, said = outcome(shared, "spawn --name mine 'echo born'")
    assert code == 0
    child = data(shared, "show", said.strip())
    assert child["parent_id"] == data(shared, "show", "caller")["session_id"]
    run(shared, "wait", child["session_id"], "--timeout", "20s")
    code, said = outcome(shared, "send mine --wait 'echo of mine'")
    assert (code, said) == (0, "of mine\n")
    code, said = outcome(shared, "log mine")
    assert code == 0 and "born" in said
    assert outcome(shared, "wait mine --until idle --timeout 10s")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        "rm caller --yes",
        "rename caller changed",
        "archive caller",
        "stop caller",
        "wake caller",
        "retry caller",
        "cancel caller",
        "answer caller --option once",
        "explain caller",
        "restore {other}",
        "rm {other} --purge --yes",
        "agents",
        "daemon stop --force",
        "daemon restart",
        "daemon status",
    ],
)
def test_what_is_for_people_is_refused(shared: Path, words: str) -> None:
    other = data(shared, "show", "other")["session_id"]
    code, said = outcome(shared, words.format(other=other) + " --json")
    assert code == 1 and '"code":"refused"' in said
    assert data(shared, "show", "other")["session_id"] == other
    assert data(shared, "show", "caller")["archived"] is False


def test_an_agent_cannot_answer_its_own_permission(shared: Path) -> None:
    """A process it left behind tries to answer while the agent asks."""
    asker = quiet_session(shared, "asker")
    go, heard = shared / "go", shared / "heard"
    tries = f"{COMMAND} answer {asker} --option once --json; echo exit=$?"
    left_behind = f"(until [ -e {go} ]; do sleep 0.1; done; {tries}) >{heard} 2>&1 </dev/null &"
    run(shared, "send", asker, "--wait", left_behind)
    run(shared, "send", asker, "?echo secret")
    wait_until(lambda: data(shared, "show", asker)["waiting"] is not None)
    go.touch()
    wait_until(lambda: "exit=" in heard.read_text())
    assert '"code":"refused"' in heard.read_text() and "exit=1" in heard.read_text()
    assert data(shared, "show", asker)["waiting"] is not None
    run(shared, "cancel", asker)


@pytest.mark.parametrize("words", ["send other hi", "log other", "spawn --parent other true"])
def test_another_tree_is_out_of_sight(shared: Path, words: str) -> None:
    code, said = outcome(shared, f"{words} --json")
    assert code == 3 and '"code":"not_found"' in said


@pytest.mark.parametrize("words", ["rm {other} --yes", "send {other} hi", "log {other}"])
def test_another_tree_by_its_id_is_refused(shared: Path, words: str) -> None:
    other = data(shared, "show", "other")["session_id"]
    code, said = outcome(shared, words.format(other=other) + " --json")
    assert code == 1 and '"code":"refused"' in said


def test_a_person_is_not_taken_for_an_agent(shared: Path) -> None:
    """The variable alone makes no agent; it only keeps a daemon from being started."""
    caller = data(shared, "show", "caller")["session_id"]
    assert data(shared, "ls", AGENTS_VIEW_SESSION_ID=caller)


@pytest.mark.parametrize("words", [["ls"], ["new", "true"], ["daemon", "start"]])
def test_a_command_inside_an_agent_never_starts_a_daemon(home: Path, words: list[str]) -> None:
    inside = {"AGENTS_VIEW_SESSION_ID": "0" * 32, "AGENTS_VIEW_DAEMON_ENVIRONMENT_TIMEOUT": "1"}
    error = failure(home, *words, code=4, **inside)
    assert error == "unavailable"
    assert not processes_of(home)


def test_daemon_run_inside_an_agent_is_refused(home: Path) -> None:
    with started(home, "daemon", "run", AGENTS_VIEW_SESSION_ID="0" * 32) as process:
        try:
            assert process.wait(5) == 1
        finally:
            process.kill()
