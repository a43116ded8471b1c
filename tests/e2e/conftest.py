"""A home of its own for each test; nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import homes


@pytest.fixture
def home() -> Iterator[Path]:
    with homes.new_home() as path:
        yield path


@pytest.fixture
def terminal_env(home: Path) -> dict[str, str]:
    """What a person's terminal sets, and this home."""
    return homes.environment(home, COLORTERM="truecolor", LANG="C.UTF-8")
