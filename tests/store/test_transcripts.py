"""Transcripts: append-only, torn ends repaired, read from the end in bounded pages (07.4, A14)."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents_view.daemon.store import transcripts
from agents_view.daemon.store.transcripts import (
    MAX_ENTRY,
    Page,
    TranscriptWriter,
    read_page,
    transcript_path,
)
from daemon_client.errors import DaemonError
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PlanEntry,
    PlanItem,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from tests.store.samples import NOW, ROOT
from tests.store.scribe import opened, written

ONE_OF_EACH: tuple[TranscriptEntry, ...] = (
    PromptEntry(prompt_id="p", text="do\nit"),
    MessageEntry(text="ünïcode \u2028 \x00 \x1b[31m"),
    ThoughtEntry(text=""),
    ToolEntry(tool_id="t", output="o", diffs=(Diff(path="/a", new_text="x"),), locations=("/a",)),
    PlanEntry(items=(PlanItem(text="a"),)),
    PermissionEntry(request_id="r", outcome="allow", by="person"),
    TurnEndEntry(prompt_id="p", stop_reason="end_turn"),
    NoticeEntry(text="n", level="error"),
    RawEntry(update="new", json="{}"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return transcript_path(tmp_path / "transcripts", ROOT)


def messages(number: int) -> tuple[MessageEntry, ...]:
    return tuple(MessageEntry(text=f"m{n}") for n in range(number))


@pytest.mark.parametrize("bad", ["", "../x", "a/b", "a.b", "x" * 65, "a\n"])
def test_no_id_is_a_path(tmp_path: Path, bad: str) -> None:
    """07.3: names and ids never reach a path unchecked."""
    with pytest.raises(ValueError, match="not a session id"):
        transcript_path(tmp_path, bad)


async def test_every_kind_comes_back_with_its_seq_and_time(path: Path) -> None:
    kept = await written(path, *ONE_OF_EACH)
    assert [(e.seq, e.at_ms) for e in kept] == [(n + 1, NOW + n) for n in range(9)]
    assert read_page(path) == Page(entries=tuple(kept), before=None)
    assert len(path.read_bytes().splitlines()) == 9, "whatever the text, one line each"


async def test_private_file_in_a_private_directory(path: Path) -> None:
    """T17; a link in its place is refused."""
    await written(path, *messages(1))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    with pytest.raises(OSError):
        await TranscriptWriter(link).open()
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.symlink_to(path.parent)
    with pytest.raises(DaemonError):
        await TranscriptWriter(elsewhere / path.name).open()


def test_a_missing_file_is_an_empty_page(path: Path) -> None:
    assert read_page(path) == Page(entries=(), before=None)


async def test_torn_at_every_byte_of_the_last_record(path: Path) -> None:
    """10.2: only the incomplete record goes, the next append stands alone, its seq is free."""
    kept = await written(path, *ONE_OF_EACH)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_page(path).entries == tuple(kept[:-1]), "not there before the repair either"
        writer = await opened(path)
        assert writer.last_seq == 8
        assert path.read_bytes() == whole[:last]
        added = writer.append(MessageEntry(text="after"), NOW)
        await writer.close()
        assert read_page(path).entries == (*kept[:-1], added)
    path.write_bytes(whole)
    writer = await opened(path)
    assert (writer.last_seq, path.read_bytes()) == (9, whole)
    await writer.close()


@pytest.mark.parametrize("tail", [b"\x00" * 5000, b"x" * 200_000, b"{", b'{"kind":"message"}'])
async def test_repair_takes_the_torn_end_only(path: Path, tail: bytes) -> None:
    await written(path, *messages(3))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    writer = await opened(path)
    await writer.close()
    assert path.read_bytes() == whole


async def test_nothing_but_a_torn_end(path: Path) -> None:
    await written(path)
    path.write_bytes(b'{"kind":"mess')
    assert read_page(path) == Page(entries=(), before=None)
    writer = await opened(path)
    assert (writer.last_seq, path.read_bytes()) == (0, b"")
    await writer.close()


async def test_damage_is_shown_and_stops_nothing(path: Path) -> None:
    """One warning for each run of unreadable lines, between its neighbours."""
    kept = await written(path, *messages(4))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1:2] = [b"\xff\xfe\n", b'{"kind":"message","seq":"two"}\n']
    path.write_bytes(b"".join(lines) + b"[" * 100_000 + b"\n")
    entries = read_page(path).entries
    assert [type(e) for e in entries] == [
        MessageEntry, NoticeEntry, MessageEntry, MessageEntry, NoticeEntry,
    ]  # fmt: skip
    assert [e.seq for e in entries] == [1, 2, 3, 4, 5]
    assert entries[1] == NoticeEntry(
        seq=2, at_ms=kept[0].at_ms, text="2 entries are unreadable", level="warning"
    )
    assert isinstance(entries[4], NoticeEntry) and "unreadable" in entries[4].text
    writer = await opened(path)
    assert writer.last_seq == 5, "a damaged record keeps its number"
    await writer.close()


async def test_kinds_of_a_newer_version_are_skipped(path: Path) -> None:
    """One version apart must work: what we cannot draw is no damage."""
    kept = await written(path, *messages(2))
    with path.open("ab") as file:
        file.write(b'{"kind":"hologram","seq":3,"depth":[1]}\n')
    writer = await opened(path)
    assert writer.last_seq == 3
    added = writer.append(msgspec.structs.replace(messages(1)[0], text="z"), NOW)
    await writer.close()
    assert read_page(path).entries == (*kept, added)
    size = path.stat().st_size
    last = path.read_bytes().splitlines(keepends=True)[-1]
    assert read_page(path, limit=1) == Page(entries=(added,), before=size - len(last))
    assert read_page(path, before=size - len(last)).entries == tuple(kept)


async def test_unknown_fields_are_ignored(path: Path) -> None:
    await written(path)
    path.write_bytes(b'{"kind":"message","seq":1,"at_ms":5,"text":"a","mood":"new"}\n')
    assert read_page(path).entries == (MessageEntry(seq=1, at_ms=5, text="a"),)


async def test_pages_stop_at_bytes_but_give_one_entry(path: Path) -> None:
    sizes = (10, 70_000, 300_000, 10)
    await written(path, *(MessageEntry(text="x" * size) for size in sizes))
    found: list[list[int]] = []
    before = None
    while True:
        page = read_page(path, before=before, max_bytes=100_000)
        found.append([entry.seq for entry in page.entries])
        before = page.before
        if before is None:
            break
    assert found == [[4], [3], [1, 2]]


@pytest.mark.parametrize("before", [-5, 0, 1, 10**9])
async def test_any_offset_gives_whole_entries(path: Path, before: int) -> None:
    """A client may send anything."""
    kept = await written(path, *messages(5))
    assert read_page(path, before=before).entries == (tuple(kept) if before > 1 else ())


async def test_an_offset_inside_a_line_leaves_that_line_out(path: Path) -> None:
    kept = await written(path, *messages(3))
    starts = [0, *(n + 1 for n, byte in enumerate(path.read_bytes()) if byte == 10)]
    for before in range(starts[-1] + 1):
        complete = sum(end <= before for end in starts[1:])
        assert read_page(path, before=before).entries == tuple(kept[:complete])


@pytest.fixture(scope="module")
def long_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 entries, some of them long."""
    path = transcript_path(tmp_path_factory.mktemp("long") / "transcripts", ROOT)
    asyncio.run(
        written(path, *(MessageEntry(text="x" * (n * 7919 % 997)) for n in range(9_990)),
                *(MessageEntry(text="y" * 200_000) for _ in range(10)))
    )  # fmt: skip
    return path


