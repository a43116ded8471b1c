"""Find what a command names, or say plainly that it is not there."""

from __future__ import annotations

from agents_view.daemon.store import prompts
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.supervisor.context import Daemon
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.replies import QueuedPrompt
from daemon_client.roster import RosterRow, SessionId
from daemon_client.text import clean


def session_of(daemon: Daemon, session_id: SessionId) -> Session:
    """The living session. Raises `DaemonError(not_found)`."""
    session = daemon.roster.session(session_id)
    if session is None:
        message = f"no session {clean(session_id, 64)}"
        raise DaemonError(ErrorCode.NOT_FOUND, message)
    return session


def active_session_of(daemon: Daemon, session_id: SessionId) -> Session:
    """The same, refused while it is archived: nothing revives it but `restore` (F10)."""
    session = session_of(daemon, session_id)
    if session.archived_at_ms is not None:
        raise DaemonError(ErrorCode.CONFLICT, "the session is archived: restore it first")
    return session


def row_of(daemon: Daemon, session_id: SessionId) -> RosterRow:
    """Its row as of now. Raises `DaemonError(not_found)`."""
    row = daemon.roster.row(session_id)
    if row is None:
        raise DaemonError(ErrorCode.NOT_FOUND, f"no session {clean(session_id, 64)}")
    return row


async def queue_of(daemon: Daemon, session_id: SessionId) -> list[QueuedPrompt]:
    """What waits to be sent, by its worker's word or, for a passive session, by the store."""
    session = session_of(daemon, session_id)
    if daemon.workers.connected(session.root_id) is not None:
        return list(daemon.session_streams.aside(session_id).queue)
    stored = await daemon.db.read(lambda t: prompts.queued(t, session_id))
    return [
        QueuedPrompt(
            prompt_id=prompt.prompt_id, text=prompt.text[:4096], source=prompt.source, held=True
        )
        for prompt in stored
    ]
