"""`send`, `log`, `wait`, `cancel`, `answer` against a real daemon (spec 09)."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agents_view.base.settings import DaemonSettings
from tests.support.command_line import (
    data,
    entries_of,
    failure,
    quiet_session,
    run,
    started,
    words_of,
)
from tests.support.homes import PYTHON, cli, environment, new_home, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with new_home() as path:
        yield path


def waiting(home: Path, session_id: str) -> bool:
    return data(home, "show", session_id)["waiting"] is not None


def asking(home: Path, name: str) -> str:
    """A session that waits for a permission; its id."""
    session_id = quiet_session(home, name)
    run(home, "send", session_id, "?echo allowed")
    wait_until(lambda: waiting(home, session_id))
    return session_id


def rest_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What comes after `readline`, to the end (`communicate` would miss what that had buffered)."""
    assert process.stdout is not None and process.stderr is not None
    shown = process.stdout.read(), process.stderr.read()
    process.wait(20)
    return shown


# --- send


def test_send_is_durable_when_it_returns_and_says_its_place(shared: Path) -> None:
    session_id = quiet_session(shared, "queue")
    assert run(shared, "send", "queue", "sleep 1; echo one") == ""
    accepted = data(shared, "send", "queue", "echo two")
    assert set(accepted) == {"session_id", "prompt_id", "position"}
    assert accepted["session_id"] == session_id
    run(shared, "wait", session_id, "--timeout", "20s")
    assert words_of(shared, session_id) == "onetwo"


def test_send_wait_prints_the_answer_to_this_prompt_only(shared: Path) -> None:
    session_id = quiet_session(shared, "asked")
    run(shared, "send", "asked", "sleep 1; echo before")
    assert run(shared, "send", "asked", "--wait", "echo answer") == "answer\n"
    answer = data(shared, "send", "asked", "--wait", "echo again")
    expected = {"session_id": session_id, "stop_reason": "end_turn", "text": "again"}
    assert answer == answer | expected


def test_send_reads_standard_input(shared: Path) -> None:
    quiet_session(shared, "reader")
    text = "echo 'two\nlines'"
    assert run(shared, "send", "reader", "-", "--wait", stdin=text) == "two\nlines\n"
    assert failure(shared, "send", "reader", "-", code=2, stdin="") == "invalid"


def test_send_wait_wakes_a_session_that_was_stopped(shared: Path) -> None:
    quiet_session(shared, "asleep")
    run(shared, "stop", "asleep")
    assert run(shared, "send", "asleep", "--wait", "echo awake") == "awake\n"


def test_steer_cancels_the_turn_under_way(shared: Path) -> None:
    session_id = quiet_session(shared, "steered")
    run(shared, "send", "steered", "sleep 100")
    assert run(shared, "send", "steered", "--steer", "--wait", "echo now") == "now\n"
    ends = [e["stop_reason"] for e in entries_of(shared, session_id) if e["kind"] == "turn_end"]
    assert ends[-2:] == ["cancelled", "end_turn"]


def test_a_turn_that_was_cut_off_is_exit_1(shared: Path) -> None:
    session_id = quiet_session(shared, "cut")
    with started(shared, "send", "cut", "--wait", "--json", "sleep 100") as sender:
        wait_until(lambda: data(shared, "show", session_id)["pending_tools"] == 1)
        assert data(shared, "cancel", "cut")["done"] is True
        out, _ = sender.communicate(timeout=20)
    assert sender.returncode == 1
    assert msgspec.json.decode(out)["stop_reason"] == "cancelled"
    assert failure(shared, "cancel", "cut", code=1) == "conflict"


def test_send_wait_lives_through_a_restart_of_the_daemon(home: Path) -> None:
    session_id = quiet_session(home, "survivor")
    with started(home, "send", "survivor", "--wait", "sleep 3; echo survived") as sender:
        wait_until(lambda: data(home, "show", session_id)["pending_tools"] == 1)
        run(home, "daemon", "restart")
        out, error = sender.communicate(timeout=30)
    assert (sender.returncode, out, error) == (0, "survived\n", "")


# --- needs a person