@settings(
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(limit=st.integers(50, 3000), max_bytes=st.integers(20_000, 1 << 20))
def test_paging_back_has_no_gaps_and_no_repeats(long_one: Path, limit: int, max_bytes: int) -> None:
    found: list[int] = []
    before: int | None = None
    while True:
        page = read_page(long_one, before=before, limit=limit, max_bytes=max_bytes)
        assert 1 <= len(page.entries) <= limit
        found[:0] = [entry.seq for entry in page.entries]
        before = page.before
        if before is None:
            break
    assert found == list(range(1, 10_001))


def test_a_page_reads_the_tail_only(long_one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """07.4: never whole into memory, and the disk is touched at the end only."""
    offsets: list[int] = []
    real = transcripts._blocks_backward

    def watched(file, end):
        for position, block in real(file, end):
            offsets.append(position)
            yield position, block

    monkeypatch.setattr(transcripts, "_blocks_backward", watched)
    tracemalloc.start()
    page = read_page(long_one, limit=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(page.entries) == 1, "256 KiB hold one of these"
    assert min(offsets) > long_one.stat().st_size - (600 << 10)
    assert peak < 2 << 20


async def test_open_reads_the_tail_only(long_one: Path) -> None:
    tracemalloc.start()
    writer = await opened(long_one)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert writer.last_seq == 10_000
    assert peak < 2 << 20
    await writer.close()


async def test_a_monstrous_line_costs_bounded_memory(path: Path) -> None:
    """A line that nobody may write is damage, and is not collected to find that out."""
    kept = await written(path, *messages(2))
    with path.open("ab") as file:
        file.write(b"x" * (24 << 20) + b"\n")
    tracemalloc.start()
    page = read_page(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(page.entries[-1], NoticeEntry)
    assert peak < 4 << 20
    assert page.before is not None
    assert read_page(path, before=page.before).entries == tuple(kept)


async def test_an_entry_too_large_to_read_is_a_warning(path: Path) -> None:
    (kept,) = await written(path, MessageEntry(text="x" * MAX_ENTRY))
    assert isinstance(kept, NoticeEntry) and "too large" in kept.text and kept.seq == 1
    assert read_page(path).entries == (kept,)


def test_lines_are_json_for_anybody(tmp_path: Path) -> None:
    """What the file holds is plain: `jq` and `grep` work on it."""
    path = transcript_path(tmp_path / "t", ROOT)
    asyncio.run(written(path, ONE_OF_EACH[0]))
    assert json.loads(path.read_text()) == {
        "kind": "prompt", "seq": 1, "at_ms": NOW, "prompt_id": "p", "text": "do\nit",
    }  # fmt: skip
