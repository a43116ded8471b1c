"""The house keeps its measures: sizes of rooms, and things that are done in one room only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "agents_view").rglob("*.py"), *(ROOT / "daemon_client").rglob("*.py")])
IDS = [str(path.relative_to(ROOT)) for path in FILES]

MAY_SIGNAL = {
    "agents_view/base/processes.py",
    "agents_view/base/failpoints.py",  # kills itself, for tests
    "agents_view/agents/command.py",  # a program of its own: ends the command lines it started
    "agents_view/tui/terminal.py",  # stops itself: suspend
    "agents_view/tui/app.py",
}
MAY_READ_CLOCKS = (
    "agents_view/base/clock.py",
    "agents_view/tui/",
    "agents_view/cli/",
    "agents_view/agents/",
    "daemon_client/",
    "agents_view/daemon/store/",  # patience of blocking locks
)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_rooms_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400, "a file over 400 lines answers more than one question"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_one_room_signals_processes(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    signals = re.search(r"os\.kill(pg)?\(|\.send_signal\(|\.terminate\(\)", path.read_text())
    assert signals is None or name in MAY_SIGNAL


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_one_room_reads_clocks(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    reads = re.search(r"\btime\.(time|time_ns|monotonic|sleep)\(|datetime\.now\(", path.read_text())
    assert reads is None or name.startswith(MAY_READ_CLOCKS)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_foreign_text_is_never_parsed_as_markup(path: Path) -> None:
    text = path.read_text()
    assert "from_markup(" not in text
    for call in re.findall(r"\.notify\((?:[^()]|\([^()]*\))*\)", text):
        assert "markup=False" in call, call
