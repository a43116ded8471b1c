"""Third-party agents, installed once into a cache outside the repository (spec 10.3).

They talk to a scripted model on the loopback interface: no account, no network after the install.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from daemon_client import DaemonClient
from tests.support import homes
from tests.support.loopback_model import MODEL, LoopbackModel, loopback_model

QWEN = "@qwen-code/qwen-code@0.15.10"
_INSTALL_WITHIN = 120.0
_SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "model": {"name": MODEL},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True},
}


def _cache(name: str) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "agents-view-tests" / name


def _install(package: str, cache: Path, program: Path) -> str:
    """Install `package` if it is not there, one process at a time; why it could not be, or ''."""
    cache.mkdir(parents=True, exist_ok=True)
    done = cache / ".installed"
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and program.exists():
            return ""
        command = ["npm", "install", "--prefix", str(cache), "--no-audit", "--no-fund", package]
        try:
            outcome = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_WITHIN, cwd=cache
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"npm cannot install {package}: {error}"
        if outcome.returncode or not program.exists():
            return f"npm cannot install {package}: {outcome.stderr.strip()[-400:]}"
        done.touch()
    return ""


@pytest.fixture(scope="session")
def qwen() -> Path:
    """The agent's program. Without it the tests are skipped, in CI they fail."""
    cache = _cache("qwen-0.15.10")
    program = cache / "node_modules" / ".bin" / "qwen"
    if problem := _install(QWEN, cache, program):
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    return program


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    with loopback_model() as running:
        yield running


@pytest.fixture
def home(qwen: Path) -> Iterator[Path]:
    """A home whose `qwen` is the one of the cache, with a directory `work` to work in."""
    with homes.new_home() as path:
        (path / "config.toml").write_text(f"[agents.qwen]\ncommand = {json.dumps(str(qwen))}\n")
        (path / ".qwen").mkdir()
        (path / ".qwen" / "settings.json").write_text(json.dumps(_SETTINGS))
        (path / "work").mkdir()
        yield path


@pytest.fixture
def environ(home: Path, model: LoopbackModel) -> dict[str, str]:
    """The environment of a session: its own home, and the scripted model."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SHELL": "/bin/sh",
        "OPENAI_API_KEY": "none-needed",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_MODEL": MODEL,
        "QWEN_CODE_NO_RELAUNCH": "true",
    }


@pytest_asyncio.fixture
async def client(home: Path) -> AsyncIterator[DaemonClient]:
    """A client of a real daemon; when the daemon has stopped, nothing of the home runs."""
    async with homes.running(home) as connected:
        yield connected
        await homes.stop(connected)
    homes.wait_until(lambda: not homes.processes_of(home))
