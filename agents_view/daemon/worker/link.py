"""The worker's line to its supervisor: dial, register, tell, and dial again (05.6, 07.1).

Facts are collected and sent once per loop turn; what could not be sent while no supervisor was
there is not lost, because every hello carries everything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from agents_view.base.clock import Clock
from agents_view.base.settings import DaemonSettings
from agents_view.daemon.wire import (
    Alive,
    Aside,
    Event,
    Facts,
    Order,
    SessionFacts,
    SupervisorClosing,
    ToWorker,
    WorkerHello,
    WorkerWelcome,
)
from daemon_client.connection import peer_uid
from daemon_client.errors import DaemonError, ErrorCode, FrameError
from daemon_client.framing import Codec, FrameLink
from daemon_client.protocol import Closing, WireError
from daemon_client.protocol.transcript import TranscriptEntry

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05
_PORTION: Final = 256 << 10
_HELLO_BYTES: Final = 700 << 10
_KEPT_ENTRIES: Final = 2000
_LAST_WORDS: Final = 1.0
_PASSING = (ErrorCode.BUSY, ErrorCode.TIMEOUT)


T = TypeVar("T", bound=msgspec.Struct)


class LinkOwner(Protocol):
    """The worker, as its line sees it."""

    def hello(self) -> WorkerHello: ...

    def welcomed(self) -> None:
        """A supervisor has taken us over: tell it everything else."""
        ...

    def ordered(self, order: Order) -> None: ...

    def refused(self, reason: str) -> None:
        """This supervisor does not want us: the tree has another worker."""
        ...


class Link:
    """Keeps the connection; `revive` may start a supervisor when none was seen for long."""

    def __init__(
        self,
        socket: Path,
        settings: DaemonSettings,
        clock: Clock,
        owner: LinkOwner,
        revive: Callable[[], Awaitable[None]],
        *,
        tied: bool = False,
    ) -> None:
        self._socket = socket
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._revive = revive
        self._tied = tied
        self._codec: Codec[ToWorker] = Codec(ToWorker)
        self._link: FrameLink | None = None
        self._up = False
        self._welcomed = False
        self._lost = asyncio.Event()
        self._facts: dict[str, SessionFacts] = {}
        self._told: dict[str, SessionFacts] = {}
        self._asides: dict[str, Aside] = {}
        self._entries: defaultdict[str, list[TranscriptEntry]] = defaultdict(list)
        self._watched: set[str] = set()
        self._scheduled = False
        self._closing = False
        self._said_at = 0.0
        self.may_revive = True

    # Upward

    def facts(self, facts: SessionFacts) -> None:
        self._facts[facts.session_id] = facts
        self._soon()

    def aside(self, aside: Aside) -> None:
        self._asides[aside.session_id] = aside
        self._soon()

    def entries(self, session_id: str, entries: tuple[TranscriptEntry, ...]) -> None:
        if session_id in self._watched:
            waiting = self._entries[session_id]
            waiting.extend(entries)
            if not self._up:  # whoever follows it reads the file again
                del waiting[:-_KEPT_ENTRIES]
            self._soon()

    def watch(self, session_id: str, on: bool) -> None:
        """Send the entries of a session, or stop."""
        if on:
            self._watched.add(session_id)
        else:
            self._watched.discard(session_id)
            self._entries.pop(session_id, None)

    def send(self, message: msgspec.Struct) -> None:
        """Send now, behind everything collected; nothing if there is no supervisor."""
        self.flush()
        self._send(message)

    def flush(self) -> None:
        """Send what was collected."""
        self._scheduled = False
        if not self._up:
            return
        # first: a row that says "needs approval" can be asked what for
        asides, self._asides = tuple(self._asides.values()), {}
        for aside in asides:
            self._send(aside)
        changed = [f for key, f in self._facts.items() if self._told.get(key) != f]
        self._facts.clear()
        for part in portions(changed, _PORTION):
            self._send(Facts(sessions=part))
        self._told.update((f.session_id, f) for f in changed)
        for session_id, entries in self._entries.items():
            for part in portions(entries, _PORTION):
                self._send(Event(session_id=session_id, entries=part))
        self._entries.clear()

    def _soon(self) -> None:
        if self._up and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def _send(self, message: msgspec.Struct) -> None:
        if self._link is None:
            return
        self._said_at = self._clock.monotonic()
        try:
            self._link.send(self._codec.encode(message))
        except FrameError as error:
            log.error("not sent: %s", error)

    # running

    async def run(self) -> None:
        """Stay connected until closed or cancelled."""
        pause, alone_since = _FIRST_PAUSE, self._clock.monotonic()
        while not self._closing:
            self._lost.clear()
            if await self._dial():
                await self._talk()
                if self._welcomed:
                    pause, alone_since = _FIRST_PAUSE, self._clock.monotonic()
                    continue
            alone = self._clock.monotonic() - alone_since
            if (self.may_revive or self._tied) and alone > self._settings.supervisor_grace:
                await self._revive_quietly()
                alone_since = self._clock.monotonic()
            await self._clock.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, self._settings.redial_max)

    async def _dial(self) -> bool:
        link = FrameLink(self._on_frame, self._on_lost, self._on_garbage)
        try:
            async with asyncio.timeout(self._settings.hello_timeout):
                await asyncio.get_running_loop().create_unix_connection(
                    lambda: link, str(self._socket)
                )
        except OSError:
            return False
        sock = link.transport.get_extra_info("socket") if link.transport else None
        uid = peer_uid(sock) if sock is not None else None
        if uid is not None and uid != os.getuid():
            log.error("whoever listens at %s runs as uid %d, not as us", self._socket, uid)
            link.abort()
            return False
        self._link = link
        self._welcomed = False
        self._send(fitting_hello(self._owner.hello()))
        return True

    async def _talk(self) -> None:
        """Until the link breaks: say something at least every few seconds (R7)."""
        interval = self._settings.alive_interval
        welcome_by = self._clock.monotonic() + self._settings.hello_timeout
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(interval):
                    await self._lost.wait()
            except TimeoutError:
                now = self._clock.monotonic()
                if not self._welcomed and now > welcome_by and self._link is not None:
                    log.warning("no welcome from the supervisor: dialling again")
                    self._link.abort()
                elif now - self._said_at >= interval * 0.9:
                    self._send(Alive())

    async def _revive_quietly(self) -> None:
        try:
            await self._revive()
        except (DaemonError, OSError) as error:
            log.warning("no supervisor, and none could be started: %s", error)

    async def close(self) -> None:
        """Say no more, and give what was said a moment to leave."""
        self.flush()
        self._closing = True
        if self._link is None:
            return
        self._link.close()
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self._lost.wait()
        except TimeoutError:
            log.warning("the supervisor does not read")

    # FrameLink

    def _on_frame(self, payload: bytes) -> None:
        message = self._codec.decode(payload)
        if isinstance(message, Order):
            self._owner.ordered(message)
        elif isinstance(message, WorkerWelcome):
            self._up = self._welcomed = True
            self.may_revive = True
            self._told.clear()
            self._owner.welcomed()
        elif isinstance(message, SupervisorClosing):
            self.may_revive = message.reason != "shutdown"
        elif isinstance(message, Closing):
            self._refused(message.error)

    def _refused(self, error: WireError) -> None:
        """For good, unless it is about this moment only: then it is dialled again."""
        log.warning("connection refused code=%s: %s", error.code, error.message)
        if error.code not in _PASSING:
            self._owner.refused(error.message)

    def _on_lost(self) -> None:
        self._up = False
        self._link = None
        self._lost.set()

    def _on_garbage(self, error: FrameError) -> None:
        log.error("supervisor not understood: %s", error)
        if self._link is not None:
            self._link.abort()


def portions(items: Iterable[T], most: int) -> list[tuple[T, ...]]:
    """Structs in portions of about `most` bytes; one that is larger goes alone."""
    parts: list[tuple[T, ...]] = []
    batch: list[T] = []
    size = 0
    for item in items:
        weight = len(msgspec.msgpack.encode(item))
        if batch and size + weight > most:
            parts.append(tuple(batch))
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        parts.append(tuple(batch))
    return parts


def fitting_hello(hello: WorkerHello) -> WorkerHello:
    """As many facts as fit a frame, of resident sessions first; the others follow the welcome."""
    ordered = sorted(hello.facts, key=lambda facts: not (facts.resident or facts.queued))
    parts = portions(ordered, _HELLO_BYTES)
    return msgspec.structs.replace(hello, facts=parts[0] if parts else ())
