"""The terminal is as before on every way out: TERM, HUP, a lost terminal (spec 03.8)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def on_signals(leave: Callable[[int], None]) -> None:
    """TERM and HUP end the program the way `quit` does, with 128 + their number."""
    loop = asyncio.get_running_loop()

    def ended(number: int) -> None:
        leave_if_lost()
        leave(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended, number)


def leave_if_lost() -> None:
    """End at once when the terminal is gone: nobody reads, and reading would spin for ever.

    Only for a dashboard, which has begun on a terminal: a lost one says of itself that it is none.
    """
    try:
        fd = sys.__stdin__.fileno() if sys.__stdin__ else -1
    except ValueError:
        return
    if fd < 0:
        return
    poller = select.poll()
    poller.register(fd, 0)
    if any(event & _GONE for _, event in poller.poll(0)):
        os._exit(129)


def has_shell() -> bool:
    """Whether a shell of this terminal would continue us: a stop could not be undone without."""
    parent = os.getppid()
    try:
        same_session = os.getsid(parent) == os.getsid(0)
        return same_session and os.getpgid(parent) != os.getpgid(0)
    except OSError:
        return False


def set_title(text: str) -> None:
    """The window's title; our own sequence, the text is cleaned before."""
    _write(f"\x1b]2;{text}\x07")


def save_title() -> None:
    _write("\x1b[22;2t")


def restore_title() -> None:
    _write("\x1b[23;2t")


def _write(sequence: str) -> None:
    stream = sys.__stderr__
    if stream is not None and stream.isatty():
        stream.write(sequence)
        stream.flush()
