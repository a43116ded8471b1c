"""kill -9 of anything of ours at any moment loses nothing and repeats nothing (05.6, 07.4)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from daemon_client import connect
from daemon_client.ids import new_id
from daemon_client.paths import paths_for
from daemon_client.protocol import SessionChunk
from daemon_client.protocol.transcript import TurnEndEntry
from daemon_client.status import label_of, section_of
from tests.daemon.test_sessions import ENV, entries, idle, new, said
from tests.support import homes
from tests.support.homes import eventually, until


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_supervisor_killed_in_mid_turn_and_the_turn_goes_on(
    client, home: Path, tmp_path: Path
) -> None:
    """The same worker lives on, the output is complete, nothing runs twice."""
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    out = tmp_path / "out"
    steps = "; ".join(f"echo {n} >> {out}; sleep 0.05" for n in range(60))
    row = await new(client, steps)
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    workers = homes.workers_of(home)
    for _ in range(6):
        await asyncio.sleep(dice.uniform(0.0, 0.25))
        kill(homes.supervisors_of(home))
        async with connect(home) as other:
            await other.follow()
            assert other.mirror.get(row.session_id).worker_pid == workers[0]
        assert homes.workers_of(home) == workers
    await until(client, row.session_id, idle)
    assert lines(out) == [str(n) for n in range(60)]
    ends = [e for e in await entries(client, row.session_id) if isinstance(e, TurnEndEntry)]
    assert [e.stop_reason for e in ends] == ["end_turn"]


async def test_worker_killed_interrupts_the_turn_and_delivers_the_queue(
    client, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    row = await new(client, f"echo a >> {out}; sleep 1000")
    for word in "bcd":
        await client.conversation.prompt(row.session_id, f"echo {word} >> {out}")
    await eventually(lambda: lines(out) == ["a"])
    first = homes.workers_of(home)
    kill(first)
    recovering = await until(client, row.session_id, lambda r: r.worker_state == "recovering")
    assert (section_of(recovering), label_of(recovering, 0)) == ("idle", "recovering")
    await until(client, row.session_id, lambda r: idle(r) and r.worker_state == "ready")
    await until(client, row.session_id, lambda r: not r.queued and r.turn is None)
    assert lines(out) == ["a", "b", "c", "d"]
    assert homes.workers_of(home) != first and len(homes.workers_of(home)) == 1
    ends = [e for e in await entries(client, row.session_id) if isinstance(e, TurnEndEntry)]
    assert [e.stop_reason for e in ends] == ["interrupted", "end_turn", "end_turn", "end_turn"]
    assert not [p for p in homes.processes_of(home) if "1000" in p.cmdline()]


async def test_05_6_a_worker_that_keeps_crashing_fails_visibly_and_retry_helps(
    client, home: Path
) -> None:
    row = await new(client, "echo x")
    await until(client, row.session_id, idle)
    seen: set[int] = set()
    for _ in range(4):
        await eventually(lambda known=seen: bool(set(homes.workers_of(home)) - known))
        fresh = set(homes.workers_of(home)) - seen
        seen |= fresh
        await until(client, row.session_id, lambda r: r.worker_state in ("ready", None))
        kill(list(fresh))
        await until(client, row.session_id, lambda r: r.worker_state in ("recovering", "failed"))
    failed = await until(client, row.session_id, lambda r: r.worker_state == "failed")
    assert "SIGKILL" in (failed.exit_cause or "") or "nobody saw" in (failed.exit_cause or "")
    await client.sessions.retry(row.session_id)
    await client.conversation.prompt(row.session_id, "echo again")
    await until(client, row.session_id, lambda r: idle(r) and r.worker_state == "ready")


@pytest.mark.parametrize(
    "point",
    ["worker.before_sent", "worker.after_sent", "worker.after_prompt", "worker.before_done"],
)
async def test_worker_killed_at_each_step_of_a_turn(
    home: Path, tmp_path: Path, point: str, monkeypatch
) -> None:
    """A prompt runs at most once; one that was not sent yet runs exactly once."""
    monkeypatch.setenv("AGENTS_VIEW_FAILPOINT", point)
    monkeypatch.setenv("AGENTS_VIEW_FAILPOINT_ONCE", str(tmp_path))
    out = tmp_path / "out"
    async with homes.running(home) as client:
        row = await new(client, f"echo a >> {out}")
        await client.conversation.prompt(row.session_id, f"echo b >> {out}")
        await eventually(lambda: (tmp_path / point).exists())
        await until(
            client,
            row.session_id,
            lambda r: r.worker_state == "ready" and not r.queued and r.turn is None,
        )
        await eventually(lambda: lines(out)[-1:] == ["b"])
        ran = ["b"] if point == "worker.after_sent" else ["a", "b"]
        assert lines(out) == ran
        rows = sqlite3.connect(homes.database(home)).execute("SELECT state FROM prompts")
        interrupted = point != "worker.before_sent"
        assert sorted(r[0] for r in rows) == (
            ["done", "interrupted"] if interrupted else ["done", "done"]
        )
        await homes.stop(client)


@pytest.mark.parametrize(
    "point", ["supervisor.after_begin", "supervisor.after_spawn", "supervisor.booted"]
)
async def test_supervisor_killed_while_it_starts_a_worker(
    home: Path, tmp_path: Path, point: str, monkeypatch
) -> None:
    """The request goes on under its id: one session, one worker, one run."""
    monkeypatch.setenv("AGENTS_VIEW_FAILPOINT", point)
    monkeypatch.setenv("AGENTS_VIEW_FAILPOINT_ONCE", str(tmp_path))
    out = tmp_path / "out"
    async with homes.running(home) as client:
        row = await new(client, f"echo a >> {out}")
        await until(client, row.session_id, lambda r: idle(r) and r.worker_state == "ready")
        assert (tmp_path / point).exists()
        assert lines(out) == ["a"]
        assert len(homes.workers_of(home)) == 1 and len(client.mirror) == 1
        await homes.stop(client)


async def test_everything_killed_at_once_like_a_power_cut(home: Path, tmp_path: Path) -> None:
    """S52: the tree is recorded as asleep, its turn as interrupted; what was queued goes out."""
    out = tmp_path / "out"
    async with homes.running(home) as client:
        row = await new(client, f"echo a >> {out}; sleep 1000")
        await client.conversation.prompt(row.session_id, f"echo b >> {out}")
        quiet = await new(client, "echo quiet")
        await until(client, quiet.session_id, idle)
        await eventually(lambda: lines(out) == ["a"])
    homes.kill_all(home)
    async with homes.running(home) as client:
        await until(client, row.session_id, lambda r: idle(r) and not r.queued and not r.turn)
        assert lines(out) == ["a", "b"]
        asleep = client.mirror.get(quiet.session_id)
        assert (section_of(asleep), asleep.worker_state) == ("inactive", None)
        assert await said(client, quiet.session_id) == "quiet"
        await homes.stop(client)


async def test_05_6_a_worker_without_supervisor_starts_one(client, home: Path) -> None:
    row = await new(client, "sleep 1000")
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    await client.connection.close()
    kill(homes.supervisors_of(home))
    await eventually(lambda: len(homes.supervisors_of(home)) == 1, within=12)
    async with homes.running(home) as other:
        assert other.mirror.get(row.session_id).pending_tools == 1
        await homes.stop(other)


async def test_05_7_restart_leaves_the_workers_alone(client, home: Path) -> None:
    row = await new(client, "sleep 1000")
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    before = (homes.supervisors_of(home), homes.workers_of(home))
    await client.service.shutdown(restart=True)
    await eventually(lambda: homes.supervisors_of(home) not in ([], before[0]))
    assert homes.workers_of(home) == before[1]
    status = await client.service.status()
    assert [w.pid for w in status.workers] == before[1]
    assert client.mirror.get(row.session_id).pending_tools == 1


async def test_07_1_eight_clients_on_an_empty_home_make_one_daemon(home: Path) -> None:
    code = "import asyncio,sys\nfrom daemon_client import connect\n"
    code += "async def main():\n async with connect() as c: print((await c.service.status()).pid)\n"
    code += "asyncio.run(main())"
    clients = [
        subprocess.Popen(
            [homes.PYTHON, "-c", code], env=homes.environment(home), stdout=subprocess.PIPE
        )
        for _ in range(8)
    ]
    answers = [c.communicate(timeout=40)[0] for c in clients]
    assert [c.returncode for c in clients] == [0] * 8
    assert len(set(answers)) == 1
    assert len(homes.supervisors_of(home)) == 1


async def test_s50_stop_is_refused_by_name_and_forced_leaves_nothing(client, home: Path) -> None:
    row = await new(client, "setsid sleep 1000 & sleep 1000", name="busy-one")
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    with pytest.raises(Exception, match="1 working") as caught:
        await client.service.shutdown()
    assert caught.value.detail == ("busy-one",)
    await client.service.shutdown(force=True)
    await eventually(lambda: not homes.processes_of(home))
    assert not paths_for(home).socket.exists()
    assert paths_for(home).daemon_lock.exists()


async def test_a_request_sent_again_to_the_next_supervisor_is_not_run_twice(
    client, home: Path, tmp_path: Path
) -> None:
    from daemon_client.protocol.commands import Prompt

    out = tmp_path / "out"
    row = await client.sessions.create("shell", "/tmp", environ=ENV)
    key = new_id()
    prompt = Prompt(session_id=row.session_id, text=f"echo a >> {out}")
    await client.connection.request(prompt, request_id=key)
    await until(client, row.session_id, idle)
    kill(homes.supervisors_of(home))
    await client.connection.request(prompt, request_id=key)
    await client.conversation.prompt(row.session_id, "echo end")
    await until(client, row.session_id, lambda r: idle(r) and r.message_count >= 3)
    assert lines(out) == ["a"]


async def test_followers_see_the_interruption_after_a_worker_crash(client, home: Path) -> None:
    """What is settled between two workers reaches whoever is attached."""
    row = await new(client, "sleep 1000")
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    seen: list[str] = []
    told = asyncio.Event()

    def take(message) -> None:
        if isinstance(message, SessionChunk):
            seen.extend(e.stop_reason for e in message.entries if isinstance(e, TurnEndEntry))
            if seen:
                told.set()

    client.connection.on_push(take)
    await client.conversation.attach(row.session_id)
    kill(homes.workers_of(home))
    await asyncio.wait_for(told.wait(), 15)
    assert seen[0] == "interrupted"
