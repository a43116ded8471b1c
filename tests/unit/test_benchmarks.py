"""The harness of `make bench` works; what it measures is judged by people (spec 10)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Figure, percentile
from tests.support import homes

ROOT = Path(__file__).parents[2]


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (
        51,
        100,
        100,
    )
    assert percentile([7.0], 99) == 7.0


def test_a_goal_bounds_the_ratio_or_the_value_or_both() -> None:
    ratio = Figure(name="", value=30, unit="ms", baseline=10, goal=3)
    assert ratio.ratio == 3 and ratio.ok
    assert not Figure(name="", value=31, unit="ms", baseline=10, goal=3).ok
    assert not Figure(name="", value=20, unit="ms", baseline=10, goal=3, at_most=16).ok
    assert Figure(name="", value=90, unit="ms", goal=100, by_value=True).ok


@pytest.mark.timeout(150)
def test_the_quick_run_measures_every_row(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(output)]
    outcome = subprocess.run(
        command,
        cwd=ROOT,
        env=homes.environment(tmp_path, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=140,
    )
    assert outcome.returncode == 0, outcome.stderr
    figures = json.loads(output.read_text())["figures"]
    assert len(figures) == 13
    assert all(figure["value"] >= 0 for figure in figures)
    assert outcome.stdout.count("\n") == len(figures) + 1
