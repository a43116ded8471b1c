"""The writer of a transcript: in order, one write at a time, past all refusals of a disk (07.4)."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from agents_view.daemon.store import transcripts
from agents_view.daemon.store.transcripts import MAX_UNWRITTEN, read_page, transcript_path
from daemon_client.protocol.transcript import MessageEntry, NoticeEntry
from tests.store.driver import seqs_of
from tests.store.samples import NOW, ROOT
from tests.store.scribe import opened, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return transcript_path(tmp_path / "transcripts", ROOT)


async def test_appending_while_flushing_keeps_the_order(path: Path) -> None:
    writer = await opened(path)
    async with asyncio.TaskGroup() as group:
        for number in range(400):
            writer.append(MessageEntry(text="x" * (number % 50)), NOW)
            if number % 3 == 0:
                group.create_task(writer.flush())
            if number % 20 == 0:
                await asyncio.sleep(0)
    await writer.flush()
    assert writer.unwritten == 0
    assert seqs_of(path) == list(range(1, 401))
    await writer.close()


async def test_flush_means_in_the_file(path: Path) -> None:
    """Everything appended before the call, whoever's write carried it."""
    writer = await opened(path)
    for number in range(1, 30):
        writer.append(MessageEntry(text="a"), NOW)
        first = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0)
        writer.append(MessageEntry(text="b"), NOW)
        await writer.flush()
        assert len(path.read_bytes().splitlines()) == 2 * number
        await first
    await writer.close()


async def test_a_flush_between_a_write_and_its_booking(path: Path) -> None:
    """The write is done, its callback not yet run: this once span for ever."""
    writer = await opened(path)
    writer.append(MessageEntry(text="x"), NOW)
    first = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)
    flight = writer._flight
    assert flight is not None
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        pass  # the loop stands still while the thread ends its write
    await asyncio.sleep(0)
    assert flight.done() and writer._flight is flight, "just between"
    writer.append(MessageEntry(text="y"), NOW)
    await asyncio.wait_for(writer.flush(), 5)
    await first
    await writer.close()
    assert seqs_of(path) == [1, 2]


async def test_one_write_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = 0
    real = transcripts._write

    def watched(*arguments):
        nonlocal writing
        writing += 1
        assert writing == 1
        result = real(*arguments)
        writing -= 1
        return result

    monkeypatch.setattr(transcripts, "_write", watched)
    writer = await opened(path)
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            writer.append(MessageEntry(text="x"), NOW)
            group.create_task(writer.flush())
            await asyncio.sleep(0)
    await writer.close()
    assert seqs_of(path) == list(range(1, 51))


async def test_a_cancelled_flush_stops_no_write(path: Path) -> None:
    writer = await opened(path)
    writer.append(MessageEntry(text="x"), NOW)
    flush = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    writer.append(MessageEntry(text="y"), NOW)
    await writer.close()
    assert seqs_of(path) == [1, 2]


class Disk:
    """A disk that takes so many bytes in all, then refuses, until it is given more room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._pwrite = os.pwrite

    def pwrite(self, descriptor: int, data: memoryview, offset: int) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        done = self._pwrite(descriptor, data[: min(self.room, 7)], offset)
        self.room -= done
        return done


async def test_a_failed_write_resumes_at_its_byte(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full at every byte of two records: nothing is lost, repeated or torn."""
    sample = transcript_path(path.parent, "sample")
    kept = await written(sample, MessageEntry(text="one"), MessageEntry(text="two"))
    whole = sample.read_bytes()
    for room in range(len(whole)):
        disk = Disk(room)
        monkeypatch.setattr(os, "pwrite", disk.pwrite)
        path.unlink(missing_ok=True)
        writer = await opened(path)
        writer.append(MessageEntry(text="one"), NOW)
        writer.append(MessageEntry(text="two"), NOW + 1)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                await writer.flush()
        assert path.read_bytes() == whole[:room]
        assert read_page(path).entries == tuple(kept[: whole[:room].count(b"\n")])
        disk.room = 10_000
        await writer.flush()
        assert path.read_bytes() == whole
        await writer.close()
        monkeypatch.undo()


async def test_a_long_refusal_costs_bounded_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not kept is counted, and the transcript says so when the disk is back."""
    disk = Disk(0)
    monkeypatch.setattr(os, "pwrite", disk.pwrite)
    writer = await opened(path)
    entry = MessageEntry(text="x" * 900_000)
    for number in range(20):
        writer.append(entry, NOW)
        if number == 0:
            with pytest.raises(OSError):
                await writer.flush()
    assert MAX_UNWRITTEN <= writer.unwritten < MAX_UNWRITTEN + 1_000_000
    monkeypatch.undo()
    await writer.close()
    entries = read_page(path).entries
    assert entries[-1] == NoticeEntry(
        seq=21,
        at_ms=NOW,
        text="10 entries were not recorded: the disk refused them",
        level="warning",
    )


async def test_close_closes_even_if_the_disk_refuses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(os, "pwrite", Disk(0).pwrite)
    writer = await opened(path)
    writer.append(MessageEntry(text="x"), NOW)
    with pytest.raises(OSError):
        await writer.close()
    await writer.close()
    assert len(os.listdir("/dev/fd")) == before
