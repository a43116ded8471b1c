"""A session's transcript as its worker writes it: bounded entries, to file and watchers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from agents_view.base.clock import Clock
from agents_view.daemon.store.transcripts import TranscriptWriter
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    PermissionEntry,
    PlanEntry,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
)

log = logging.getLogger(__name__)

_FLUSH_AFTER: Final = 0.02
_MOST_DIFFS: Final = 8
_MOST_PLACES: Final = 64
_MOST_STEPS: Final = 200


class Journal:
    """Appends entries; they reach the file and the watchers a moment later, together.

    The file is opened when the session first becomes resident: a tree of a thousand passive
    members holds no thousand descriptors.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        limit: int,
        publish: Callable[[tuple[TranscriptEntry, ...]], None],
    ) -> None:
        self.path = path
        self._writer = TranscriptWriter(path)
        self._opened = False
        self._clock = clock
        self._limit = limit
        self._publish = publish
        self._fresh: list[TranscriptEntry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._failing = False

    async def open(self) -> None:
        """Repair a torn end and go on counting where it stops. Raises `OSError`. Repeatable."""
        if not self._opened:
            await self._writer.open()
            self._opened = True

    def add(self, entry: TranscriptEntry) -> None:
        """Record it; a long text becomes several entries."""
        now = self._clock.now_ms()
        for part in bounded(entry, self._limit):
            self._fresh.append(self._writer.append(part, now))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_FLUSH_AFTER, self._flush_soon)

    def retry(self) -> None:
        """What a full disk refused is tried again now and then, without waiting for more."""
        if self._failing:
            self._flush_soon()

    def _flush_soon(self) -> None:
        self._timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush_quietly(), name="journal-flush")

    async def _flush_quietly(self) -> None:
        """Until nothing is left: what comes while a slow disk writes has started no new one."""
        while self._fresh or self._writer.unwritten:
            try:
                await self.flush()
            except OSError as error:
                self._note(error)
                return
        self._note(None)

    def _note(self, error: OSError | None) -> None:
        """One line for each change: a full disk must not fill its own log."""
        if error is not None and not self._failing:
            log.error("transcript not written path=%s: %s", self.path.name, error)
        elif error is None and self._failing:
            log.info("transcript written again path=%s", self.path.name)
        self._failing = error is not None

    async def flush(self) -> None:
        """Everything recorded is in the file when this returns. Raises `OSError`."""
        if self._fresh:
            fresh, self._fresh = tuple(self._fresh), []
            self._publish(fresh)
        if self._opened:
            await self._writer.flush()

    async def close(self) -> None:
        """Write what is left and close. What cannot be written is logged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)
        try:
            await self.flush()
            await self._writer.close()
        except OSError as error:
            self._note(error)


def bounded(entry: TranscriptEntry, limit: int) -> Iterator[TranscriptEntry]:
    """The entry as entries of at most `limit` characters of text each; others are cut to fit."""
    if isinstance(entry, (PromptEntry, MessageEntry, ThoughtEntry)):
        yield from _split(entry, limit)
    elif isinstance(entry, ToolEntry):
        yield _bounded_tool(entry, limit)
    elif isinstance(entry, RawEntry):
        yield msgspec.structs.replace(entry, json=_cut(entry.json, 2 * limit))
    elif isinstance(entry, PermissionEntry):
        yield msgspec.structs.replace(entry, text=_middle_cut(entry.text, 2 * limit))
    elif isinstance(entry, PlanEntry):
        yield _bounded_plan(entry, limit)
    else:
        yield entry


def _split(
    entry: PromptEntry | MessageEntry | ThoughtEntry, limit: int
) -> Iterator[TranscriptEntry]:
    if len(entry.text) <= limit:
        yield entry
        return
    for number, start in enumerate(range(0, len(entry.text), limit)):
        part = msgspec.structs.replace(entry, text=entry.text[start : start + limit])
        if isinstance(part, PromptEntry):
            part = msgspec.structs.replace(part, part=number)
        yield part


def _bounded_tool(entry: ToolEntry, limit: int) -> ToolEntry:
    """Output and diffs share what one frame can carry, in any script."""
    diffs = entry.diffs[:_MOST_DIFFS]
    each = min(limit, limit // len(diffs)) if diffs else 0
    return msgspec.structs.replace(
        entry,
        title=_cut(entry.title, limit // 4),
        output=None if entry.output is None else _middle_cut(entry.output, 2 * limit),
        diffs=tuple(_bounded_diff(diff, each) for diff in diffs),
        locations=tuple(place[:1000] for place in entry.locations[:_MOST_PLACES]),
    )


def _bounded_plan(entry: PlanEntry, limit: int) -> PlanEntry:
    items = entry.items[:_MOST_STEPS]
    each = max(100, 2 * limit // max(1, len(items)))
    cut = tuple(msgspec.structs.replace(item, text=_cut(item.text, each)) for item in items)
    return msgspec.structs.replace(entry, items=cut)


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
