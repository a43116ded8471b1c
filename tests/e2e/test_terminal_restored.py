"""The terminal is as before on every way out (spec 03.8), read from the bytes at a real pty."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.terminals import Terminal, terminal

pytestmark = pytest.mark.timeout(60)

BOARD = (sys.executable, "-m", "agents_view")
_FAILING = (
    "import sys; from agents_view.tui.screens.board import BoardScreen\n"
    "def fail(self): raise RuntimeError('injected')\n"
    "BoardScreen.action_fold_all = fail\n"
    "from agents_view.cli.main import main; sys.exit(main([]))"
)
_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")
_KITTY = re.compile(rb"\x1b\[([<>])(\d*)u")
_AS_BEFORE = {
    1049: b"l", 25: b"h", 7: b"h", 1000: b"l", 1002: b"l", 1003: b"l", 1006: b"l", 1015: b"l",
    1004: b"l", 2004: b"l", 2026: b"l",
}  # fmt: skip
"""How a terminal begins: no alternative screen, cursor shown, wrapping, nothing reported."""


def left_over(output: bytes) -> dict[int, bytes]:
    """Modes that are not as a terminal begins; key 0 stands for the stack of keyboard modes."""
    last = {int(number): state for number, state in _MODE.findall(output)}
    depth = sum(1 if kind == b">" else -1 for kind, _ in _KITTY.findall(output))
    wrong = {mode: state for mode, state in last.items() if _AS_BEFORE.get(mode) != state}
    return wrong | ({0: str(depth).encode()} if depth > 0 else {})


@pytest.fixture
def board(terminal_env: dict[str, str]) -> Iterator[Terminal]:
    with terminal(BOARD, terminal_env) as running:
        running.wait_text("n new")
        assert left_over(bytes(running.output))
        assert running.attributes != running.before
        yield running


def assert_restored(running: Terminal) -> None:
    assert left_over(bytes(running.output)) == {}
    assert running.attributes == running.before


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        pytest.param(lambda t: os.kill(t.pid, signal.SIGTERM), 143, id="TERM"),
        pytest.param(lambda t: os.kill(t.pid, signal.SIGHUP), 129, id="HUP"),
        pytest.param(lambda t: t.send("q"), 0, id="q"),
    ],
)
def test_leaving(board: Terminal, leave: Callable[[Terminal], None], code: int) -> None:
    leave(board)
    assert board.exit_code() == code
    assert_restored(board)


def test_an_exception(terminal_env: dict[str, str]) -> None:
    with terminal((sys.executable, "-c", _FAILING), terminal_env) as running:
        running.wait_text("n new")
        running.send("o")
        assert running.exit_code() == 1
        assert_restored(running)
        after = bytes(running.output).rpartition(b"\x1b[?1049l")[2]
        assert b"injected" in after


def test_term_in_a_dialog(board: Terminal) -> None:
    board.send("n")
    board.wait_text("New session")
    os.kill(board.pid, signal.SIGTERM)
    assert board.exit_code() == 143
    assert_restored(board)


def _state(pid: int) -> str:
    """The letter of /proc: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _ask_for_help(board: Terminal) -> None:
    """A key that comes while the terminal is taken over again may be flushed: press once more."""
    for _ in range(5):
        board.send("?")
        with contextlib.suppress(AssertionError):
            board.wait_text("Keys on", within=3)
            return
    raise AssertionError("the dashboard does not take keys after it was continued")


def test_stop_and_continue(board: Terminal) -> None:
    os.kill(board.pid, signal.SIGTSTP)
    board.wait(lambda: _state(board.pid) == "T", 10, "the stop")
    board.settle(0.1)
    assert_restored(board)
    begin = len(board.output)
    os.kill(board.pid, signal.SIGCONT)
    board.wait_bytes(b"\x1b[?1049h", begin)
    board.settle()
    assert board.attributes[3] & termios.ECHO == 0
    _ask_for_help(board)
    board.send("\x1b")
    board.settle()
    os.kill(board.pid, signal.SIGTERM)
    assert board.exit_code() == 143
    assert_restored(board)


@pytest.mark.parametrize("controlling", [True, False], ids=["with HUP", "without HUP"])
def test_a_lost_terminal_ends_it(terminal_env: dict[str, str], controlling: bool) -> None:
    with terminal(BOARD, terminal_env, controlling=controlling) as running:
        running.wait_text("n new")
        running.settle(0.2)
        running.hang_up()
        lost_at = time.monotonic()
        while running.process.poll() is None:
            assert time.monotonic() - lost_at <= 3, "it still runs without a terminal"
            time.sleep(0.02)
        assert running.process.returncode == 129
