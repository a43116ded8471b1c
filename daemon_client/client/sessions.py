"""Commands about sessions: make, name, put away, bring back, start, end."""

from __future__ import annotations

from daemon_client.client.expect import expect
from daemon_client.connection import Connection
from daemon_client.protocol.commands import (
    Archive,
    Create,
    Delete,
    DeletePreview,
    Environ,
    Explain,
    Purge,
    Rename,
    Restore,
    RetryWorker,
    Seen,
    Spawn,
    Stop,
    Wake,
)
from daemon_client.protocol.replies import DeletePlan, Done, Explanation, SessionReply
from daemon_client.roster import RosterRow, SessionId

_STOPPING = 90.0
"""Seconds a request may take that first stops a tree (every step of A15 for each agent)."""


class Sessions:
    """Every method raises `DaemonError`; rows are as the roster has them when it returns."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        agent: str,
        cwd: str,
        *,
        name: str | None = None,
        prompt: str | None = None,
        mode: str | None = None,
        model: str | None = None,
        draft: bool = False,
        environ: Environ | None = None,
    ) -> RosterRow:
        """A new session, durable when this returns; its agent may still be starting."""
        command = Create(
            agent=agent,
            cwd=cwd,
            name=name,
            prompt=prompt,
            mode=mode,
            model=model,
            draft=draft,
            environ=environ or {},
        )
        return expect(SessionReply, await self._connection.request(command)).row

    async def spawn(self, command: Spawn) -> RosterRow:
        """A child session; from inside an agent its parent is the calling session."""
        return expect(SessionReply, await self._connection.request(command)).row

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a name; the empty name removes it."""
        command = Rename(session_id=session_id, name=name)
        expect(Done, await self._connection.request(command))

    async def archive(self, session_id: SessionId) -> None:
        """Put the session and its children away; a running tree is stopped first."""
        command = Archive(session_id=session_id)
        expect(Done, await self._connection.request(command, timeout=_STOPPING))

    async def restore(self, session_id: SessionId) -> None:
        """Bring back what archive or delete took away."""
        expect(Done, await self._connection.request(Restore(session_id=session_id)))

    async def preview_delete(self, session_id: SessionId) -> DeletePlan:
        """What would go with the session (R50)."""
        return expect(
            DeletePlan, await self._connection.request(DeletePreview(session_id=session_id))
        )

    async def delete(self, session_id: SessionId, *, expected: str | None = None) -> None:
        """Trash the session; `conflict` if the plan's fingerprint is not `expected` any more."""
        command = Delete(session_id=session_id, expected=expected)
        expect(Done, await self._connection.request(command, timeout=_STOPPING))

    async def purge(self, session_id: SessionId) -> None:
        """Remove a deleted session for good."""
        expect(Done, await self._connection.request(Purge(session_id=session_id)))

    async def stop(self, session_id: SessionId) -> None:
        """End the worker of the tree; returns when its processes are gone."""
        command = Stop(session_id=session_id)
        expect(Done, await self._connection.request(command, timeout=_STOPPING))

    async def wake(self, session_id: SessionId, *, environ: Environ | None = None) -> None:
        """Make resident; returns when the agent is being started."""
        command = Wake(session_id=session_id, environ=environ or {})
        expect(Done, await self._connection.request(command))

    async def retry(self, session_id: SessionId, *, environ: Environ | None = None) -> None:
        """Start a failed worker or agent again."""
        command = RetryWorker(session_id=session_id, environ=environ or {})
        expect(Done, await self._connection.request(command))

    async def explain(self, session_id: SessionId) -> Explanation:
        """Why this section and label, with evidence."""
        return expect(Explanation, await self._connection.request(Explain(session_id=session_id)))

    async def seen(self, session_id: SessionId) -> None:
        """A person looked at it: clears `unread`."""
        expect(Done, await self._connection.request(Seen(session_id=session_id)))
