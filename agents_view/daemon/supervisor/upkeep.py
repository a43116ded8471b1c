"""What the supervisor does by itself now and then: marks, retention, going away when not needed.

Every second: trees with a silent worker (in memory, no reads). Every minute: one indexed delete of
old requests, one indexed read of the trash, one probe of the store. Each step is isolated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agents_view.daemon.store import prompts, requests, sessions
from agents_view.daemon.supervisor.context import Daemon, StopRequest
from agents_view.daemon.supervisor.handlers.sessions import remove_for_good

log = logging.getLogger(__name__)

_TICK = 1.0
_SLOW_EVERY = 60


async def run(daemon: Daemon) -> None:
    """Go on until cancelled."""
    quiet_since = daemon.clock.monotonic()
    ticks = 0
    while True:
        await daemon.clock.sleep(_TICK)
        ticks += 1
        daemon.workers.mark_stale()
        if daemon.client_count() or daemon.workers.covered_roots():
            quiet_since = daemon.clock.monotonic()
        elif daemon.clock.monotonic() - quiet_since > daemon.settings.daemon.idle_exit:
            if await _leave_if_unneeded(daemon):
                return
            quiet_since = daemon.clock.monotonic()
        if ticks % _SLOW_EVERY == 1:
            await _isolated("requests", lambda: _expire_requests(daemon))
            await _isolated("trash", lambda: _purge_trash(daemon))


async def _isolated(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """A failing step is logged, and keeps no other from its turn."""
    try:
        await step()
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("upkeep failed step=%s", name)


async def _expire_requests(daemon: Daemon) -> None:
    before = daemon.clock.now_ms() - int(daemon.settings.daemon.request_retention * 1000)
    await daemon.db.write(lambda t: requests.expire(t, before))


async def _purge_trash(daemon: Daemon) -> None:
    """Sessions whose time in the trash is over. `restore` is what could bring one back."""
    before = daemon.clock.now_ms() - int(daemon.settings.daemon.trash_retention * 1000)
    due = await daemon.db.read(lambda t: sessions.trashed_before(t, before))
    if due:
        await remove_for_good(daemon, due)
        log.info("trash purged sessions=%d", len(due))


async def _leave_if_unneeded(daemon: Daemon) -> bool:
    """S55: no clients, no workers, no queued prompts for long enough."""
    if daemon.embedded or await daemon.db.read(prompts.queued_counts):
        return False
    log.info("nothing to do: leaving")
    daemon.request_stop(StopRequest(restart=False))
    return True
