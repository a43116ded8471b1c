"""Transcripts: one append-only file of JSON lines per session (spec 07.4, A14).

A record is complete when its newline is there. The worker of the tree is the one writer; anybody
may read. Nothing here ever holds a whole transcript in memory.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, get_args

import msgspec

from daemon_client.paths import make_private
from daemon_client.protocol.transcript import NoticeEntry, TranscriptEntry

MAX_ENTRY: Final = 960 << 10
"""Bytes of one record; with its envelope it still fits a frame of 1 MiB (07.2)."""

MAX_UNWRITTEN: Final = 8 << 20
"""Bytes kept in memory while the disk refuses them; what comes after is counted, not kept."""

_BLOCK: Final = 64 << 10
_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_KINDS: Final = frozenset(kind.__struct_config__.tag for kind in get_args(TranscriptEntry))


class Page(msgspec.Struct, kw_only=True, frozen=True):
    """Entries, oldest first; `before` is what the next older page is asked with, None: no older."""

    entries: tuple[TranscriptEntry, ...]
    before: int | None


class _Head(msgspec.Struct, kw_only=True, frozen=True):
    """What every version's record has."""

    kind: str
    seq: int = 0


class _Flight(msgspec.Struct, kw_only=True, frozen=True):
    """What one write came to: bytes that reached the file, and what stopped it."""

    written: int
    error: OSError | None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TranscriptEntry)
_head_decoder = msgspec.json.Decoder(_Head)


def transcript_path(directory: Path, session_id: str) -> Path:
    """Where a session's transcript is. Raises `ValueError` for an id that could be a path."""
    if not _ID.fullmatch(session_id):
        raise ValueError(f"not a session id: {session_id!r}")
    return directory / f"{session_id}.jsonl"


class TranscriptWriter:
    """The one writer of a transcript: appends in memory, writes in order on a thread.

    For one event loop. `flush` returning means the bytes are in the file, which survives the death
    of this process; against loss of power there is only the repair of a torn end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last_seq = 0
        self._descriptor = -1
        self._offset = 0
        self._buffer = bytearray()
        self._flight: asyncio.Future[_Flight] | None = None
        self._cargo = bytearray()
        self._failing = False
        self._dropped = 0
        self._last_at_ms = 0

    @property
    def unwritten(self) -> int:
        """Bytes appended and not yet handed to a write."""
        return len(self._buffer)

    async def open(self) -> None:
        """Create the file (0600, in a 0700 directory) or repair its end, and find `last_seq`.

        Raises `OSError`, or `DaemonError` (refused) for a directory that is not ours.
        """
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        make_private(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            self._offset = _end_of_records(file, size)
            self.last_seq = _last_seq(file, self._offset)
        if self._offset < size:
            os.ftruncate(self._descriptor, self._offset)

    def append(self, entry: TranscriptEntry, now_ms: int) -> TranscriptEntry:
        """Give the entry its `seq` and time and queue it for the next `flush`.

        An entry over `MAX_ENTRY` is replaced by a warning that says so: nobody could read it.
        """
        self.last_seq += 1
        self._last_at_ms = now_ms
        entry = msgspec.structs.replace(entry, seq=self.last_seq, at_ms=now_ms)
        line = _encoder.encode(entry)
        if len(line) > MAX_ENTRY:
            text = f"an entry of {len(line)} bytes was too large to keep"
            entry = NoticeEntry(seq=self.last_seq, at_ms=now_ms, text=text, level="warning")
            line = _encoder.encode(entry)
        if self._failing and len(self._buffer) >= MAX_UNWRITTEN:
            self._dropped += 1
        else:
            self._buffer += line + b"\n"
        return entry

    async def flush(self) -> None:
        """Everything appended before this call is in the file when it returns.

        Writes run one at a time and in order; callers share them, and a cancelled caller does not
        stop one. Raises `OSError`: what was not written is kept, and the next flush goes on at the
        very byte where this one stopped.
        """
        assert self._descriptor >= 0, "the transcript is not open"
        goal = self._offset + len(self._cargo) + len(self._buffer)
        while self._offset < goal:
            flight = self._flight or self._depart()
            result = await asyncio.shield(flight)
            self._land(flight, result)
            if result.error is not None:
                raise OSError(result.error.errno, result.error.strerror, str(self.path))

    async def close(self) -> None:
        """Flush and close; closed even if the flush raises `OSError`. Repeating it is harmless."""
        if self._descriptor < 0:
            return
        try:
            await self.flush()
            await self.flush()  # the first one may have ended a gap, of which a warning tells
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            if self._flight is None:
                os.close(descriptor)
            else:  # we were cancelled: a thread still writes to it
                self._flight.add_done_callback(lambda _: os.close(descriptor))

    def _depart(self) -> asyncio.Future[_Flight]:
        self._cargo, self._buffer = self._buffer, bytearray()
        loop = asyncio.get_running_loop()
        flight = loop.run_in_executor(None, _write, self._descriptor, self._cargo, self._offset)
        # for when every waiter was cancelled
        flight.add_done_callback(lambda done: self._land(done, done.result()))
        self._flight = flight
        return flight

    def _land(self, flight: asyncio.Future[_Flight], result: _Flight) -> None:
        """Book what a flight came to, once: by its callback or by whoever sees it done first."""
        if flight is not self._flight:
            return
        cargo, self._cargo = self._cargo, bytearray()
        self._flight = None
        self._offset += result.written
        self._failing = result.error is not None
        if self._failing:
            self._buffer[:0] = cargo[result.written :]
        elif self._dropped:
            text = f"{self._dropped} entries were not recorded: the disk refused them"
            self._dropped = 0
            self.append(NoticeEntry(text=text, level="warning"), self._last_at_ms)


def _write(descriptor: int, cargo: bytearray, offset: int) -> _Flight:
    """Write at `offset`: a retry after half a line overwrites nothing and repeats nothing."""
    written = 0
    try:
        with memoryview(cargo) as view:
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], offset + written)
    except OSError as error:
        return _Flight(written=written, error=error)
    return _Flight(written=written, error=None)


def read_page(
    path: Path, *, before: int | None = None, limit: int = 200, max_bytes: int = 256 << 10
) -> Page:
    """The last entries that end before byte `before` (None: the newest), read backwards.

    Stops at `limit` entries or `max_bytes` bytes of records, but gives at least one entry if there
    is any. A missing file is an empty page, an unfinished last record is not there yet. Kinds of a
    newer version are skipped; damaged records become one warning for each run of them. Raises
    `OSError`.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Page(entries=(), before=None)
    with file:
        size = file.seek(0, os.SEEK_END)
        end = size if before is None else max(0, min(before, size))
        return _collect(_lines_backward(file, end), limit, max_bytes)


