"""Which lines of a transcript are in view, and that they stay where they are (spec 03.2)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_view.board.transcript.heights import Heights
from agents_view.board.transcript.sheet import Sheet
from daemon_client.protocol.transcript import (
    MessageEntry,
    PromptEntry,
    ToolEntry,
    TranscriptEntry,
)
from tests.support.drawn import sheet_of, text_of, view
from tests.support.transcripts import long_transcript, numbered

# --- the sheet


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 9)), max_size=40))
def test_heights_are_prefix_sums(changes: list[tuple[int, int]]) -> None:
    heights, plain = Heights(), [1] * 20
    heights.reset(plain)
    for index, height in changes:
        heights.set(index, height)
        plain[index] = height
        assert heights.top(index) == sum(plain[:index])
    assert heights.total == sum(plain)
    for y in range(heights.total):
        found = heights.index_at(y)
        assert heights.top(found) <= y < heights.top(found + 1)


def whole(entries: list[TranscriptEntry], width: int) -> list[str]:
    return view(sheet_of(entries, width, 100_000))


@pytest.mark.parametrize("width", [50, 80, 120])
def test_scrolling_shows_every_line_in_order(width: int) -> None:
    """Whatever was estimated: up line by line from the end, no line is skipped or repeated."""
    entries = long_transcript(300)
    expected = whole(entries, width)
    sheet = sheet_of(entries, width, 20)
    seen = view(sheet)
    while sheet.top > 0:
        sheet.scroll(-7)
        page = view(sheet)
        overlap = next(n for n in range(8) if page[n:] == seen[: 20 - n])
        seen = page[:overlap] + seen
    assert seen == expected


def test_following_stays_at_the_end_and_leaving_it_does_not_jump() -> None:
    entries = long_transcript(200)
    sheet = sheet_of(entries[:150], height=20)
    assert sheet.following and sheet.below == 0
    sheet.feed(entries[150:160])
    sheet.settle()
    assert sheet.following and sheet.below == 0
    sheet.scroll(-30)
    before = view(sheet)
    sheet.feed(entries[160:])
    sheet.settle()
    assert view(sheet) == before and not sheet.following and sheet.new_below > 0
    sheet.to_end()
    assert sheet.following and sheet.new_below == 0 and sheet.below == 0


def test_an_older_page_does_not_move_what_is_read() -> None:
    entries = long_transcript(300)
    for cut_at in (101, 102, 103, 104, 105, 106, 107):
        sheet = sheet_of(entries[cut_at:], height=20)
        sheet.to_start()
        before = view(sheet)
        sheet.feed(entries[:cut_at])
        sheet.settle()
        assert view(sheet)[-10:] == before[-10:]


def test_resizing_keeps_the_block_at_the_top() -> None:
    sheet = sheet_of(long_transcript(3000), height=20)
    sheet.scroll(-400)
    key = sheet.lines()[5].key
    sheet.resize(60, 20)
    sheet.settle()
    assert key in {line.key for line in sheet.lines()}


def test_folding_cycles_and_keeps_the_head_in_place() -> None:
    entries = numbered(
        PromptEntry(prompt_id="p", text="x"),
        ToolEntry(
            tool_id="t", title="ls", status="completed", output="\n".join(map(str, range(30)))
        ),
        *[MessageEntry(text="a\n\n" * 3), PromptEntry(prompt_id="q", text="y")] * 1,
    )
    sheet = sheet_of(entries, height=12)
    tool = next(line.key for line in sheet.lines() if "ls" in text_of(line.line))
    row = [line.key for line in sheet.lines()].index(tool)
    for fold in ("open", "all", "folded"):
        assert sheet.toggle(tool) and sheet.fold(tool) == fold
        assert [line.key for line in sheet.lines()].index(tool) == row
    assert not sheet.toggle(sheet.folder.keys()[0])


def test_the_cursor_walks_over_blocks_and_through_long_ones() -> None:
    entries = long_transcript(140)
    sheet = sheet_of(entries, height=15)
    seen = [sheet.current()]
    for _ in range(400):
        sheet.move_cursor(-1)
        if sheet.current() != seen[-1]:
            seen.append(sheet.current())
    keys = list(sheet.folder.keys())
    assert seen == [key for key in reversed(keys) if sheet.folder.block(key).seq % 7]
    for _ in range(400):
        sheet.move_cursor(1)
    assert sheet.following


def test_an_empty_sheet_has_no_lines() -> None:
    sheet = sheet_of([])
    assert sheet.lines() == [] and sheet.current() is None and sheet.total == 0
    sheet.scroll(-3)
    sheet.to_start()
    sheet.to_end()
    sheet.move_cursor(1)
    sheet.fold_all()


def test_fifty_thousand_entries_stay_light() -> None:
    entries = long_transcript(50_000)
    sheet = Sheet()
    sheet.resize(120, 36)
    began = time.perf_counter()
    sheet.feed(entries)
    sheet.settle()
    fed = time.perf_counter()
    sheet.resize(100, 36)
    sheet.settle()
    resized = time.perf_counter()
    for seq in range(50_001, 55_001, 250):  # a second of 5,000 chunks, at 20 frames
        sheet.feed([MessageEntry(seq=seq + i, at_ms=0, text="word and ") for i in range(250)])
        sheet.settle()
        sheet.lines()
    streamed = time.perf_counter()
    assert fed - began < 5 and resized - fed < 1 and streamed - resized < 0.7
