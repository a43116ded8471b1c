"""A session's transcript as its worker writes it: bounded entries, to file and watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from agents_view.base.clock import Clock
from agents_view.daemon.store.transcripts import TranscriptWriter
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
)

_FLUSH_AFTER = 0.02


class Journal:
    """Appends entries; they reach the file and the watchers a moment later, together."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        limit: int,
        publish: Callable[[tuple[TranscriptEntry, ...]], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self.path = path
        self._writer = TranscriptWriter(path)
        self._clock = clock
        self._limit = limit
        self._publish = publish
        self._failed = failed
        self._fresh: list[TranscriptEntry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Repair a torn end and go on counting where it stops."""
        await self._writer.open()

    def add(self, entry: TranscriptEntry) -> None:
        """Record it; a long text becomes several entries."""
        now = self._clock.now_ms()
        for part in bounded(entry, self._limit):
            self._fresh.append(self._writer.append(part, now))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_FLUSH_AFTER, self._flush_soon)

    def _flush_soon(self) -> None:
        self._timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush_quietly(), name="journal-flush")

    async def _flush_quietly(self) -> None:
        """What cannot be written now (disk full) is kept and tried again with the next entry."""
        self._tell()
        try:
            await self._writer.flush()
        except OSError as error:
            self._failed(error)

    async def flush(self) -> None:
        """Everything recorded is in the file when this returns. Raises `OSError`."""
        self._tell()
        await self._writer.flush()

    async def close(self) -> None:
        """Write what is left and close."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)
        self._tell()
        await self._writer.close()

    def _tell(self) -> None:
        if self._fresh:
            fresh, self._fresh = tuple(self._fresh), []
            self._publish(fresh)


def bounded(entry: TranscriptEntry, limit: int) -> Iterator[TranscriptEntry]:
    """The entry as entries of at most `limit` characters of text each."""
    if isinstance(entry, (PromptEntry, MessageEntry, ThoughtEntry)) and len(entry.text) > limit:
        for number, start in enumerate(range(0, len(entry.text), limit)):
            part = msgspec.structs.replace(entry, text=entry.text[start : start + limit])
            if isinstance(part, PromptEntry):
                part = msgspec.structs.replace(part, part=number)
            yield part
    elif isinstance(entry, ToolEntry):
        yield msgspec.structs.replace(
            entry,
            title=_cut(entry.title, limit),
            output=None if entry.output is None else _middle_cut(entry.output, 4 * limit),
            diffs=tuple(_bounded_diff(diff, limit) for diff in entry.diffs[:8]),
            locations=entry.locations[:64],
        )
    elif isinstance(entry, RawEntry):
        yield msgspec.structs.replace(entry, json=_cut(entry.json, 2 * limit))
    else:
        yield entry


def _bounded_diff(diff: Diff, limit: int) -> Diff:
    return msgspec.structs.replace(
        diff,
        old_text=_middle_cut(diff.old_text, limit),
        new_text=_middle_cut(diff.new_text, limit),
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _middle_cut(text: str, limit: int) -> str:
    """Beginning and end: the end is what people look for."""
    if len(text) <= limit:
        return text
    head, tail = limit // 4, limit - limit // 4
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"
