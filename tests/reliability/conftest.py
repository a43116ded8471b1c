"""Real processes: each test has its own home, and nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from daemon_client import DaemonClient
from tests.support import homes


@pytest.fixture
def home() -> Iterator[Path]:
    with homes.new_home() as path:
        yield path


@pytest_asyncio.fixture
async def client(home: Path) -> AsyncIterator[DaemonClient]:
    """A client of a daemon in its own home, which ends with the test."""
    async with homes.running(home) as connected:
        yield connected
        await homes.stop(connected)
    try:
        homes.wait_until(lambda: not homes.processes_of(home))
    except AssertionError:
        left = [(p.pid, p.cmdline()) for p in homes.processes_of(home)]
        log = home / "state" / "logs" / "supervisor.log"
        raise AssertionError(f"left behind: {left}\n{log.read_text()}") from None
