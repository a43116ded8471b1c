"""Processes by identity (A7, A15): found, watched, ended, and nothing of them left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agents_view.base import processes
from agents_view.base.child import Child, StderrLog, start_child
from agents_view.base.processes import Identity
from agents_view.base.stopping import stop_child
from tests.support.homes import eventually, wait_until

ENV = {"PATH": os.environ["PATH"]}


@contextlib.contextmanager
def sleeper(*words: str, **environ: str) -> Iterator[Identity]:
    """A process that sleeps in a session of its own."""
    null = subprocess.DEVNULL
    pipes = {"stdin": null, "stdout": null, "stderr": null}
    argv = words or ("sleep", "1000")
    process = processes.popen(argv, cwd="/", env=ENV | environ, **pipes)
    try:
        yield processes.identify_child(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)


async def child_of(*argv: str, tmp_path: Path | None = None, **environ: str) -> Child:
    log = StderrLog(tmp_path / "err" if tmp_path else None, 1 << 16, 8)
    return await start_child(argv, cwd="/", env=ENV | environ, stderr=log)


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def zombies() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" and int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def test_a7_an_identity_is_pid_start_and_boot() -> None:
    with sleeper() as one:
        assert processes.identify(one.pid) == one
        assert processes.is_alive(one)
        assert one.boot_id == processes.kernel_boot_id() != ""
        assert processes.group_of(one.pid) == one.pid
        assert processes.memory_of(one.pid) > 0
    assert not processes.is_alive(one)
    assert processes.identify(one.pid) is None


@pytest.mark.parametrize("wrong", [{"start": 1}, {"boot_id": "another boot"}])
def test_a7_a_wrong_identity_is_never_signalled(wrong: dict) -> None:
    with sleeper() as one:
        other = msgspec.structs.replace(one, **wrong)
        assert not processes.is_alive(other)
        assert processes.signal(other, signal.SIGKILL) is False
        assert processes.signal_group(other, signal.SIGKILL) is False
        assert processes.is_alive(one)
        assert processes.signal(one, signal.SIGKILL) is True
        wait_until(lambda: not processes.is_alive(one))


async def test_a7_end_all_leaves_a_wrong_identity_and_a_protected_one_alone() -> None:
    with sleeper() as kept, sleeper() as protected, sleeper() as gone:
        stale = msgspec.structs.replace(kept, start=kept.start + 1)
        me = processes.identify(os.getpid())
        assert me is not None
        await processes.end_all(
            [stale, protected, gone, me],
            5,
            lambda one: one == protected or processes.is_protected(one),
        )
        assert processes.is_alive(kept) and processes.is_alive(protected)
        assert not processes.is_alive(gone)


async def test_a15_end_all_kills_what_ignores_term() -> None:
    with sleeper(*shell("trap '' TERM; while :; do sleep 0.05; done")) as deaf:
        await asyncio.sleep(0.1)  # the trap has to be set; nothing tells when
        await processes.end_all([deaf], 0.2)
        assert not processes.is_alive(deaf)


def test_a_zombie_is_not_alive_and_its_pid_is_still_its_own() -> None:
    with sleeper("true") as one:
        wait_until(lambda: one.pid in zombies())
        assert processes.identify(one.pid) is None
        assert processes.identify_child(one.pid).pid == one.pid
        assert processes.reap(one.pid) == 0
        assert processes.reap(one.pid) is None


def test_descendants_and_ancestors() -> None:
    with sleeper(*shell("sh -c 'sleep 1000 & wait' & setsid sleep 1000 & wait")) as top:
        wait_until(lambda: len(processes.descendants(top.pid)) == 3)
        found = processes.descendants(top.pid)
        deepest = found[-1]
        above = processes.ancestors(deepest.pid)
        assert top in above
        assert above.index(top) < above.index(processes.identify(os.getpid()))
        for one in found:
            processes.signal(one, signal.SIGKILL)


def test_a15_tagged_finds_what_left_its_group() -> None:
    value = uuid.uuid4().hex
    with sleeper(*shell("setsid sleep 1000 & wait"), AGENTS_VIEW_TEST_TAG=value) as top:
        wait_until(lambda: len(processes.tagged("AGENTS_VIEW_TEST_TAG", value)) == 2)
        assert processes.tagged("AGENTS_VIEW_TEST_TAG", value[:-1]) == []
        for one in processes.tagged("AGENTS_VIEW_TEST_TAG", value):
            assert one == top or processes.signal(one, signal.SIGKILL)


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM)])
async def test_wait_exit_reaps_its_child_by_pid(script: str, code: int) -> None:
    with sleeper(*shell(script)) as one, sleeper("true") as other:
        wait_until(lambda: other.pid in zombies())
        assert await processes.wait_exit(one, 10) == code
        assert one.pid not in zombies()
        assert other.pid in zombies(), "somebody else's exit code was taken"


async def test_wait_exit_has_a_bound_and_several_may_wait() -> None:
    with sleeper() as one:
        assert await processes.wait_exit(one, 0.05) is None
        waiting = [asyncio.create_task(processes.wait_exit(one, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        processes.signal(one, signal.SIGKILL)
        assert await asyncio.gather(*waiting) == [-signal.SIGKILL] * 3


async def test_wait_exit_of_a_process_that_is_not_ours() -> None:
    with sleeper(*shell("sleep 1000 & wait")) as top:
        wait_until(lambda: len(processes.descendants(top.pid)) == 1)
        (grandchild,) = processes.descendants(top.pid)
        waiting = asyncio.create_task(processes.wait_exit(grandchild, 10))
        processes.signal(grandchild, signal.SIGKILL)
        assert await waiting == processes.UNKNOWN_EXIT
    gone = Identity(pid=grandchild.pid, start=1, boot_id=grandchild.boot_id)
    assert await processes.wait_exit(gone, 10) == processes.UNKNOWN_EXIT


def test_exit_text_is_for_people() -> None:
    assert processes.exit_text(3) == "exit code 3"
    assert processes.exit_text(-9) == "SIGKILL"
    assert processes.exit_text(-200) == "signal 200"


SUBREAPER = """
import os, subprocess, sys, time
from agents_view.base import processes
processes.become_subreaper()
null = subprocess.DEVNULL
subprocess.run(["sh", "-c", "setsid sh -c 'exit 3' & setsid sleep 0.1 &"], check=True)
mine = processes.popen(["sh", "-c", "exit 5"], stdin=null, stdout=null, stderr=null, cwd="/",
                       env=dict(os.environ))
