"""Entries fold into the same blocks, whatever order and however often they come (A14)."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon_client.blocks import (
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    PromptBlock,
    ThoughtBlock,
    ToolBlock,
    TurnEndBlock,
    raw_text,
)
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
from daemon_client.transcript import SeqSet, TranscriptFolder, fold


def numbered(*entries: TranscriptEntry) -> list[TranscriptEntry]:
    """Give entries their `seq`, one second apart."""
    import msgspec

    return [
        msgspec.structs.replace(entry, seq=index, at_ms=index * 1000)
        for index, entry in enumerate(entries, 1)
    ]


TURN = numbered(
    PromptEntry(prompt_id="p1", text="Find "),
    PromptEntry(prompt_id="p1", text="it.", part=1),
    ThoughtEntry(text="the jitter "),
    ThoughtEntry(text="seed"),
    MessageEntry(text="I look."),
    ToolEntry(tool_id="t1", title="read a.py", tool_kind="read", status="pending"),
    ToolEntry(tool_id="t1", status="in_progress", locations=("a.py:3",)),
    RawEntry(update="usage_update", json="{}"),
    ToolEntry(tool_id="t1", status="completed", output="x = 1"),
    PlanEntry(items=(PlanItem(text="one"),)),
    MessageEntry(text="It is "),
    PlanEntry(items=(PlanItem(text="one", status="completed"), PlanItem(text="two"))),
    MessageEntry(text="**one line**."),
    PermissionEntry(request_id="r1", text="run make"),
    PermissionEntry(request_id="r1", outcome="Allow once", by="person"),
    ToolEntry(tool_id="t2", title="edit", diffs=(Diff(path="a.py", old_text="1", new_text="2"),)),
    NoticeEntry(text="noise", level="warning"),
    TurnEndEntry(prompt_id="p1", stop_reason="end_turn"),
)


def test_a_turn_folds_into_blocks() -> None:
    kinds = [type(block) for block in fold(TURN)]
    assert kinds == [
        PromptBlock, ThoughtBlock, MessageBlock, ToolBlock, PlanBlock, MessageBlock,
        PermissionBlock, ToolBlock, NoticeBlock, TurnEndBlock,
    ]  # fmt: skip


def test_texts_are_joined_and_tools_merged() -> None:
    prompt, thought, _, tool, plan, message, permission, edit, _, end = fold(TURN)
    assert isinstance(prompt, PromptBlock) and prompt.text == "Find it."
    assert isinstance(thought, ThoughtBlock)
    assert (thought.text, thought.duration_ms, thought.open) == ("the jitter seed", 2000, False)
    assert isinstance(tool, ToolBlock)
    assert (tool.title, tool.tool_kind, tool.state) == ("read a.py", "read", "done")
    assert (tool.output, tool.locations, tool.duration_ms) == ("x = 1", ("a.py:3",), 3000)
    assert isinstance(plan, PlanBlock) and [item.status for item in plan.items] == [
        "completed",
        "pending",
    ]
    assert isinstance(message, MessageBlock) and message.text == "It is **one line**."
    assert isinstance(permission, PermissionBlock)
    assert (permission.text, permission.outcome, permission.by) == (
        "run make",
        "Allow once",
        "person",
    )
    assert isinstance(edit, ToolBlock) and edit.state == "cut"  # left open at the turn's end
    assert isinstance(end, TurnEndBlock) and end.duration_ms == 17_000


def test_an_open_thought_runs_until_something_follows() -> None:
    folder = TranscriptFolder()
    folder.feed(numbered(ThoughtEntry(text="a"), ThoughtEntry(text="b")))
    (block,) = folder.blocks()
    assert isinstance(block, ThoughtBlock) and (block.duration_ms, block.open) == (1000, True)
    folder.feed([RawEntry(seq=3, at_ms=9000, update="usage_update")])
    (block,) = folder.blocks()
    assert isinstance(block, ThoughtBlock) and (block.duration_ms, block.open) == (8000, False)


def test_repeats_change_nothing() -> None:
    folder = TranscriptFolder()
    folder.feed(TURN)
    change = folder.feed(TURN)
    assert not change.changed and not change.reordered
    assert folder.blocks() == fold(TURN)


def test_a_chunk_touches_one_block() -> None:
    folder = TranscriptFolder()
    folder.feed(TURN)
    first = folder.feed([MessageEntry(seq=19, at_ms=0, text="a")])
    more = folder.feed([MessageEntry(seq=20, at_ms=0, text="b")])
    assert len(first.changed) == 1 and first.changed == more.changed and not more.reordered
    untouched = folder.block(folder.keys()[0])
    folder.feed([MessageEntry(seq=21, at_ms=0, text="c")])
    assert folder.block(folder.keys()[0]) is untouched


@pytest.mark.parametrize("cut", range(1, len(TURN)))
def test_an_older_page_continues_backwards(cut: int) -> None:
    """Paging to the top gives what reading from the start gives, wherever the pages meet."""
    folder = TranscriptFolder()
    folder.feed(TURN[cut:])
    folder.feed(TURN[:cut])
    assert folder.blocks() == fold(TURN)


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_any_order_gives_the_same_blocks(chance: random.Random) -> None:
    entries = [entry for entry in TURN if not isinstance(entry, RawEntry)]
    shuffled = [*entries, *entries[:5]]
    chance.shuffle(shuffled)
    folder = TranscriptFolder()
    for entry in shuffled:
        folder.feed([entry])
    assert [raw_text(block) for block in folder.blocks()] == [
        raw_text(block) for block in fold(entries)
    ]
    assert [block.seq for block in folder.blocks()] == [block.seq for block in fold(entries)]


@given(st.lists(st.integers(1, 60)))
def test_seen_numbers(numbers: list[int]) -> None:
    seen, known = SeqSet(), set[int]()
    for number in numbers:
        assert seen.add(number) == (number not in known)
        known.add(number)
    assert (seen.first, seen.last) == (min(known, default=0), max(known, default=0))


def test_an_id_used_again_in_a_later_turn_is_another_call() -> None:
    entries = numbered(
        ToolEntry(tool_id="call_0", title="ls", status="pending"),
        ToolEntry(tool_id="call_0", status="completed"),
        TurnEndEntry(prompt_id="p", stop_reason="end_turn"),
        ToolEntry(tool_id="call_0", title="pwd", status="pending"),
    )
    tools = [block for block in fold(entries) if isinstance(block, ToolBlock)]
    assert [(tool.title, tool.state) for tool in tools] == [("ls", "done"), ("pwd", "running")]


def test_plans_of_two_turns_stay_apart() -> None:
    entries = numbered(
        PromptEntry(prompt_id="a", text="x"),
        PlanEntry(items=(PlanItem(text="1"),)),
        PromptEntry(prompt_id="b", text="y"),
        PlanEntry(items=(PlanItem(text="2"),)),
    )
    assert len([block for block in fold(entries) if isinstance(block, PlanBlock)]) == 2
    folder = TranscriptFolder()
    folder.feed(entries[2:])
    folder.feed(entries[:2])
    assert folder.blocks() == fold(entries)


def test_a_long_stream_costs_the_same_per_chunk() -> None:
    """Feeding is O(1): 100,000 chunks of one message take well under a second."""
    folder = TranscriptFolder()
    chunks = [MessageEntry(seq=index, at_ms=index, text="word ") for index in range(1, 100_001)]
    began = time.perf_counter()
    for chunk in chunks:
        folder.feed([chunk])
    assert time.perf_counter() - began < 3
    (block,) = folder.blocks()
    assert isinstance(block, MessageBlock) and len(block.text) == 500_000
