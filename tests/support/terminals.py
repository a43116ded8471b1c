"""A real pseudo terminal with a program in it: every byte it writes, and what a person would see.

Answers the questions a terminal is asked at start (DA1, cursor position, mode 2026, kitty keys), so
that a frame of Textual ends with `CSI ?2026l`. Used by tests and benchmarks.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pyte

FRAME_END: Final = b"\x1b[?2026l"

_ANSWERS: Final = (
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),
    (re.compile(rb"\x1b\[\?2026\$p"), b"\x1b[?2026;2$y"),
    (re.compile(rb"\x1b\[\?2048\$p"), b"\x1b[?2048;0$y"),
    (re.compile(rb"\x1b\[\?u"), b"\x1b[?0u"),
)
_PRIVATE: Final = re.compile(r"\x1b(?:\[[<=>?][0-9;$]*[a-zA-Z]|\[[0-9;]*[tT]|[78])")
"""What pyte would take for text or for something else: private modes, window operations."""
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-9;:<=>?$]*)?$")
_STOPPED: Final = 5.0


class Terminal:
    """One program on one terminal. Not for more than one thread."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        size: tuple[int, int] = (120, 40),
        cwd: str | None = None,
        controlling: bool = True,
    ) -> None:
        """`controlling=False`: no SIGHUP comes when the terminal goes (nohup, a detached one)."""
        self.columns, self.rows = size
        self.output = bytearray()
        self.last_at = 0.0
        """When the newest output came (monotonic seconds)."""
        self.master, slave = pty.openpty()
        self.slave_name = os.ttyname(slave)
        self._slave = slave
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self._asked = 0
        self._screen = pyte.Screen(*size)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._fed = 0
        self._unfed = ""
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            [*argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_take_terminal if controlling else None,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def attributes(self) -> list:
        """The line discipline now: what `stty -a` shows."""
        return termios.tcgetattr(self._slave)

    def send(self, keys: bytes | str) -> None:
        """Type something."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def pump(self, seconds: float) -> bool:
        """Read what comes within that time; False if nothing did."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            time.sleep(min(seconds, 0.01))
            return False
        self.last_at = time.monotonic()
        self.output += data
        self._answer()
        return True

    def _answer(self) -> None:
        start = max(0, self._asked - 12)
        for question, answer in _ANSWERS:
            for found in question.finditer(self.output, start):
                if found.end() > self._asked:
                    os.write(self.master, answer)
        self._asked = len(self.output)

    def wait(self, condition: Callable[[], bool], within: float = 15.0, what: str = "") -> None:
        """Read until `condition` holds; it is asked after each piece of output."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"never came: {what or condition}\n{self.text()}")
            self.pump(0.05)

    def wait_text(self, text: str, within: float = 15.0) -> None:
        """Until `text` is on the screen."""
        self.wait(lambda: text in self.text(), within, text)

    def wait_bytes(self, wanted: bytes, start: int = 0, within: float = 15.0) -> None:
        """Until `wanted` was written after `start`."""
        self.wait(lambda: wanted in self.output[start:], within, repr(wanted))

    def settle(self, quiet: float = 0.3, within: float = 10.0) -> None:
        """Read until nothing has come for `quiet` seconds."""
        deadline = time.monotonic() + within
        while self.pump(quiet) and time.monotonic() < deadline:
            continue

    def exit_code(self, within: float = 10.0) -> int:
        """Wait for the end; the exit code."""
        self.wait(lambda: self.process.poll() is not None, within, "the end of the program")
        while self.pump(0.05):
            continue
        return self.process.returncode

    def text(self) -> str:
        """The screen as lines of text, as pyte draws all bytes up to now."""
        text = self._unfed + self._decoder.decode(bytes(self.output[self._fed :]))
        self._fed = len(self.output)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._unfed = text[end:]
        self._stream.feed(_PRIVATE.sub("", text[:end]))
        cells, columns = self._screen.buffer, range(self.columns)
        return "\n".join("".join(cells[y][x].data for x in columns) for y in range(self.rows))

    def hang_up(self) -> None:
        """Close our end: the terminal is gone."""
        os.close(self.master)
        os.close(self._slave)
        self.master = self._slave = -1

    def close(self) -> None:
        """The end: nothing of the program's group stays."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(_STOPPED)
        for fd in (self.master, self._slave):
            if fd >= 0:
                os.close(fd)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def terminal(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    size: tuple[int, int] = (120, 40),
    cwd: str | None = None,
    controlling: bool = True,
) -> Iterator[Terminal]:
    """A program on its own terminal; ended with the block."""
    running = Terminal(argv, env, size=size, cwd=cwd, controlling=controlling)
    try:
        yield running
    finally:
        running.close()
