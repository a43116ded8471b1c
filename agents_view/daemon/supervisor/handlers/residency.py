"""Make a session resident, or end its worker."""

from __future__ import annotations

from agents_view.daemon.supervisor.context import Call, Daemon
from agents_view.daemon.supervisor.lookup import active_session_of, session_of
from agents_view.daemon.wire import Start
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import Done


async def stop(daemon: Daemon, call: Call, command: c.Stop) -> Done:
    """End the worker of the tree; a turn under way is cut off and marked so."""
    session = session_of(daemon, command.session_id)
    await daemon.workers.stop(
        session.root_id, "stopped by a person", daemon.settings.daemon.stop_timeout
    )
    return Done()


async def wake(daemon: Daemon, call: Call, command: c.Wake) -> Done:
    """Start the agent of this session; its worker first, if the tree has none."""
    await _start(daemon, command.session_id, command.environ, retry=False)
    return Done()


async def retry_worker(daemon: Daemon, call: Call, command: c.RetryWorker) -> Done:
    """Start a failed worker or agent again; held prompts go out."""
    await _start(daemon, command.session_id, command.environ, retry=True)
    return Done()


async def _start(daemon: Daemon, session_id: str, environ: c.Environ, *, retry: bool) -> None:
    session = active_session_of(daemon, session_id)
    daemon.environments.remember(session.session_id, environ)
    order = Start(
        session_id=session.session_id,
        environ=daemon.environments.of(session.session_id),
        retry=retry,
    )
    await daemon.workers.order(session.root_id, order)
