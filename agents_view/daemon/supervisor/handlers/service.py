"""Commands about the daemon itself, and about what the roster says."""

from __future__ import annotations

import asyncio
import os

import msgspec

from agents_view.acp import catalogue
from agents_view.base.processes import memory_of
from agents_view.daemon.store import sessions as store
from agents_view.daemon.supervisor.context import Call, Daemon, StopRequest
from agents_view.daemon.supervisor.evidence import evidence_of
from agents_view.daemon.supervisor.lookup import row_of, session_of
from daemon_client.connection import product_version
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import PROTOCOL_VERSION
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import (
    AgentInfo,
    AgentsFound,
    Counter,
    DaemonStatus,
    Done,
    Explanation,
)
from daemon_client.status import label_of, section_of


async def ping(daemon: Daemon, call: Call, command: c.Ping) -> Done:
    return Done()


async def status(daemon: Daemon, call: Call, command: c.Status) -> DaemonStatus:
    return DaemonStatus(
        pid=os.getpid(),
        version=product_version(),
        protocol=PROTOCOL_VERSION,
        uptime_ms=daemon.clock.now_ms() - daemon.started_at_ms,
        socket=str(daemon.paths.socket),
        clients=daemon.client_count(),
        sessions=len(daemon.roster),
        memory=memory_of(os.getpid()),
        embedded=daemon.embedded,
        recording=daemon.banner,
        workers=daemon.workers.statuses(),
        counters=tuple(
            Counter(name=name, value=value) for name, value in sorted(daemon.counters.items())
        ),
    )


async def shutdown(daemon: Daemon, call: Call, command: c.Shutdown) -> Done:
    """S50: refused by name while turns run, unless forced; then every tree is put to rest.

    The answer leaves when the workers are confirmed gone; the socket goes after it.
    """
    if not command.restart:
        working = daemon.roster.working_titles()
        if working and not command.force:
            message = f"{len(working)} working; --force cuts them off"
            raise DaemonError(ErrorCode.BUSY, message, tuple(working))
        daemon.workers.say_closing("shutdown")
        await daemon.workers.stop_all("daemon stopped", daemon.settings.daemon.stop_timeout)
    call.after_reply = lambda: daemon.request_stop(StopRequest(restart=command.restart))
    return Done()


async def agents_list(daemon: Daemon, call: Call, command: c.AgentsList) -> AgentsFound:
    """The catalogue as this machine has it."""
    known = catalogue.load_catalogue(daemon.settings.agents)
    path = call_path(daemon)
    found = await asyncio.to_thread(catalogue.find_all, known, path)
    versions = await catalogue.versions(found) if command.probe else {}
    return AgentsFound(
        agents=tuple(
            AgentInfo(
                id=item.key,
                name=item.entry.label or item.key,
                found=item.found,
                command=item.command,
                version=versions.get(item.key),
                hint=item.hint,
            )
            for item in found
        ),
        problems=known.problems,
    )


def call_path(daemon: Daemon) -> str:
    return os.environ.get("PATH", "")


async def seen(daemon: Daemon, call: Call, command: c.Seen) -> Done:
    """A person looked (R16)."""
    session = session_of(daemon, command.session_id)
    if session.unread:
        await daemon.db.write(lambda t: store.set_unread(t, session.session_id, False))
        current = session_of(daemon, command.session_id)
        daemon.roster.put(msgspec.structs.replace(current, unread=False))
    return Done()


async def explain(daemon: Daemon, call: Call, command: c.Explain) -> Explanation:
    """Why this section and label: the facts that hold, with their age and source."""
    row = row_of(daemon, command.session_id)
    now = daemon.clock.now_ms()
    return Explanation(
        session_id=row.session_id,
        section=section_of(row),
        label=label_of(row, now),
        evidence=evidence_of(row, now),
    )
