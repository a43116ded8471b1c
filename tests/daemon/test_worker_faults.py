"""Disks that are full, faults of ours, frames that would not fit: what a worker survives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from agents_view.base import processes
from agents_view.base.clock import SystemClock
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreFull
from agents_view.daemon.store.transcripts import TranscriptWriter, read_page
from agents_view.daemon.wire import SessionFacts, Start, WorkerHello
from agents_view.daemon.worker import conversation
from agents_view.daemon.worker.facts import aside_of
from agents_view.daemon.worker.journal import Journal, bounded
from agents_view.daemon.worker.link import Link, fitting_hello, portions
from agents_view.daemon.worker.memory import quoted
from daemon_client.framing import MAX_FRAME, Codec
from daemon_client.protocol.replies import PendingRequest, QueuedPrompt, SessionChoices
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    PermissionEntry,
    PlanEntry,
    PlanItem,
    PromptEntry,
    ToolEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from tests.daemon.test_worker_turns import ends, said
from tests.support.homes import eventually, processes_of
from tests.support.scripted import ENV
from tests.support.worker_harness import FAST, bench

QUICK = FAST + "alive_interval = 0.2\n"
WIDE = "字"
"""Three bytes in UTF-8, one character."""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk under an inline worker. The test's own process adopts nobody's orphans."""
    monkeypatch.setattr(processes, "become_subreaper", lambda: None)
    monkeypatch.setenv("PYTHONPATH", ENV["PYTHONPATH"])
    found = Disk()
    real = Database.write

    async def write(self: Database, work: Callable, *, cleanup: bool = False) -> object:
        if found.full and self is found.database:
            self.recording = "not recording: disk full"
            raise StoreFull("the disk is full")
        return await real(self, work, cleanup=cleanup)

    async def probe(self: Database) -> str:
        if not found.full:
            self.recording = ""
        return self.recording

    monkeypatch.setattr(Database, "write", write)
    monkeypatch.setattr(Database, "probe", probe)
    yield found


class Disk:
    full = False
    database: Database | None = None


async def test_07_4_a_disk_that_is_full_at_the_end_of_a_turn_ends_nothing(disk: Disk) -> None:
    async with bench(config=QUICK) as b:
        key = await b.session()
        async with b.inline() as worker:
            disk.database = worker._db
            await b.deliver(key, "say one; hold")
            await b.deliver(key, "say two")
            await b.up.seen(key, lambda f: f.turn == "writing" and f.queued == 1)
            disk.full = True
            await worker.runners[key].cancel()
            stalled = await b.up.seen(key, lambda f: f.held == 1)
            assert (stalled.turn, stalled.queued) == (None, 0)
            assert stalled.exit_cause == "not recorded: the disk is full"
            assert [s for _, s in await b.prompts(key)] == ["sent", "queued"]
            disk.full = False
            await b.up.seen(key, lambda f: f.message_count == 4 and f.turn is None)
            assert b.up.facts[key].exit_cause is None
            entries = await b.transcript(key)
            assert said(entries) == "one|two"
            assert [reason for reason, _ in ends(entries)] == ["cancelled", "end_turn"]
        assert [s for _, s in await b.prompts(key)] == ["done", "done"]


async def test_a8_an_agent_whose_id_cannot_be_recorded_is_not_prompted(disk: Disk) -> None:
    async with bench(config=QUICK) as b:
        key = await b.session()
        await b.queue(key, "say at last")
        b.up.welcomes = False
        async with b.inline() as worker:
            disk.database, disk.full = worker._db, True
            worker.welcomed()
            await asyncio.sleep(0)
            async with asyncio.timeout(15):
                while not worker.runners[key].state.stalled:
                    await asyncio.sleep(0.01)
            assert worker.runners[key].state.client is None
            assert [s for _, s in await b.prompts(key)] == ["queued"]
            disk.full = False
            async with asyncio.timeout(15):
                while worker.runners[key].state.counters.message_count < 2:
                    await asyncio.sleep(0.01)
        assert [s for _, s in await b.prompts(key)] == ["done"]