def test_wait_ends_with_exit_6_when_a_person_is_needed(shared: Path) -> None:
    quiet_session(shared, "needy")
    ran = cli(shared, "send", "needy", "--wait", "?echo secret")
    assert ran.returncode == 6 and ran.stdout == "" and "echo secret" in ran.stderr
    assert failure(shared, "new", "?echo x", "--wait", code=6) == "needs_person"


def test_answer_lists_and_answers(shared: Path) -> None:
    session_id = asking(shared, "asks")
    (request,) = data(shared, "answer", "asks")
    assert {"request_id", "kind", "text", "options", "since_ms"} <= set(request)
    assert {"id", "kind", "name"} == set(request["options"][0])
    assert "echo allowed" in run(shared, "answer", "asks")
    assert failure(shared, "answer", "asks", "--option", "nosuch", code=2) == "invalid"
    done = data(
        shared, "answer", "asks", "--request", request["request_id"], "--option", "allow_once"
    )
    assert done["done"] is True
    run(shared, "wait", session_id, "--timeout", "20s")
    assert words_of(shared, session_id).endswith("allowed")
    assert data(shared, "answer", "asks") == []
    assert failure(shared, "answer", "asks", "--option", "allow_once", code=1) == "conflict"


def test_an_option_may_be_named_by_its_id(shared: Path) -> None:
    session_id = asking(shared, "rejects")
    run(shared, "answer", "rejects", "--option", "no")
    run(shared, "wait", session_id, "--timeout", "20s")
    assert words_of(shared, session_id) == "not run: echo allowed"


# --- wait


def test_wait_times_out_with_exit_5(shared: Path) -> None:
    session_id = quiet_session(shared, "slow")
    error = failure(shared, "wait", session_id, "--until", "gone", "--timeout", "300ms", code=5)
    assert error == "timeout"
    ran = cli(shared, "wait", session_id, "--until", "running", "--timeout", "0.3s")
    assert ran.returncode == 5 and "not running within 0.3s" in ran.stderr


@pytest.mark.parametrize(
    ("until", "cause"),
    [
        ("running", ["send", "{id}", "sleep 2"]),
        ("needs-you", ["send", "{id}", "?true"]),
        ("inactive", ["stop", "{id}"]),
        ("gone", ["rm", "{id}", "--yes"]),
    ],
)
def test_wait_sees_what_happens_meanwhile(shared: Path, until: str, cause: list[str]) -> None:
    session_id = quiet_session(shared, f"waits {until}")
    with started(shared, "wait", session_id, "--until", until, "--timeout", "20s") as waiter:
        run(shared, *(word.format(id=session_id) for word in cause))
        assert waiter.wait(20) == 0


def test_wait_prints_the_row(shared: Path) -> None:
    session_id = quiet_session(shared, "row")
    assert data(shared, "wait", "row")["session_id"] == session_id


def test_an_interrupt_is_exit_130_and_quiet(shared: Path) -> None:
    session_id = quiet_session(shared, "interrupted")
    with started(shared, "log", session_id, "--follow", "--json") as follower:
        assert follower.stdout is not None and follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        _, error = rest_of(follower)
    assert (follower.returncode, error) == (130, "")


# --- log


def test_log_tail_is_the_end_in_order(shared: Path) -> None:
    session_id = quiet_session(shared, "logged", "echo hello")
    everything = entries_of(shared, session_id)
    assert [entry["seq"] for entry in everything] == list(range(1, len(everything) + 1))
    assert everything[0]["kind"] == "prompt" and everything[-1]["kind"] == "turn_end"
    assert entries_of(shared, session_id, "--tail", "2") == everything[-2:]
    assert entries_of(shared, session_id, "--tail", "9999") == everything


def test_a_long_log_comes_in_pages_and_whole(shared: Path) -> None:
    session_id = quiet_session(shared, "long", "echo the first")
    for _ in range(4):
        run(
            shared,
            "send",
            session_id,
            "--wait",
            "yes wide wide wide | fold -w 500 | head -c 200000",
        )
    everything = entries_of(shared, session_id)
    assert len(msgspec.json.encode(everything)) > DaemonSettings().transcript_page
    assert [entry["seq"] for entry in everything] == list(range(1, len(everything) + 1))
    assert "the first" in run(shared, "log", session_id)


