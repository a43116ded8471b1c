"""Run `tests.store.driver` in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]


def command(what: str, directory: Path, number: int = 0) -> list[str]:
    return [sys.executable, "-m", "tests.store.driver", what, str(directory), str(number)]


def environment(failpoint: str = "") -> dict[str, str]:
    return os.environ | {"AGENTS_VIEW_FAILPOINT": failpoint}


def run(what: str, directory: Path, number: int = 0, *, failpoint: str = "") -> tuple[int, str]:
    """The exit code and what it said; -9 if it was killed."""
    done = subprocess.run(
        command(what, directory, number),
        env=environment(failpoint),
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.returncode, done.stdout


def start(what: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(what, directory),
        env=environment(),
        cwd=_REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def on_small_disk(what: str, directory: Path, number: int = 0) -> dict:
    """The outcome of a run on a file system of 4 MiB mounted for that process alone."""
    mount = 'mount -t tmpfs -o size=4m,mode=0700 none "$1" && shift && exec "$@"'
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            mount,
            "sh",
            str(directory),
            *command(what, directory, number),
        ],
        env=environment(),
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def can_mount() -> bool:
    """Whether this machine lets us mount a small disk."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
    return subprocess.run(probe, capture_output=True, timeout=20).returncode == 0
