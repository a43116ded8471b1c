"""Transcripts for tests: the one of picture 06, and long ones."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    PromptEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
    TurnEndEntry,
)

NOW_MS = int(datetime(2026, 6, 1, 14, 18, 0, tzinfo=UTC).timestamp() * 1000)


def ago(seconds: float) -> int:
    """A time before the fixed now of these tests, ms UTC."""
    return NOW_MS - int(seconds * 1000)


def numbered(*entries: TranscriptEntry, start: int = 1) -> list[TranscriptEntry]:
    """Give entries their `seq`; those without a time come one second after the one before."""
    found: list[TranscriptEntry] = []
    at_ms = 0
    for index, entry in enumerate(entries, start):
        at_ms = entry.at_ms or at_ms + 1000
        found.append(msgspec.structs.replace(entry, seq=index, at_ms=at_ms))
    return found


BACKOFF_OLD = """    def next(self) -> float:
        now = time.time()
        return max(0.0, self.base * 2 ** self.n - (now - self.last))
"""
BACKOFF_NEW = BACKOFF_OLD.replace("time.time()", "time.monotonic()")

PYTEST_OUTPUT = "\n".join(
    [f"tests/net/test_{index:02}.py .....   [ {index * 2:2}%]" for index in range(18)]
    + [
        "tests/net/test_backoff.py .....................   [ 61%]",
        "tests/net/test_retry.py .........                 [ 87%]",
    ]
    + [""]
)

LOOK_06 = numbered(
    PromptEntry(
        prompt_id="p1",
        source="job",
        text="If the suite is red, find the cause and fix it. Else one line.",
        at_ms=ago(780),
    ),
    MessageEntry(text="Red: 2 of 214 failed, both in tests/net. "),
    MessageEntry(text="They fail only under load."),
    TurnEndEntry(prompt_id="p1", stop_reason="end_turn"),
    PromptEntry(
        prompt_id="p2",
        text="Find out why they fail, and fix the cause, not the test.",
        at_ms=ago(118),
    ),
    ThoughtEntry(text="the jitter seed is shared between ", at_ms=ago(117)),
    ThoughtEntry(text="workers, so every retry lands at once. " + "But why only under load? " * 16),
    MessageEntry(
        text="The cause is **one line**: `Backoff.next()` reads the wall ", at_ms=ago(103)
    ),
    MessageEntry(
        text="clock, so a clock step under load gives a negative delay. A monotonic clock cannot "
        "step back. I change that and leave the tests alone."
    ),
    ToolEntry(
        tool_id="t1",
        title="Read src/core/net/backoff.py:31-58",
        tool_kind="read",
        status="in_progress",
        at_ms=ago(60),
    ),
    ToolEntry(tool_id="t1", status="completed", output="…", at_ms=ago(59.9)),
    ToolEntry(
        tool_id="t2",
        title="Edit src/core/net/backoff.py",
        tool_kind="edit",
        status="in_progress",
        locations=("src/core/net/backoff.py:40",),
        at_ms=ago(50),
    ),
    ToolEntry(
        tool_id="t2",
        status="completed",
        diffs=(Diff(path="src/core/net/backoff.py", old_text=BACKOFF_OLD, new_text=BACKOFF_NEW),),
        at_ms=ago(49.6),
    ),
    ToolEntry(
        tool_id="t3",
        title="`pytest -q tests/net`",
        tool_kind="execute",
        status="in_progress",
        output=PYTEST_OUTPUT,
        at_ms=ago(41),
    ),
)
"""The conversation of picture 06."""


def long_transcript(entries: int) -> list[TranscriptEntry]:
    """Turns of prompt, thought, answer and tool, over and over."""
    found: list[TranscriptEntry] = []
    turn = 0
    while len(found) < entries:
        turn += 1
        found += [
            PromptEntry(prompt_id=f"p{turn}", text=f"prompt {turn}"),
            ThoughtEntry(text=f"thinking about {turn} " * 5),
            MessageEntry(text=f"Answer {turn}: **bold** and `code`. " * (turn % 9 + 1)),
            MessageEntry(text="\n\n- one\n- two\n"),
            ToolEntry(
                tool_id=f"t{turn}", title=f"ls {turn}", tool_kind="execute", status="pending"
            ),
            ToolEntry(tool_id=f"t{turn}", status="completed", output=f"file {turn}\n" * 5),
            TurnEndEntry(prompt_id=f"p{turn}", stop_reason="end_turn"),
        ]
    return numbered(*found[:entries])