def test_follow_shows_the_tail_then_what_comes_and_ends_with_the_session(shared: Path) -> None:
    session_id = quiet_session(shared, "followed")
    with started(shared, "log", session_id, "--follow", "--json") as follower:
        assert follower.stdout is not None
        first = msgspec.json.decode(follower.stdout.readline())
        run(shared, "send", session_id, "--wait", "echo live")
        run(shared, "rm", session_id, "--yes")
        out, error = rest_of(follower)
    entries = [first, *map(msgspec.json.decode, out.splitlines())]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [e["text"] for e in entries if e["kind"] == "message"] == ["live"]
    assert follower.returncode == 0 and "Traceback" not in error


def test_follow_goes_on_after_a_restart_of_the_daemon(home: Path) -> None:
    session_id = quiet_session(home, "followed on")
    with started(home, "log", session_id, "--follow", "--json") as follower:
        assert follower.stdout is not None and follower.stdout.readline()
        run(home, "daemon", "restart")
        run(home, "send", session_id, "--wait", "echo after")
        run(home, "rm", session_id, "--yes")
        out, _ = rest_of(follower)
    sequence = [msgspec.json.decode(line)["seq"] for line in out.splitlines()]
    assert sequence == list(range(2, 2 + len(sequence))), "nothing twice, nothing missing"
    assert '"text":"after"' in out


def test_head_has_enough_of_a_followed_log(shared: Path) -> None:
    session_id = quiet_session(shared, "headed live")
    with started(shared, "log", session_id, "--follow", "--json") as follower:
        assert follower.stdout is not None and follower.stdout.readline()
        follower.stdout.close()
        try:
            run(shared, "send", session_id, "--wait", "echo one")
            run(shared, "send", session_id, "--wait", "echo two")
            assert follower.wait(5) == 0
        finally:
            follower.kill()


@pytest.mark.parametrize("words", [["log", "--follow"], ["wait", "--until", "running"]])
def test_what_follows_a_daemon_that_is_stopped_ends_with_exit_4(
    home: Path, words: list[str]
) -> None:
    session_id = quiet_session(home, "left alone")
    with started(home, *words, session_id) as follower:
        try:
            wait_until(lambda: data(home, "daemon", "status")["clients"] >= 2)
            run(home, "daemon", "stop", "--force")
            assert follower.wait(5) == 4
        finally:
            follower.kill()


def test_a_session_that_goes_away_did_not_become_what_was_waited_for(shared: Path) -> None:
    session_id = quiet_session(shared, "never idle")
    with started(shared, "wait", session_id, "--until", "needs-you", "--json") as waiter:
        # it is deleted once the waiter is connected: with the client of the status itself, two
        wait_until(lambda: data(shared, "daemon", "status")["clients"] >= 2)
        run(shared, "rm", session_id, "--yes")
        out, _ = waiter.communicate(timeout=20)
    assert waiter.returncode == 3 and msgspec.json.decode(out)["error"]["code"] == "not_found"


def test_steer_past_a_question_waits_for_the_new_answer(shared: Path) -> None:
    session_id = asking(shared, "asks too much")
    assert run(shared, "send", session_id, "--steer", "--wait", "echo instead") == "instead\n"


@pytest.mark.parametrize("where", ["prompt", "environment"])
def test_bytes_that_are_no_utf8_are_no_traceback(shared: Path, where: str) -> None:
    odd = b"echo \xff" if where == "prompt" else b"true"
    more = {} if where == "prompt" else {b"ODD": b"\xff"}
    ran = subprocess.run(
        [PYTHON, "-m", "agents_view.cli.main", "new", odd],
        env={k.encode(): v.encode() for k, v in environment(shared).items()} | more,
        capture_output=True,
        timeout=30,
    )
    assert b"Traceback" not in ran.stderr


def test_head_has_enough_quietly(shared: Path) -> None:
    session_id = quiet_session(shared, "headed", "for i in $(seq 3000); do echo line $i; done")
    for words in (f"log {session_id} --json", f"log {session_id}", "ls --json", "ls"):
        ran = subprocess.run(
            f"set -o pipefail; {PYTHON} -m agents_view.cli.main {words} | head -c 1",
            shell=True,
            executable="/bin/bash",
            env=environment(shared),
            capture_output=True,
            timeout=30,
        )
        assert (ran.returncode, ran.stderr, len(ran.stdout)) == (0, b"", 1), words