def _collect(lines: Iterator[tuple[int, bytes | None]], limit: int, max_bytes: int) -> Page:
    found: list[TranscriptEntry | None] = []
    held = 0
    oldest = 0
    for start, line in lines:
        size = MAX_ENTRY if line is None else len(line) + 1
        if found and (len(found) >= limit or held + size > max_bytes):
            return Page(entries=_with_warnings(found), before=oldest)
        entry = None if line is None else _decode(line)
        if not isinstance(entry, _Head):
            found.append(entry)
            held += size
        oldest = start
    return Page(entries=_with_warnings(found), before=None)


def _decode(line: bytes) -> TranscriptEntry | _Head | None:
    """The entry; only its head if its kind is of a newer version; None if it is damaged."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head = _decode_head(line)
    return None if head is None or head.kind in _KINDS else head


def _decode_head(line: bytes) -> _Head | None:
    try:
        return _head_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _with_warnings(newest_first: list[TranscriptEntry | None]) -> tuple[TranscriptEntry, ...]:
    """Oldest first, each run of damaged records as one warning that sits between its neighbours."""
    entries: list[TranscriptEntry] = []
    damaged = 0
    for entry in reversed(newest_first):
        if entry is None:
            damaged += 1
            continue
        if damaged:
            older = entries[-1] if entries else None
            seq = older.seq + 1 if older else max(0, entry.seq - 1)
            entries.append(_warning(damaged, seq, older.at_ms if older else entry.at_ms))
            damaged = 0
        entries.append(entry)
    if damaged:
        older = entries[-1] if entries else NoticeEntry(text="")
        entries.append(_warning(damaged, older.seq + 1, older.at_ms))
    return tuple(entries)


def _warning(damaged: int, seq: int, at_ms: int) -> NoticeEntry:
    what = "an entry of the transcript is" if damaged == 1 else f"{damaged} entries are"
    return NoticeEntry(seq=seq, at_ms=at_ms, text=f"{what} unreadable", level="warning")


def _lines_backward(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes | None]]:
    """(offset, line) of each complete line before `end`, newest first; None: over `MAX_ENTRY`."""
    pieces: list[bytes] = []
    held = 0
    whole = False  # whether the newline that ends the line under way was seen
    for position, block in _blocks_backward(file, end):
        stop = len(block)
        while stop >= 0:
            cut = block.rfind(b"\n", 0, stop)
            held += stop - cut - 1
            if whole and held <= MAX_ENTRY:
                pieces.append(block[cut + 1 : stop])
            if cut >= 0:
                if whole:
                    yield position + cut + 1, _joined(pieces, held)
                pieces, held, whole = [], 0, True
            stop = cut
    if whole:
        yield 0, _joined(pieces, held)


def _joined(pieces: list[bytes], held: int) -> bytes | None:
    return b"".join(reversed(pieces)) if held <= MAX_ENTRY else None


def _blocks_backward(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of each block before `end`, last first."""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        yield start, file.read(end - start)
        end = start


def _end_of_records(file: BinaryIO, end: int) -> int:
    """The offset behind the last complete record: what follows was torn off in a write."""
    for position, block in _blocks_backward(file, end):
        cut = block.rfind(b"\n")
        if cut >= 0:
            return position + cut + 1
    return 0


def _last_seq(file: BinaryIO, end: int) -> int:
    """The newest readable `seq`, plus one for each damaged record behind it."""
    damaged = 0
    for _, line in _lines_backward(file, end):
        head = None if line is None else _decode_head(line)
        if head is not None:
            return head.seq + damaged
        damaged += 1
    return damaged
