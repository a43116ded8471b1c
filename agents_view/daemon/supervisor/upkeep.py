"""What the supervisor does by itself now and then: marks, retention, going away when not needed.

Every second: trees with a silent worker (in memory, no reads). Every three: a probe of the store
(two `stat` calls while all is well). Every minute: one indexed delete of old requests, one indexed
read of the trash. Every hour: a backup if today has none. Each step is isolated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agents_view.daemon.store import backup, prompts, requests, sessions
from agents_view.daemon.supervisor.context import Daemon, StopRequest
from agents_view.daemon.supervisor.handlers.sessions import remove_for_good
from daemon_client.protocol import Recording

log = logging.getLogger(__name__)

_TICK = 1.0
_PROBE_EVERY = 3
_SLOW_EVERY = 60
_BACKUP_EVERY = 3600


async def run(daemon: Daemon) -> None:
    """Go on until cancelled."""
    quiet_since = daemon.clock.monotonic()
    ticks = 0
    while True:
        await daemon.clock.sleep(_TICK)
        ticks += 1
        daemon.workers.mark_stale()
        if ticks % _PROBE_EVERY == 0:
            await _isolated("store", lambda: _probe_store(daemon))
        if daemon.client_count() or daemon.workers.covered_roots():
            quiet_since = daemon.clock.monotonic()
        elif daemon.clock.monotonic() - quiet_since > daemon.settings.daemon.idle_exit:
            if await _leave_if_unneeded(daemon):
                return
            quiet_since = daemon.clock.monotonic()
        if ticks % _SLOW_EVERY == 1:
            await _isolated("requests", lambda: _expire_requests(daemon))
            await _isolated("trash", lambda: _purge_trash(daemon))
        if ticks % _BACKUP_EVERY == 30:
            await _isolated("backup", lambda: _back_up(daemon))


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
    await daemon.db.write(lambda t: requests.expire(t, before), cleanup=True)


async def _probe_store(daemon: Daemon) -> None:
    """Writes resume by themselves when there is room again; every board is told (07.4)."""
    before = daemon.banner
    await daemon.db.probe()
    if daemon.banner != before:
        daemon.broadcast(Recording(text=daemon.banner))


async def _back_up(daemon: Daemon) -> None:
    """At most one backup a day; three are kept."""
    await asyncio.to_thread(backup.daily, daemon.paths.database, daemon.clock.now_ms())


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
