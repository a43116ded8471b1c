"""The real command line in a test: run it, and look at its exit code and its answer at once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec

from daemon_client.roster import RosterRow
from tests.support.homes import PYTHON, cli, environment

COMMAND = f"{PYTHON} -m agents_view.cli.main"
"""For a prompt of the `shell` agent: `agents-view` as an agent would call it."""

ROW_KEYS = {*RosterRow.__struct_fields__, "section", "label", "badges"}


def run(home: Path, *words: str, code: int = 0, **more: Any) -> str:
    """Standard output of a command that ends with `code`; never a traceback."""
    ran = cli(home, *words, **more)
    assert ran.returncode == code, (words, ran.returncode, ran.stdout, ran.stderr)
    assert "Traceback" not in ran.stderr
    return ran.stdout


def data(home: Path, *words: str, code: int = 0, **more: Any) -> Any:
    """The same with `--json`, decoded: exactly one document is on standard output."""
    return msgspec.json.decode(run(home, *words, "--json", code=code, **more))


def failure(home: Path, *words: str, code: int, **more: Any) -> str:
    """The error code in JSON, after a look at its shape."""
    error = data(home, *words, code=code, **more)["error"]
    assert set(error) == {"code", "message", "detail"} and error["message"]
    return error["code"]


def quiet_session(home: Path, name: str, prompt: str = "true") -> str:
    """A session whose first turn is over; its id."""
    session_id = run(home, "new", prompt, "--name", name, "--cwd", "/tmp").strip()
    run(home, "wait", session_id, "--timeout", "20s")
    return session_id


def entries_of(home: Path, session_id: str, *words: str) -> list[dict[str, Any]]:
    """The transcript, from `log --json`: one entry a line."""
    lines = run(home, "log", session_id, "--json", *words).splitlines()
    return [msgspec.json.decode(line) for line in lines]


def words_of(home: Path, session_id: str) -> str:
    """What the agent said."""
    return "".join(e["text"] for e in entries_of(home, session_id) if e["kind"] == "message")


def started(home: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    """A command that runs on beside the test; use it as a context manager."""
    return subprocess.Popen(
        [PYTHON, "-m", "agents_view.cli.main", *words],
        env=environment(home, **environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
