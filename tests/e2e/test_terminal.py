"""The whole product in a real terminal (tmux), from an empty home to sessions that outlive it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import homes

pytestmark = pytest.mark.timeout(90)

_STEP = 15.0


class Tmux:
    """One tmux server of our own with one window of 110x32."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self._socket = str(home / "tmux.sock")
        self._env = env
        self._home = home

    def run(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=10, check=True
        ).stdout

    def start(self, *argv: str) -> None:
        """Run a program; when it ends its exit code is shown, and the window stays."""
        line = f"{shlex.join(argv)}; echo exit=$?; exec sleep 600"
        size = ("-x", "110", "-y", "32", "-c", str(self._home))
        self.run("new-session", "-d", *size, "/bin/sh", "-c", line)

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names."""
        self.run("send-keys", *keys)

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    def text(self) -> str:
        return self.run("capture-pane", "-p")

    def wait(self, wanted: str, *, gone: bool = False) -> str:
        """Poll until the text is on the screen (or `gone` from it); the screen then."""
        deadline = time.monotonic() + _STEP
        while (wanted in (screen := self.text())) == gone:
            assert time.monotonic() < deadline, f"{wanted!r} gone={gone}:\n{screen}"
            time.sleep(0.05)
        return screen

    def wait_cursor(self, wanted: str) -> None:
        """Poll until the cursor is on a line that holds the text: what is typed goes there."""
        deadline = time.monotonic() + _STEP
        while True:
            row = int(self.run("display-message", "-p", "#{cursor_y}"))
            screen = self.text()
            if wanted in screen.splitlines()[row]:
                return
            assert time.monotonic() < deadline, f"no cursor at {wanted!r}:\n{screen}"
            time.sleep(0.05)

    def press_until(self, key: str, wanted: str, *, gone: bool = False) -> str:
        """Press a key until it has its effect: some are inert right after a change (3.3)."""
        deadline = time.monotonic() + _STEP
        while True:
            self.keys(key)
            for _ in range(12):
                if (wanted in (screen := self.text())) != gone:
                    return screen
                time.sleep(0.05)
            assert time.monotonic() < deadline, f"{key}: {wanted!r} gone={gone}:\n{screen}"


@pytest.fixture
def tmux(home: Path, terminal_env: dict[str, str]) -> Iterator[Tmux]:
    server = Tmux(home, terminal_env)
    yield server
    subprocess.run(
        ["tmux", "-S", str(home / "tmux.sock"), "kill-server"],
        env=os.environ | terminal_env,
        capture_output=True,
        timeout=10,
        check=False,
    )


def rows_of(home: Path, *more: str) -> list[dict]:
    return json.loads(homes.cli(home, "ls", "--json", *more).stdout)


def section_lines(screen: str, title: str) -> list[str]:
    """The lines of a section, from its heading to the next."""
    lines = screen.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{title}  "))
    body: list[str] = []
    for line in lines[start + 1 :]:
        if "────" in line:
            break
        body.append(line)
    return body


def create(tmux: Tmux, prompt: str) -> None:
    """`n`, the built-in agent, a first prompt."""
    tmux.keys("n")
    tmux.wait("Claude Code")
    tmux.keys("Enter")
    tmux.wait_cursor("prompt  ")
    tmux.type(prompt)
    tmux.wait(prompt)
    tmux.keys("Enter")
    tmux.wait("New session", gone=True)


def test_from_an_empty_home_to_sessions_that_live_on(tmux: Tmux, home: Path) -> None:
    tmux.start(homes.PYTHON, "-m", "agents_view")
    tmux.wait("0 running")
    create(tmux, "sleep 2; echo well-done")
    screen = tmux.wait("1 running")
    assert any("sleep 2" in line for line in section_lines(screen, "Running"))
    screen = tmux.wait("1 idle")
    assert any("sleep 2" in line for line in section_lines(screen, "Idle"))
    tmux.keys("Enter")
    tmux.wait("well-done")
    tmux.keys("Escape")
    tmux.press_until("Escape", "n new")
    tmux.press_until("?", "Keys on")
    tmux.press_until("Escape", "Keys on", gone=True)
    tmux.keys("q")
    tmux.wait("exit=0")
    assert len(homes.supervisors_of(home)) == 1
    (row,) = rows_of(home)
    assert (row["section"], row["agent"]) == ("idle", "shell")
    assert "well-done" in homes.cli(home, "log", row["session_id"]).stdout


def test_archive_delete_and_undo(tmux: Tmux, home: Path) -> None:
    homes.cli(home, "new", "--wait", "--name", "keeper", "echo hello")
    tmux.start(homes.PYTHON, "-m", "agents_view")
    tmux.wait("keeper")
    tmux.press_until("a", "Archived keeper")
    tmux.wait("0 idle")
    assert [row["name"] for row in rows_of(home, "--archived")] == ["keeper"]
    tmux.press_until("u", "restored: keeper")
    screen = tmux.wait("○ 1 inactive")
    assert any("keeper" in line for line in section_lines(screen, "Inactive"))
    tmux.press_until("d", "Delete keeper?")
    tmux.wait("Goes with it")
    tmux.press_until("y", "Deleted keeper")
    tmux.wait("○ 0 inactive")
    assert rows_of(home, "--all") == []
    tmux.press_until("u", "○ 1 inactive")
    assert [row["name"] for row in rows_of(home)] == ["keeper"]
    tmux.keys("q")
    tmux.wait("exit=0")
