"""`--wait` ends, and says why, whatever stands in the way of the turn (spec 09)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon_client import connect
from tests.support.command_line import data, failure, quiet_session, run, started
from tests.support.homes import PYTHON, cli, new_home, supervisors_of, wait_until, workers_of

pytestmark = pytest.mark.timeout(90)

_AGENTS = """
[agents.absent]
command = "no-such-program"
[agents.quits]
command = "/bin/sh"
args = ["-c", "echo last words >&2; exit 7"]
[agents.second-time]
command = "/bin/sh"
args = ["-c", "test -e {marker} || exit 7; exec {python} -m agents_view.agents.shell"]
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with new_home() as path:
        text = _AGENTS.format(marker=path / "marker", python=PYTHON)
        (path / "config.toml").write_text(text)
        yield path


def test_an_agent_that_is_not_there_is_exit_1_and_named(shared: Path) -> None:
    ran = cli(shared, "new", "--agent", "absent", "--wait", "hi")
    assert ran.returncode == 1 and ran.stdout == ""
    assert "no-such-program is not on PATH" in ran.stderr


def test_an_agent_that_exits_at_once_each_time(shared: Path) -> None:
    """The row before and after is the same, and still the wait ends."""
    error = data(shared, "new", "--agent", "quits", "--wait", "hi", code=1)["error"]
    assert "exit code 7" in error["message"] and "last words" in error["message"]
    (session,) = [line.split()[1] for line in error["detail"] if line.startswith("session")]
    assert failure(shared, "send", session, "--wait", "again", code=1) == "failed"


def test_the_cause_of_an_earlier_end_is_not_taken_for_this_turns(shared: Path) -> None:
    assert failure(shared, "new", "--agent", "second-time", "--wait", "true", code=1) == "failed"
    (row,) = data(shared, "ls", "--agent", "second-time")
    assert row["exit_cause"] and row["section"] == "inactive"
    (shared / "marker").touch()
    assert run(shared, "send", row["session_id"], "--wait", "echo fine").endswith("fine\n")


async def test_a_prompt_that_somebody_takes_out_of_the_queue(shared: Path) -> None:
    session_id = quiet_session(shared, "queued")
    run(shared, "send", session_id, "sleep 60")
    with started(shared, "send", session_id, "--wait", "echo never") as sender:
        async with connect(shared) as client:
            await client.follow()
            wait_until(lambda: data(shared, "show", session_id)["queued"] == 1)
            plan = await client.sessions.preview_delete(session_id)
            assert plan.queued == ("echo never",)
            queue: list[str] = []
            client.connection.on_push(lambda m: queue.extend(_ids(m)))
            await client.conversation.attach(session_id)
            await client.conversation.attach(session_id)
            await client.conversation.remove_queued(session_id, queue[0])
        out, error = sender.communicate(timeout=20)
    assert (sender.returncode, out) == (1, "") and "out of the queue" in error
    run(shared, "cancel", session_id)


def _ids(message: object) -> list[str]:
    return [prompt.prompt_id for prompt in getattr(message, "queue", ())]


def test_a_worker_that_is_killed_cuts_the_turn_off(home: Path) -> None:
    session_id = quiet_session(home, "cut off")
    with started(home, "send", session_id, "--wait", "sleep 60") as sender:
        wait_until(lambda: data(home, "show", session_id)["pending_tools"] == 1)
        os.kill(workers_of(home)[0], signal.SIGKILL)
        _, error = sender.communicate(timeout=30)
    assert sender.returncode == 1 and "interrupted" in error


def test_a_supervisor_that_is_killed_is_started_again_and_nothing_is_missed(home: Path) -> None:
    quiet_session(home, "hardy")
    command = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done"
    with started(home, "send", "hardy", "--wait", command) as sender:
        wait_until(lambda: data(home, "show", "hardy")["pending_tools"] == 1)
        for _ in range(2):
            (pid,) = supervisors_of(home)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: supervisors_of(home) not in ([], [pid]))
        out, error = sender.communicate(timeout=30)
    assert (sender.returncode, error) == (0, "")
    assert out == "".join(f"line {n}\n" for n in range(1, 7))


def test_s50_a_daemon_that_is_stopped_ends_every_wait(home: Path) -> None:
    """Exit 1 for the turn it cut off, 4 for a prompt that was still queued."""
    quiet_session(home, "stopped")
    with started(home, "send", "stopped", "--wait", "sleep 60") as first:
        wait_until(lambda: data(home, "show", "stopped")["pending_tools"] == 1)
        with started(home, "send", "stopped", "--wait", "echo never") as second:
            wait_until(lambda: data(home, "show", "stopped")["queued"] == 1)
            run(home, "daemon", "stop", "--force")
            errors = [process.communicate(timeout=10)[1] for process in (first, second)]
    assert first.returncode == 1 and "interrupted: daemon stopped" in errors[0]
    assert second.returncode == 4 and "the daemon was stopped" in errors[1]


def test_a_followed_log_tells_of_a_crash(home: Path) -> None:
    quiet_session(home, "crashing")
    with started(home, "log", "crashing", "--follow") as follower:
        run(home, "send", "crashing", "sleep 60")
        wait_until(lambda: data(home, "show", "crashing")["pending_tools"] == 1)
        os.kill(workers_of(home)[0], signal.SIGKILL)
        assert follower.stdout is not None
        lines = []
        while not lines or "interrupted" not in lines[-1]:
            lines.append(follower.stdout.readline())
            assert lines[-1], lines
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130
    assert sum("sleep 60" in line for line in lines) == 2, "the prompt and its tool, once each"
