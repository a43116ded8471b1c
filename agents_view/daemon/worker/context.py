"""What the sessions of one worker share."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from agents_view.acp.catalogue import load_catalogue
from agents_view.base.clock import Clock
from agents_view.base.config import load_settings
from agents_view.base.settings import AgentEntry, Settings
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.prompts import Fence
from agents_view.daemon.wire import Aside, SessionFacts
from daemon_client.protocol.transcript import TranscriptEntry


class Upward(Protocol):
    """How a session tells the supervisor."""

    def facts(self, facts: SessionFacts) -> None: ...

    def aside(self, aside: Aside) -> None: ...

    def entries(self, session_id: str, entries: tuple[TranscriptEntry, ...]) -> None: ...


@dataclasses.dataclass(kw_only=True)
class Shared:
    """One worker's parts. `replaced` is called when the tree has another worker (StaleEpoch)."""

    db: Database
    fence: Fence
    settings: Settings
    config: Path
    clock: Clock
    state: Path
    transcripts: Path
    socket: str
    upward: Upward
    replaced: Callable[[], None]
    begun: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    """Set once agents may start: a supervisor has told what it knows of people's environments."""

    @functools.cached_property
    def catalogue(self) -> Mapping[str, AgentEntry]:
        """The agents there are; read once, until a person asks for another try."""
        return load_catalogue(self.settings.agents).agents

    async def read_agents_again(self) -> None:
        """Who tries again may have corrected the config (S51); a missing file says nothing.

        The limits stay as they are for this worker's life.
        """
        if not self.config.is_file():
            return
        loaded = await asyncio.to_thread(load_settings, self.config)
        self.settings = msgspec.structs.replace(self.settings, agents=loaded.settings.agents)
        self.__dict__.pop("catalogue", None)
