"""`daemon start|stop|status|restart|run|logs`, and commands that meet none (spec 05.7, 09, S50)."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil
import pytest

from agents_view.cli.service import is_locked
from agents_view.daemon.embedded import EmbeddedDaemon
from daemon_client.paths import paths_for
from tests.support.command_line import data, failure, quiet_session, run, started
from tests.support.homes import (
    cli,
    processes_of,
    supervisors_of,
    wait_until,
    workers_of,
)

STATUS_KEYS = {
    "pid", "version", "protocol", "uptime_ms", "socket", "clients", "sessions", "next_wake_at_ms",
    "workers", "counters",
}  # fmt: skip


def test_without_a_daemon_status_is_exit_4_and_stop_has_nothing_to_do(home: Path) -> None:
    assert failure(home, "daemon", "status", code=4) == "unavailable"
    assert data(home, "daemon", "stop")["done"] is True
    ran = cli(home, "daemon", "stop")
    assert (ran.returncode, ran.stdout) == (0, "") and "no daemon is running" in ran.stderr
    assert not processes_of(home), "neither starts one"


def test_start_status_and_stop(home: Path) -> None:
    assert data(home, "daemon", "start")["done"] is True
    status = data(home, "daemon", "status")
    assert set(status) >= STATUS_KEYS
    assert [status["pid"]] == supervisors_of(home)
    assert isinstance(status["counters"], dict)
    assert str(status["pid"]) in run(home, "daemon", "status")
    assert data(home, "daemon", "start")["done"] is True
    assert supervisors_of(home) == [status["pid"]], "a second start changes nothing"
    run(home, "daemon", "stop")
    wait_until(lambda: not processes_of(home), 2)
    assert failure(home, "daemon", "status", code=4) == "unavailable"


def test_s50_stop_names_who_works_and_refuses(home: Path) -> None:
    run(home, "new", "setsid sleep 1000", "--name", "at work", "--cwd", "/tmp")
    quiet_session(home, "at rest")
    error = data(home, "daemon", "stop", code=1)["error"]
    assert (error["code"], error["detail"]) == ("busy", ["at work"])
    ran = cli(home, "daemon", "stop")
    assert ran.returncode == 1 and "at work" in ran.stderr and "at rest" not in ran.stderr
    assert len(workers_of(home)) == 2
    run(home, "daemon", "stop", "--force")
    # the one in a session of its own is found by its environment
    wait_until(lambda: not processes_of(home), 2)


def test_restart_keeps_workers_and_turns(home: Path) -> None:
    session_id = run(home, "new", "sleep 8; echo same", "--cwd", "/tmp").strip()
    wait_until(lambda: data(home, "show", session_id)["pending_tools"] == 1)
    before, workers = data(home, "daemon", "status"), workers_of(home)
    assert data(home, "daemon", "restart")["done"] is True
    after = data(home, "daemon", "status")
    assert after["pid"] != before["pid"] and workers_of(home) == workers
    assert data(home, "show", session_id)["section"] == "running"
    run(home, "wait", session_id, "--timeout", "20s")
    assert "same" in run(home, "log", session_id)


def test_restart_without_a_daemon_starts_one(home: Path) -> None:
    assert data(home, "daemon", "restart")["done"] is True
    assert len(supervisors_of(home)) == 1


def test_restart_beside_clients_that_bring_it_back_themselves(home: Path) -> None:
    session_id = quiet_session(home, "watched")
    watch = ("wait", session_id, "--until", "running", "--timeout", "60s")
    with started(home, *watch) as one, started(home, *watch) as two:
        wait_until(lambda: data(home, "daemon", "status")["clients"] >= 3)
        for _ in range(3):
            run(home, "daemon", "restart", timeout=20.0)
        assert one.poll() is None and two.poll() is None
        run(home, "send", session_id, "sleep 1")
        assert (one.wait(20), two.wait(20)) == (0, 0)


async def test_a_daemon_inside_a_dashboard_is_stopped_but_not_restarted(home: Path) -> None:
    async with EmbeddedDaemon(home):
        ran = await asyncio.to_thread(cli, home, "daemon", "restart")
        assert ran.returncode == 1 and "part of a dashboard" in ran.stderr
        status = await asyncio.to_thread(data, home, "daemon", "status")
        assert (status["embedded"], status["pid"]) == (True, os.getpid())
        await asyncio.to_thread(run, home, "daemon", "stop")
        assert not is_locked(paths_for(home))


def test_run_is_a_supervisor_in_the_foreground(home: Path) -> None:
    with started(home, "daemon", "run") as process:
        try:
            wait_until(lambda: cli(home, "daemon", "status").returncode == 0)
            assert supervisors_of(home) == [process.pid]
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()
    assert not processes_of(home)


def test_logs_shows_the_end_of_the_log(home: Path) -> None:
    assert failure(home, "daemon", "logs", code=1) == "failed"
    run(home, "daemon", "start")
    assert "supervisor up" in run(home, "daemon", "logs")
    assert len(run(home, "daemon", "logs", "--tail", "1").splitlines()) == 1


def test_logs_follow_goes_over_a_rotation(home: Path) -> None:
    run(home, "daemon", "start")
    log = home / "state" / "logs" / "supervisor.log"
    with started(home, "daemon", "logs", "--follow", "--tail", "0", "--json") as follower:
        assert follower.stdout is not None
        wait_until(lambda: str(log) in _open_files(follower.pid))
        log.rename(log.with_suffix(".1"))
        log.write_text("after the rotation\n")
        assert msgspec.json.decode(follower.stdout.readline()) == {"line": "after the rotation"}
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130


def _open_files(pid: int) -> list[str]:
    return [file.path for file in psutil.Process(pid).open_files()]


def test_another_config_file_is_used_also_by_a_daemon_that_is_started(home: Path) -> None:
    other = home / "other.toml"
    other.write_text('[agents.mine]\ncommand = "/bin/sh"\nlabel = "Mine"\n')
    assert failure(home, "--config", str(home / "none.toml"), "ls", code=2) == "invalid"
    names = [agent["name"] for agent in data(home, "--config", str(other), "agents")]
    assert "Mine" in names


def test_logs_follow_goes_on(home: Path) -> None:
    run(home, "daemon", "start")
    with started(home, "daemon", "logs", "--follow", "--tail", "1") as follower:
        assert follower.stdout is not None and follower.stdout.readline()
        run(home, "daemon", "stop")
        assert follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130


def test_eight_clients_at_once_on_an_empty_home(home: Path) -> None:
    """Must show of issue 2: one daemon, eight exits 0."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: cli(home, "new", f"echo {n}", "--json"), range(8)))
    assert [ran.returncode for ran in made] == [0] * 8, [ran.stderr for ran in made]
    ids = {msgspec.json.decode(ran.stdout)["session_id"] for ran in made}
    assert {row["session_id"] for row in data(home, "ls")} == ids and len(ids) == 8
    assert len(supervisors_of(home)) == 1


