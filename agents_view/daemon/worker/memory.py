"""What of a session outlives its agent: the agent's own id, counters, how it ended (A8, A14)."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from agents_view.acp.client import AgentClient
from agents_view.daemon.store import agent_sessions, sessions
from agents_view.daemon.store.agent_sessions import AgentSession, AgentSessionStatus
from agents_view.daemon.store.transcripts import read_page
from agents_view.daemon.worker.context import Shared
from agents_view.daemon.worker.facts import Counters
from agents_view.daemon.worker.journal import Journal
from daemon_client.ids import new_id
from daemon_client.protocol.transcript import MessageEntry, PromptEntry
from daemon_client.roster import Waiting

_TAIL: Final = 8000
_ENTRIES: Final = 400


class Memory:
    """The durable side of one session; every write carries the worker's epoch."""

    def __init__(self, session_id: str, shared: Shared) -> None:
        self._session_id = session_id
        self._shared = shared
        self._row: AgentSession | None = None
        self._saved: Counters | None = None
        self._login_since: int | None = None
        self.acp_session_id: str | None = None

    async def load(self) -> None:
        """The conversation a new agent could bring back."""
        key = self._session_id
        row = await self._shared.db.read(lambda t: agent_sessions.latest_loadable(t, key))
        self.acp_session_id = row.acp_session_id if row else None

    async def opened(self, client: AgentClient, acp_session_id: str) -> None:
        """The agent's own id is durable before anything is prompted (A8)."""
        now = self._shared.clock.now_ms()
        identity = client.child.identity
        capabilities = client.capabilities
        self._row = AgentSession(
            id=new_id(now),
            session_id=self._session_id,
            status="running",
            process="alive",
            created_at_ms=now,
            started_at_ms=now,
            updated_at_ms=now,
            acp_session_id=acp_session_id,
            can_load=capabilities.load_session or capabilities.can_resume,
            pid=identity.pid,
            process_start=identity.start,
            boot_id=identity.boot_id,
            last_heartbeat_at_ms=now,
        )
        await self._save(self._row)
        self.acp_session_id = acp_session_id

    async def ended(self, status: AgentSessionStatus) -> None:
        """The agent's process is confirmed gone. Raises `StaleEpoch`."""
        row, self._row = self._row, None
        if row is not None:
            now = self._shared.clock.now_ms()
            await self._save(
                msgspec.structs.replace(row, status=status, process="exited", updated_at_ms=now)
            )

    async def _save(self, row: AgentSession) -> None:
        fence = self._shared.fence
        await self._shared.db.write(
            lambda t: agent_sessions.save(t, fence.root_id, fence.epoch, row)
        )

    async def save_counters(self, counters: Counters) -> None:
        """Write what moved, if anything did. Raises `StaleEpoch`."""
        if counters == self._saved:
            return
        fence, key = self._shared.fence, self._session_id
        stored = sessions.Counters(
            last_activity_at_ms=counters.last_activity_at_ms,
            first_message=counters.first_message,
            message_count=counters.message_count,
            model=counters.model,
            mode=counters.mode,
        )
        self._saved = msgspec.structs.replace(counters)
        await self._shared.db.write(
            lambda t: sessions.save_counters(t, fence.root_id, fence.epoch, key, stored)
        )

    async def save_exit(self, cause: str | None) -> None:
        """How the agent ended last. Raises `StaleEpoch`."""
        fence, key, now = self._shared.fence, self._session_id, self._shared.clock.now_ms()
        await self._shared.db.write(
            lambda t: sessions.save_exit(t, fence.root_id, fence.epoch, key, cause, now)
        )

    def login(self, text: str | None) -> Waiting | None:
        """A missing key or login, as something that waits for a person."""
        if text is None:
            self._login_since = None
            return None
        self._login_since = self._login_since or self._shared.clock.now_ms()
        return Waiting(kind="login", since_ms=self._login_since, text=text)


async def transcript_tail(journal: Journal, before_prompt: str) -> str:
    """What was said last, quoted, for an agent that cannot remember it (A14)."""
    await journal.flush()
    page = await asyncio.to_thread(read_page, journal.path, limit=_ENTRIES)
    lines: list[str] = []
    for entry in page.entries:
        if isinstance(entry, PromptEntry) and entry.prompt_id != before_prompt:
            lines.append(f"> person: {entry.text}")
        elif isinstance(entry, MessageEntry):
            lines.append(f"> you: {entry.text}")
    text = "\n".join(lines)[-_TAIL:]
    if not text:
        return ""
    return f"The end of our conversation so far, quoted (you do not remember it):\n{text}"
