"""Follow one session: its tail, what comes live, older pages, and all of it after a reconnect."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from daemon_client.client import DaemonClient
from daemon_client.connection import Pushed
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol.replies import SessionChunk, SessionGone, SessionState, TranscriptPage
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import SessionId

TAIL: Final = 200
_PAGE: Final = 400
_MOST_PAGES: Final = 25
"""A hole after a lost connection is filled with at most this many pages, else the view restarts."""
_RETRY: Final = 2.0


class FeedListener(Protocol):
    """Who draws what comes. Called on the loop, never at once from inside a call to the feed."""

    def feed_entries(self, entries: Iterable[TranscriptEntry], *, tail: bool) -> None: ...
    def feed_restarted(self) -> None: ...
    def feed_state(self, state: SessionState) -> None: ...
    def feed_gone(self) -> None: ...
    def feed_failed(self, error: DaemonError) -> None: ...


class SessionFeed:
    """`run` until cancelled. `last_seq` tells what the listener has already."""

    def __init__(
        self,
        client: DaemonClient,
        session_id: SessionId,
        listener: FeedListener,
        last_seq: Callable[[], int],
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._listener = listener
        self._last_seq = last_seq
        self._again = asyncio.Event()
        self._tail_whole = asyncio.Event()
        self._held: list[TranscriptEntry] | None = []
        self._before: int | None = None
        self._paging = False

    @property
    def has_older(self) -> bool:
        """Whether the transcript goes further back than what was read."""
        return self._before is not None

    async def run(self) -> None:
        """Attach, and again whenever the connection or the stream was lost."""
        connection = self._client.connection
        ends = [connection.on_push(self._hear), connection.on_up(self._attach_again)]
        try:
            while True:
                self._again.clear()
                if not await self._attach_bounded():
                    return
                await self._again.wait()
        finally:
            for end in ends:
                end()

    async def _attach_bounded(self) -> bool:
        """False if there is nothing to follow any more."""
        try:
            await self._attach()
        except DaemonError as error:
            if error.code is ErrorCode.NOT_FOUND:
                self._listener.feed_gone()
                return False
            if error.code not in (ErrorCode.TIMEOUT, ErrorCode.UNAVAILABLE):
                self._listener.feed_failed(error)
                return False
            asyncio.get_running_loop().call_later(_RETRY, self._attach_again)
        except TimeoutError:
            self._attach_again()
        return True

    def _attach_again(self) -> None:
        """The stream has ended: whatever waits for the rest of it goes on."""
        self._again.set()
        self._tail_whole.set()

    async def _attach(self) -> None:
        known = self._last_seq()
        self._held = []
        self._tail_whole.clear()
        attached = await self._client.conversation.attach(
            self._session_id, tail=TAIL, environ=dict(os.environ)
        )
        async with asyncio.timeout(self._client.connection.limits.request):
            await self._tail_whole.wait()
        if self._again.is_set():
            return  # lost in the middle of the tail, which comes once more
        tail, self._held = self._held or [], None
        missing: list[TranscriptEntry] = []
        if known and tail and tail[0].seq > known + 1:
            filled = await self._fill(attached.before, known)
            if filled is None:
                known = 0
                self._listener.feed_restarted()
            else:
                missing = filled
        if not known:
            self._before = attached.before
        self._listener.feed_entries([*missing, *tail], tail=True)

    async def _fill(self, before: int | None, known: int) -> list[TranscriptEntry] | None:
        """What came between `known` and the tail; None if that is too much."""
        found: list[TranscriptEntry] = []
        for _ in range(_MOST_PAGES):
            page = await self._page(before)
            found[:0] = page.entries
            before = page.before
            if before is None or (page.entries and page.entries[0].seq <= known + 1):
                return found
        return None

    async def _page(self, before: int | None) -> TranscriptPage:
        return await self._client.conversation.transcript(
            self._session_id, before=before, limit=_PAGE
        )

    async def older(self) -> None:
        """One page further back, if there is any and none is on its way."""
        if self._before is None or self._paging:
            return
        self._paging = True
        try:
            page = await self._page(self._before)
        except DaemonError as error:
            self._listener.feed_failed(error)
        else:
            self._before = page.before
            self._listener.feed_entries(page.entries, tail=False)
        finally:
            self._paging = False

    async def leave(self) -> None:
        """Tell the daemon that nobody follows any more; it notices anyway when the link goes."""
        try:
            await self._client.conversation.detach(self._session_id)
        except DaemonError:
            return

    def _hear(self, message: Pushed) -> None:
        if isinstance(message, SessionChunk) and message.session_id == self._session_id:
            self._hear_chunk(message)
        elif isinstance(message, SessionState) and message.session_id == self._session_id:
            self._listener.feed_state(message)
        elif isinstance(message, SessionGone) and message.session_id == self._session_id:
            self._listener.feed_gone()

    def _hear_chunk(self, chunk: SessionChunk) -> None:
        if self._held is not None:
            self._held += chunk.entries
        elif chunk.entries:
            self._listener.feed_entries(chunk.entries, tail=False)
        if chunk.last:
            self._tail_whole.set()
        if chunk.lost:
            self._attach_again()