async def test_a_fault_of_ours_ends_one_session_visibly_and_a_retry_brings_it_back(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = conversation.answered

    def faulty(reason: str) -> object:
        monkeypatch.setattr(conversation, "answered", real)
        raise ZeroDivisionError("a bug")

    async with bench() as b:
        key, other = await b.session(), await b.session()
        async with b.inline():
            await b.deliver(other, "hold")
            await b.up.seen(other, lambda f: f.turn)
            monkeypatch.setattr(conversation, "answered", faulty)
            await b.deliver(key, "say one")
            await b.deliver(key, "say two")
            broken = await b.up.seen(key, lambda f: f.exit_cause)
            assert broken.exit_cause == "internal error: ZeroDivisionError: a bug"
            assert (broken.turn, broken.resident, broken.held) == (None, False, 1)
            assert b.up.facts[other].turn is not None
            await b.up.order(Start(session_id=key, environ=ENV, retry=True))
            await b.up.seen(key, lambda f: f.message_count == 4 and f.turn is None)
            entries = await b.transcript(key)
            assert [reason for reason, _ in ends(entries)] == ["interrupted", "end_turn"]
            assert b.up.facts[key].exit_cause is None


async def test_a_fault_of_its_line_ends_the_worker_with_all_its_agents(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def faulty(self: Link) -> bool:
        raise ZeroDivisionError("a bug")

    async with bench() as b:
        key = await b.session()
        async with b.inline(code=1):
            await b.deliver(key, "setsid; hold")
            await b.up.seen(key, lambda f: f.turn)
            monkeypatch.setattr(Link, "_dial", faulty)
            b.up.drop()
            await eventually(lambda: not processes_of(b.home))
        assert ends(b.written(key)) == [("interrupted", "internal error: ZeroDivisionError")]


async def test_garbage_from_the_supervisor_is_dialled_again() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "hold")
            await b.up.seen(key, lambda f: f.turn)
            b.up.send_raw((5).to_bytes(4, "big") + b"junk!")
            await b.up.until(lambda: len(b.up.hellos) == 2)
            assert b.up.hellos[1].facts[0].turn is not None


# what must fit a frame


def frame(message: msgspec.Struct) -> int:
    return len(Codec(type(message)).encode(message))


def test_an_aside_fits_a_frame_and_the_oldest_request_is_whole() -> None:
    def asks(number: int) -> PendingRequest:
        return PendingRequest(
            session_id="s",
            request_id=str(number),
            kind="permission",
            text="t",
            since_ms=number,
            command=WIDE * 100_000,
        )

    queue = tuple(QueuedPrompt(prompt_id=str(n), text=WIDE * 4096) for n in range(64))
    names = tuple(WIDE * 120 for _ in range(1000))
    choices = SessionChoices(modes=names, models=names, commands=names)
    aside = aside_of("s", queue, tuple(map(asks, range(9))), choices)
    assert frame(aside) < MAX_FRAME
    assert aside.pending[0] == asks(0)
    assert len(aside.queue) == 64


def test_a_hello_of_a_large_tree_fits_and_begins_with_who_is_there() -> None:
    facts = tuple(
        SessionFacts(session_id=str(n), resident=n == 1999, exit_cause="x" * 1000)
        for n in range(2000)
    )
    hello = WorkerHello(
        protocol=1, product="", root_id="r", epoch=1, pid=1, start=1, boot_id="", facts=facts
    )
    fitting = fitting_hello(hello)
    assert frame(fitting) < MAX_FRAME
    assert fitting.facts[0].session_id == "1999"
    assert fitting_hello(msgspec.structs.replace(hello, facts=facts[:3])).facts == facts[:3]


def test_portions_keep_order_and_lose_nothing() -> None:
    items = [MessageEntry(text="x" * size) for size in (10, 900, 10, 5000, 10)]
    parts = portions(items, 1000)
    assert [item for part in parts for item in part] == items
    assert [len(part) for part in parts] == [3, 1, 1]
    assert portions([], 1000) == []


@pytest.mark.parametrize(
    "entry",
    [
        ToolEntry(
            tool_id="t",
            title=WIDE * 999_999,
            output=WIDE * 999_999,
            diffs=tuple(
                Diff(path="p", old_text=WIDE * 99_999, new_text=WIDE * 99_999) for _ in range(20)
            ),
            locations=(WIDE * 9999,) * 100,
        ),
        ToolEntry(tool_id="t", diffs=(Diff(path="p", new_text=WIDE * 999_999),)),
        PermissionEntry(request_id="r", text=WIDE * 999_999),
        PlanEntry(items=tuple(PlanItem(text=WIDE * 9999) for _ in range(5000))),
        MessageEntry(text=WIDE * 999_999),
    ],
    ids=["tool", "diff", "permission", "plan", "message"],
)
def test_an_entry_in_any_script_fits_half_a_frame(entry: TranscriptEntry) -> None:
    for part in bounded(entry, 32 << 10):
        assert len(msgspec.json.encode(part)) < 600 << 10


# the journal


async def test_what_comes_while_a_slow_disk_writes_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[TranscriptEntry] = []
    journal = Journal(tmp_path / "t.jsonl", SystemClock(), 1000, published.extend)
    await journal.open()
    slow, goes_on = asyncio.Event(), asyncio.Event()
    real = TranscriptWriter.flush

    async def flush(self: TranscriptWriter) -> None:
        if not slow.is_set():
            slow.set()
            await goes_on.wait()
        await real(self)

    monkeypatch.setattr(TranscriptWriter, "flush", flush)
    journal.add(MessageEntry(text="first"))
    await asyncio.wait_for(slow.wait(), 5)
    journal.add(MessageEntry(text="last"))
    await asyncio.sleep(0.05)  # its timer runs out while the write is under way
    goes_on.set()
    async with asyncio.timeout(5):
        while len(read_page(journal.path).entries) < 2:
            await asyncio.sleep(0.01)
    assert [e.text for e in published if isinstance(e, MessageEntry)] == ["first", "last"]
    await journal.close()


async def test_what_a_full_disk_refused_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "t.jsonl", SystemClock(), 1000, lambda entries: None)
    await journal.open()
    real = TranscriptWriter.flush
    refused = asyncio.Event()

    async def flush(self: TranscriptWriter) -> None:
        refused.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TranscriptWriter, "flush", flush)
    journal.add(MessageEntry(text="kept"))
    await asyncio.wait_for(refused.wait(), 5)
    monkeypatch.setattr(TranscriptWriter, "flush", real)
    await asyncio.sleep(0)
    journal.retry()
    async with asyncio.timeout(5):
        while not read_page(journal.path).entries:
            await asyncio.sleep(0.01)
    await journal.close()


def test_a14_a_tail_joins_the_pieces_of_a_message_and_marks_every_line() -> None:
    entries = [
        PromptEntry(prompt_id="a", text="fix\nit"),
        MessageEntry(text="I "),
        MessageEntry(text="did.\n"),
        MessageEntry(text="Really."),
        TurnEndEntry(prompt_id="a", stop_reason="end_turn"),
        PromptEntry(prompt_id="b", text="thanks"),
        PromptEntry(prompt_id="now", text="not this one"),
    ]
    assert quoted(entries, "now").splitlines() == [
        "> person: fix",
        "> it",
        "> you: I did.",
        "> Really.",
        "> person: thanks",
    ]


def test_a14_a_tail_is_bounded_and_every_line_of_it_is_marked() -> None:
    long = [MessageEntry(text=f"line {number} {'x' * 90}\n") for number in range(1000)]
    text = quoted(long, "")
    assert len(text) < 8100
    assert all(line.startswith(">") for line in text.splitlines())
    assert "line 999" in text