def test_a_daemon_that_does_not_answer_is_not_called_stopped(home: Path) -> None:
    run(home, "daemon", "start")
    (pid,) = supervisors_of(home)
    psutil.Process(pid).suspend()
    try:
        ran = cli(home, "daemon", "stop", "--force", timeout=20.0)
    finally:
        psutil.Process(pid).resume()
    assert ran.returncode != 0 and "no daemon is running" not in ran.stderr


def test_the_process_is_gone_when_stop_returns(home: Path) -> None:
    left = []
    for _ in range(6):
        run(home, "daemon", "start")
        (pid,) = supervisors_of(home)
        run(home, "daemon", "stop")
        alive = psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        left.append(alive)
    assert not any(left)


def test_a_home_that_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = cli(tmp_path, "ls", AGENTS_VIEW_HOME=str(tmp_path / "file"))
    assert ran.returncode != 0 and "Traceback" not in ran.stderr


def test_bad_usage_with_json_is_json(home: Path) -> None:
    assert failure(home, "ls", "--section", "asleep", code=2) == "invalid"


@pytest.mark.parametrize("words", [["config", "path"], ["daemon", "logs"]])
def test_every_command_heeds_json(home: Path, words: list[str]) -> None:
    run(home, "daemon", "start")
    data(home, *words)


def test_a_tail_of_none_is_nothing(home: Path) -> None:
    run(home, "daemon", "start")
    assert run(home, "daemon", "logs", "--tail", "0") == ""


def test_purge_from_the_trash_asks_too(home: Path) -> None:
    session_id = quiet_session(home, "in the trash")
    run(home, "rm", session_id, "--yes")
    assert cli(home, "rm", session_id, "--purge").returncode == 1
    run(home, "restore", session_id)
