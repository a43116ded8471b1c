"""What every measurement uses: figures, statistics, and what a process costs."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from tests.support import homes
from tests.support.terminals import FRAME_END, Terminal, terminal

BOARD: Final = (sys.executable, "-m", "agents_view")
BARE: Final = (sys.executable, "-m", "benchmarks.bare")
ROOT: Final = Path(__file__).parents[1]


class Figure(msgspec.Struct, kw_only=True, frozen=True):
    """One line of the table. `goal` bounds `judged`: the ratio to the baseline, or the value.

    `at_most` bounds the value as well.
    """

    name: str
    value: float
    unit: str
    goal: float
    baseline: float | None = None
    by_value: bool = False
    at_most: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def judged(self) -> float:
        ratio = self.ratio
        return self.value if self.by_value or ratio is None else ratio

    @property
    def ok(self) -> bool:
        bounded = self.at_most is None or self.value < self.at_most
        return bounded and self.judged <= self.goal


class Size(msgspec.Struct, kw_only=True, frozen=True):
    """How much is measured: sessions, repetitions, seconds."""

    rows: int = 10_000
    few: int = 1_000
    starts: int = 7
    keys: int = 300
    seconds: float = 8.0
    idle: float = 20.0
    prompts: int = 100


QUICK: Final = Size(rows=300, few=50, starts=1, keys=20, seconds=1.0, idle=1.0, prompts=5)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least that share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def environment(home: Path) -> dict[str, str]:
    """A person's terminal, and this home."""
    path = {"PYTHONPATH": str(ROOT)}
    return homes.environment(home, COLORTERM="truecolor", LANG="C.UTF-8", **path)


@contextlib.contextmanager
def recorded(home: Path, rows: int, kind: str = "mixed") -> Iterator[subprocess.Popen[str]]:
    """A daemon with synthetic rows, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.recorded_daemon", str(home), str(rows), kind]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stdout is not None and daemon.stdin is not None
        assert daemon.stdout.readline() == "ready\n"
        try:
            yield daemon
        finally:
            daemon.stdin.close()
            daemon.wait(10)


def tell(daemon: subprocess.Popen[str], order: str) -> None:
    """One line to a recorded daemon."""
    assert daemon.stdin is not None
    daemon.stdin.write(f"{order}\n")
    daemon.stdin.flush()


@contextlib.contextmanager
def shown(argv: Sequence[str], home: Path, wanted: bytes) -> Iterator[tuple[Terminal, float]]:
    """A program on a terminal, once `wanted` is drawn; with the ms from its start to that frame."""
    with terminal(argv, environment(home), cwd=str(ROOT), size=(120, 60)) as running:
        while wanted not in running.output:
            if running.process.poll() is not None or time.monotonic() > running.started_at + 30:
                raise RuntimeError(f"{argv} never drew {wanted!r}:\n{running.text()}")
            running.pump(0.05)
        while FRAME_END not in running.output[running.output.index(wanted) :]:
            running.pump(0.05)
        yield running, (running.last_at - running.started_at) * 1000


def key_times(ours: Terminal, bare: Terminal, key: str, count: int) -> list[list[float]]:
    """Milliseconds from a key to the end of its frame, by turns, so that both meet one machine."""
    times: list[list[float]] = [[], []]
    for _ in range(count):
        for running, took in zip((ours, bare), times, strict=True):
            running.settle(0.01, 0.1)
            took.append(_key_time(running, key))
    return times


def _key_time(running: Terminal, key: str) -> float:
    start = len(running.output)
    pressed = time.monotonic()
    running.send(key)
    while FRAME_END not in running.output[start:] and time.monotonic() - pressed < 1:
        running.pump(0.05)
    return (running.last_at - pressed) * 1000


def cpu_share(running: Terminal, seconds: float) -> tuple[float, float]:
    """Percent of a core and bytes a second, over that time, while nothing is pressed."""
    process = psutil.Process(running.pid)
    before, start, size = process.cpu_times(), time.monotonic(), len(running.output)
    while (left := start + seconds - time.monotonic()) > 0:
        running.pump(left)
    after, elapsed = process.cpu_times(), time.monotonic() - start
    used = after.user + after.system - before.user - before.system
    return used / elapsed * 100, (len(running.output) - size) / elapsed


def megabytes(pid: int, *, shared: bool = True) -> float:
    """Resident memory; without the share of others (PSS) if `shared` is false."""
    info = psutil.Process(pid).memory_full_info()
    return (info.rss if shared else info.pss) / (1 << 20)


def time_of(argv: Sequence[str], home: Path, runs: int) -> float:
    """Median milliseconds of a whole run of a program."""
    times = []
    for _ in range(runs):
        start = time.monotonic()
        subprocess.run(
            argv, env=environment(home), check=True, stdout=subprocess.DEVNULL, cwd=os.fspath(home)
        )
        times.append((time.monotonic() - start) * 1000)
    return statistics.median(times)
