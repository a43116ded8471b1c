"""The dashboard in a real pty, beside a bare Textual app in the same harness."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.harness import (
    BARE,
    BOARD,
    Figure,
    Size,
    cpu_share,
    key_times,
    megabytes,
    percentile,
    recorded,
    shown,
    tell,
)
from tests.support import homes

_ROW = b"project"
"""What only the first frame with rows holds: part of every row's directory."""
_BARE = b"bare app"
_SETTLED = 1.5
"""Seconds without output, after which the start is over."""


def measure(size: Size) -> Iterator[Figure]:
    """All rows of 10.1 that are about the dashboard."""
    with homes.new_home() as home, recorded(home, size.rows) as daemon:
        board, bare = [], []
        for _ in range(size.starts):
            for argv, wanted, times in ((BARE, _BARE, bare), (BOARD, _ROW, board)):
                with shown(argv, home, wanted) as (_, took):
                    times.append(took)
        yield Figure(
            name=f"first frame, {size.rows} sessions",
            value=statistics.median(board),
            unit="ms",
            baseline=statistics.median(bare),
            goal=1.6,
        )
        with shown(BARE, home, _BARE) as (least, _), shown(BOARD, home, _ROW) as (running, _):
            running.settle(_SETTLED, 3)
            yield Figure(
                name="memory (RSS)",
                value=megabytes(running.pid),
                unit="MB",
                baseline=megabytes(least.pid),
                goal=1.7,
            )
            yield from _keys(*key_times(running, least, "j", size.keys))
            bare_idle, _ = cpu_share(least, size.seconds)
            tell(daemon, "rate 100")
            busy, _ = cpu_share(running, size.seconds)
            yield _cpu("100 row changes/s, all rows", busy, 3.0, bare_idle)
    yield from _visible(size, bare_idle)
    yield from _idle(size)


def _keys(keys: list[float], bare: list[float]) -> Iterator[Figure]:
    for percent in (50, 99):
        yield Figure(
            name=f"key to bytes, p{percent}",
            value=percentile(keys, percent),
            unit="ms",
            baseline=percentile(bare, percent),
            goal=3,
            at_most=16 if percent == 99 else None,
            note="and < 16 ms" if percent == 99 else "",
        )


def _cpu(name: str, value: float, goal: float, bare: float) -> Figure:
    note = f"bare app idle {bare:.2f} %"
    return Figure(name=name, value=value, unit="% CPU", goal=goal, by_value=True, note=note)


def _visible(size: Size, bare: float) -> Iterator[Figure]:
    """Every changed row is on the screen."""
    with (
        homes.new_home() as home,
        recorded(home, 40, "running") as daemon,
        shown(BOARD, home, _ROW) as (running, _),
    ):
        running.settle(0.5, 3)
        tell(daemon, "rate 100")
        running.settle(0.1, 0.5)
        busy, _ = cpu_share(running, size.seconds)
        yield _cpu("100 row changes/s, all visible", busy, 8.0, bare)


def _idle(size: Size) -> Iterator[Figure]:
    """Fifty armed heartbeats on the screen, none due soon, clock on."""
    with (
        homes.new_home() as home,
        recorded(home, 50, "armed"),
        shown(BOARD, home, _ROW) as (running, _),
    ):
        running.settle(1.0, 3)
        cpu, sent = cpu_share(running, size.idle)
        yield Figure(name="idle", value=cpu, unit="% CPU", goal=0.5, by_value=True)
        yield Figure(name="idle output", value=sent, unit="bytes/s", goal=300, by_value=True)
