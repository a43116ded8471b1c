"""The house keeps its measures: sizes of rooms, and things that are done in one room only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "agents_view").rglob("*.py"), *(ROOT / "daemon_client").rglob("*.py")])

MAY_SIGNAL = (
    "agents_view/base/processes.py",
    "agents_view/base/failpoints.py",  # kills itself, for tests
    "agents_view/agents/command.py",  # a program of its own: ends the command lines it started
    "agents_view/tui/terminal.py",  # stops itself: suspend
    "agents_view/tui/app.py",
)
MAY_READ_CLOCKS = (
    "agents_view/base/clock.py",
    "agents_view/tui/",
    "agents_view/cli/",
    "agents_view/agents/",
    "daemon_client/",
    "agents_view/daemon/store/",  # patience of blocking locks
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_rooms_stay_small() -> None:
    """A file over 400 lines answers more than one question."""
    large = [name_of(path) for path in FILES if path.read_text().count("\n") > 400]
    assert not large
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 60, f"{name_of(path)}: {node.name} has {length} lines"


def offenders(pattern: str, allowed: tuple[str, ...]) -> list[str]:
    found = [name_of(path) for path in FILES if re.search(pattern, path.read_text())]
    return [name for name in found if not name.startswith(allowed)]


def test_one_room_signals_processes() -> None:
    assert not offenders(r"os\.kill(pg)?\(|\.send_signal\(|\.terminate\(\)", MAY_SIGNAL)


def test_one_room_reads_clocks() -> None:
    reads = r"\btime\.(time|time_ns|monotonic|sleep)\(|datetime\.now\("
    assert not offenders(reads, MAY_READ_CLOCKS)


def test_foreign_text_is_never_parsed_as_markup() -> None:
    """Only `Content(...)`, `Segment` and `markup=False` may hold foreign text (textual 2.9)."""
    assert not offenders(r"\.from_markup\(|escape\(", ("agents_view/board/filtering.py",))
    for path in (ROOT / "agents_view" / "tui").rglob("*.py"):
        for call in re.findall(r"\.notify\((?:[^()]|\([^()]*\))*\)", path.read_text()):
            assert "markup=False" in call, f"{name_of(path)}: {call}"