plain = subprocess.Popen(["sh", "-c", "exit 6"])
count, deadline = 0, time.monotonic() + 20
while count < 2 and time.monotonic() < deadline:
    count += processes.reap_orphans()
    time.sleep(0.01)
print(count, processes.reap(mine.pid), plain.wait())
"""


def test_a15_orphans_are_reaped_and_no_exit_code_of_others_is_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUBREAPER], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["2", "5", "6"]


# --- Child


async def test_10_2_descriptors_and_zombies_are_back_at_the_baseline_after_30_starts(
    tmp_path: Path,
) -> None:
    async def once() -> None:
        child = await child_of(*shell("echo hi; echo err >&2; cat >/dev/null"), tmp_path=tmp_path)
        assert await child.read() == b"hi\n"
        await child.write(b"x\n")
        assert (await stop_child(child, 5)).exit_code == 0

    await once()
    before, dead = len(os.listdir("/proc/self/fd")), zombies()
    for _ in range(30):
        await once()
    assert len(os.listdir("/proc/self/fd")) == before
    assert zombies() == dead


async def test_a15_a_grandchild_that_holds_the_pipes_delays_nothing() -> None:
    child = await child_of(*shell("setsid sleep 1000 & exit 4"))
    async with asyncio.timeout(10):
        assert await child.exited == 4
        report = await stop_child(child, 0.5, None)
    assert report.exit_code == 4 and report.complete


async def test_a15_stop_goes_from_eof_to_term_to_kill() -> None:
    polite = await child_of("cat")
    assert (await stop_child(polite, 5)).exit_code == 0
    deaf = await child_of("sleep", "1000")
    assert (await stop_child(deaf, 0.2)).exit_code == -signal.SIGTERM
    stubborn = await child_of(*shell("trap '' TERM; echo on; while :; do sleep 0.05; done"))
    assert await stubborn.read() == b"on\n"
    assert (await stop_child(stubborn, 0.2)).exit_code == -signal.SIGKILL


async def test_a15_stop_sweeps_what_left_the_group_but_never_a_protected_one() -> None:
    tag = ("AGENTS_VIEW_TEST_TAG", uuid.uuid4().hex)
    child = await child_of(*shell("setsid sleep 1000 & sleep 1000 & wait"), **dict([tag]))
    await eventually(lambda: len(child.tree()) == 2)
    inside = child.tree()
    with sleeper(**dict([tag])) as orphan, sleeper(**dict([tag])) as daemon:
        report = await stop_child(
            child, 0.5, tag, lambda one: one == daemon or processes.is_protected(one)
        )
        assert report.complete
        assert not any(processes.is_alive(one) for one in [*inside, orphan])
        assert processes.is_alive(daemon)


def test_a15_supervisors_workers_and_ourselves_are_protected(tmp_path: Path) -> None:
    loop = "import time; time.sleep(1000)"
    words = (sys.executable, "-c", loop)
    with (
        sleeper(*words, "-m", "agents_view.daemon.worker") as worker,
        sleeper(*words, "-m", "agents_view.agents.shell") as agent,
    ):
        wait_until(lambda: processes.is_protected(worker))
        assert not processes.is_protected(agent)
    me = processes.identify(os.getpid())
    assert me is not None and processes.is_protected(me)


async def test_a15_background_is_what_runs_outside_the_group() -> None:
    tag = ("AGENTS_VIEW_TEST_TAG", uuid.uuid4().hex)
    child = await child_of(*shell("setsid sleep 1000 & sleep 1000 & wait"), **dict([tag]))
    await eventually(lambda: len(child.tree()) == 2)
    (outside,) = child.background(tag)
    assert processes.group_of(outside.pid) == outside.pid
    await stop_child(child, 0.5, tag)


async def test_a6_stderr_is_drained_and_its_tail_kept() -> None:
    child = await child_of(*shell("yes EEEE | head -c 400000 >&2; printf last >&2; echo done"))
    async with asyncio.timeout(20):
        assert await child.read() == b"done\n"
        await child.last_words()
    assert child.stderr.lines()[-1] == "last" and len(child.stderr.lines()) == 9
    await stop_child(child, 5)


async def test_a_program_that_cannot_be_started_leaves_nothing() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await child_of("no-such-program-anywhere")
    assert len(os.listdir("/proc/self/fd")) == before
