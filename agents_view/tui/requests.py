"""Requests beside the screen: a mark on the row at once, a toast with the cause on failure."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from daemon_client.errors import DaemonError
from daemon_client.text import clean


class Marking(Protocol):
    """A screen that can show that a request about a session is under way."""

    def mark_pending(self, session_id: str, pending: bool) -> None: ...

    def tell(self, text: str, *, problem: bool = False) -> None: ...


class Requests:
    """Runs requests of one screen; a failing one is said and changes nothing else."""

    def __init__(self, screen: Marking) -> None:
        self._screen = screen
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: Counter[str] = Counter()

    def start(
        self,
        session_id: str,
        request: Callable[[], Awaitable[object]],
        done: Callable[[], None] | None = None,
    ) -> None:
        """Send it; `done` is called when it is confirmed."""
        task = asyncio.create_task(self._run(session_id, request, done), name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self,
        session_id: str,
        request: Callable[[], Awaitable[object]],
        done: Callable[[], None] | None,
    ) -> None:
        self._mark(session_id, 1)
        try:
            await request()
        except DaemonError as error:
            detail = f": {'; '.join(error.detail[:3])}" if error.detail else ""
            self._screen.tell(clean(error.message + detail, 300), problem=True)
            return
        finally:
            self._mark(session_id, -1)
        if done is not None:
            done()

    def _mark(self, session_id: str, step: int) -> None:
        """The mark stays until the last of several requests about a session is over."""
        self._under_way[session_id] += step
        self._screen.mark_pending(session_id, self._under_way[session_id] > 0)
