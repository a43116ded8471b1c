"""How blocks become lines, and which lines are in view (spec 03.2; look 06)."""

from __future__ import annotations

import time
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from agents_view.board.ink import Ink, cut, spread, width_of
from agents_view.board.transcript.draw import draw
from agents_view.board.transcript.frame import FoldState, Frame
from agents_view.board.transcript.prose import ProseLayout
from agents_view.board.transcript.segments import split_segments
from agents_view.board.transcript.wrap import wrap
from daemon_client.blocks import (
    Block,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    PromptBlock,
    ThoughtBlock,
    ToolBlock,
    TurnEndBlock,
)
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    PlanItem,
)
from daemon_client.transcript_text import render_plain
from tests.support.drawn import HOSTILE, drawn, sheet_of, text_of, view
from tests.support.transcripts import LOOK_06, NOW_MS, ago

# --- the picture


def test_picture_06() -> None:
    shown = view(sheet_of(LOOK_06))
    assert shown[1].startswith("   ♥ firing · 14:05 ────")
    assert "     Red: 2 of 214 failed, both in tests/net. They fail only under load." in shown
    own = next(line for line in shown if "›" in line)
    assert own.endswith("you · 14:16") and len(own) == 117
    assert any(line.startswith("   ▸ thought · 14s    the jitter seed is shared") for line in shown)
    read = shown.index(next(line for line in shown if "✓ read" in line))
    assert shown[read].startswith("   ▸ ✓ read  src/core/net/backoff.py:31-58")
    assert shown[read].endswith("0.1s") and len(shown[read]) == 117
    assert shown[read + 1].startswith("   ▾ ✓ edit  src/core/net/backoff.py  +1 −1")
    assert shown[read + 2] == "         40       def next(self) -> float:"
    assert shown[read + 3] == "         41 −         now = time.time()"
    assert shown[read + 4] == "         41 +         now = time.monotonic()"
    assert shown[read + 6] == ""
    assert shown[read + 7].startswith("   ▾ ◆ run   pytest -q tests/net")
    assert shown[read + 7].endswith("41s")
    assert shown[read + 8] == "       ↑ 12 lines  o all"
    assert shown[-1] == "       tests/net/test_retry.py .........                 [ 87%]"


def test_changed_lines_have_sign_and_tint() -> None:
    sheet = sheet_of(LOOK_06)
    removed = next(line.line for line in sheet.lines() if "time.time()" in text_of(line.line))
    assert ("−", Ink("error", "delbg", bold=True)) in removed
    assert width_of(removed) == 117  # tinted to the right margin, not beyond
    assert {ink.bg for _, ink in removed[1:]} == {"delbg"}


# --- kinds


def test_tools_say_their_state_by_shape() -> None:
    def tool(**fields: object) -> ToolBlock:
        base: dict[str, object] = {"seq": 1, "at_ms": ago(5), "tool_id": "t", "state": "done"}
        return ToolBlock(**(base | {"title": "x", "duration_ms": 1000} | fields))  # type: ignore

    assert drawn(tool())[0].startswith("     ✓ tool  x")
    assert drawn(tool(state="failed", output="boom"))[:2][1] == "       boom"
    assert drawn(tool(state="failed"))[0].lstrip().startswith("✗")
    assert drawn(tool(state="cut"))[0].endswith("cut off")
    assert drawn(tool(state="running", duration_ms=None))[0].endswith("5s")
    assert drawn(tool(tool_kind="execute", title="Run `ls -la`"))[0].startswith(
        "     ✓ run   ls -la"
    )
    assert "a.py:3" in drawn(tool(title="", locations=("a.py:3",), tool_kind="read"))[0]


def test_output_shows_its_end_until_asked_for_all() -> None:
    block = ToolBlock(
        seq=1, at_ms=0, tool_id="t", state="running", output="\n".join(map(str, range(100)))
    )
    assert drawn(block)[1:3] == ["       ↑ 92 lines  o all", "       92"]
    assert len(drawn(block, "all")) == 101
    assert len(drawn(block, "folded")) == 1


def test_an_output_of_megabytes_costs_little() -> None:
    block = ToolBlock(
        seq=1, at_ms=0, tool_id="t", state="running", output="line of output\n" * 300_000
    )
    began = time.perf_counter()
    assert len(drawn(block)) == 10
    assert time.perf_counter() - began < 0.2


def test_a_diff_without_a_known_line_has_no_numbers() -> None:
    diff = Diff(path="a.py", old_text="a\nb\n", new_text="a\nc\n")
    lines = drawn(ToolBlock(seq=1, at_ms=0, tool_id="t", state="done", diffs=(diff,)))
    assert lines[1:] == ["         a", "       − b", "       + c"]


def test_a_new_file_is_numbered_from_one() -> None:
    diff = Diff(path="a.py", new_text="a\nb")
    lines = drawn(ToolBlock(seq=1, at_ms=0, tool_id="t", state="done", diffs=(diff,)))
    assert lines[1:] == ["          1 + a", "          2 + b"]


def test_a_huge_diff_is_bounded() -> None:
    old = "\n".join(f"line {i}" for i in range(30_000))
    diff = Diff(path="a.py", old_text=old, new_text=old.replace("9", "8"))
    began = time.perf_counter()
    lines = drawn(ToolBlock(seq=1, at_ms=0, tool_id="t", state="done", diffs=(diff,)))
    assert len(lines) < 50 and time.perf_counter() - began < 1


def test_thoughts_plans_and_permissions() -> None:
    thought = ThoughtBlock(seq=1, at_ms=ago(3), text="first\nsecond", duration_ms=75_000)
    assert drawn(thought) == ["   ▸ thought · 1m 15s    first second"]
    assert drawn(thought, "open") == ["   ▾ thought · 1m 15s", "     first", "     second"]
    growing = ThoughtBlock(seq=1, at_ms=ago(3), text="so", open=True)
    assert drawn(growing) == ["   ▸ thinking · 3s    so"]
    plan = PlanBlock(
        seq=1, at_ms=0, items=(PlanItem(text="a", status="completed"), PlanItem(text="b"))
    )
    assert drawn(plan) == ["     plan  1 of 2", "     ✓ a", "     · b"]
    asked = PermissionBlock(seq=1, at_ms=0, request_id="r", text="make migrate")
    assert drawn(asked) == ["   ? needs approval: make migrate"]
    answered = PermissionBlock(
        seq=1, at_ms=0, request_id="r", text="rm x", outcome="reject_once", by="person"
    )
    assert drawn(answered) == ["   ✗ reject once: rm x"]


@pytest.mark.parametrize(
    ("reason", "cause", "shown"),
    [
        ("end_turn", "", []),
        ("cancelled", "", ["   · cancelled · after 41s"]),
        ("interrupted", "worker lost", ["   ✗ interrupted: worker lost · after 41s"]),
        ("refusal", "", ["   ✗ refused by the agent · after 41s"]),
        ("weird", "", ["   ✗ ended: weird · after 41s"]),
    ],
)
def test_ends_of_turns(reason: str, cause: str, shown: list[str]) -> None:
    block = TurnEndBlock(
        seq=1, at_ms=0, prompt_id="p", stop_reason=reason, cause=cause, duration_ms=41_000
    )
    assert drawn(block) == shown


def test_a_prompt_of_another_day_says_so() -> None:
    block = PromptBlock(seq=1, at_ms=ago(86_400 * 2), prompt_id="p", text="x")
    assert drawn(block)[0].endswith("you · Sat 14:18")


def test_prose_is_at_most_96_cells_wide_and_code_is_not() -> None:
    text = "word " * 60 + "\n\n```\n" + "x" * 105 + "\n```\n"
    lines = drawn(MessageBlock(seq=1, at_ms=0, text=text), frame=Frame(width=140, tz=UTC))
    assert max(len(line) for line in lines[:4]) <= 5 + 96
    assert any("x" * 105 in line for line in lines)


# --- Markdown

MARKDOWN = """# Title
Some **bold**, *soft* and `code`. <b>not html</b>

- one
- two
  1. deep
> quoted

```py
def f():

    return 1
```
| a | b |
|---|---|
| 1 | 2 |

[here](https://example.org/x) end"""


def prose_lines(text: str, width: int = 60) -> list[str]:
    return [text_of(line).rstrip() for line in ProseLayout(width).update(text)]


def test_light_markdown() -> None:
    assert prose_lines(MARKDOWN) == [
        "Title", "Some bold, soft and code. <b>not html</b>", "",
        "· one", "· two", "  1. deep", "", "│ quoted", "",
        " def f():", "", "     return 1", "",
        "| a | b |", "|---|---|", "| 1 | 2 |", "",
        "here (https://example.org/x) end",
    ]  # fmt: skip


def test_lines_break_where_the_agent_broke_them() -> None:
    assert prose_lines("hello 1\nhello 2\ndone") == ["hello 1", "hello 2", "done"]


def test_emphasis_is_ink_not_marks() -> None:
    (line,) = ProseLayout(60).update("a **b** *c* `d`")
    assert line == (
        ("a ", Ink()),
        ("b", Ink(bold=True)),
        (" ", Ink()),
        ("c", Ink(italic=True)),
        (" ", Ink()),
        ("d", Ink(bg="field")),
    )


@given(st.integers(8, 70), st.integers(0, len(MARKDOWN)))
@settings(max_examples=60, deadline=None)
def test_growing_equals_whole(width: int, cut_at: int) -> None:
    """A message laid out as it streams looks like the same message at once."""
    growing = ProseLayout(width)
    for end in range(cut_at, len(MARKDOWN) + 1, 7):
        assert growing.update(MARKDOWN[:end]) == ProseLayout(width).update(MARKDOWN[:end])


@given(st.text(alphabet="ab `#*->|\n\t1.界🙂", max_size=200), st.integers(4, 60))
@settings(max_examples=300, deadline=None)
def test_no_prose_line_is_wider_than_its_room(text: str, width: int) -> None:
    for line in ProseLayout(width).update(text):
        assert width_of(line) <= max(width, 12)


@given(st.text(alphabet="ab `~\n ", max_size=300))
def test_segments_lose_no_text(text: str) -> None:
    kept = "".join(segment.text for segment in split_segments(text))
    fences = ("`", "~", "\n", " ")
    assert (
        [c for c in kept if c not in fences] == [c for c in text if c not in fences]
        or "```" in text
        or "~~~" in text
    )


def test_a_long_message_grows_at_a_constant_price() -> None:
    layout, text = ProseLayout(96), "A paragraph of words.\n\n" * 20_000
    layout.update(text)
    began = time.perf_counter()
    for _ in range(20):
        text += "more "
        layout.update(text)
    assert time.perf_counter() - began < 0.5


def test_a_message_of_megabytes_shows_its_end() -> None:
    text = "```\n" + "\n".join(map(str, range(200_000)))
    block = MessageBlock(seq=1, at_ms=0, text=text)
    began = time.perf_counter()
    lines = drawn(block)
    assert time.perf_counter() - began < 1
    assert lines[0].endswith("lines  o all") and lines[-1].split() == ["199999"]
    hidden = int(lines[0].split()[1])
    assert hidden + len(lines) - 1 == 200_001  # the fence is a line of the source too


# --- hostile text


@pytest.mark.parametrize(
    "block",
    [
        PromptBlock(seq=1, at_ms=0, prompt_id="p", text=HOSTILE),
        PromptBlock(seq=1, at_ms=0, prompt_id="p", text=HOSTILE, source="job"),
        MessageBlock(seq=1, at_ms=0, text=HOSTILE + "\n```\n" + HOSTILE),
        ThoughtBlock(seq=1, at_ms=0, text=HOSTILE),
        ToolBlock(
            seq=1, at_ms=0, tool_id=HOSTILE, state="running", title=HOSTILE, tool_kind=HOSTILE,
            output=HOSTILE, locations=(HOSTILE, HOSTILE),
            diffs=(Diff(path=HOSTILE, old_text="", new_text=HOSTILE), Diff(path=HOSTILE)),
        ),
        PlanBlock(seq=1, at_ms=0, items=(PlanItem(text=HOSTILE, status=HOSTILE),)),
        PermissionBlock(seq=1, at_ms=0, request_id="r", text=HOSTILE, outcome=HOSTILE, by="person"),
        TurnEndBlock(seq=1, at_ms=0, prompt_id="p", stop_reason=HOSTILE, cause=HOSTILE),
        NoticeBlock(seq=1, at_ms=0, text=HOSTILE, level="error"),
    ],
    ids=lambda block: type(block).__name__,
)  # fmt: skip
@pytest.mark.parametrize("fold", ["folded", "open", "all"])
def test_foreign_text_is_harmless(block: Block, fold: FoldState) -> None:
    for width in (30, 80, 120):
        frame = Frame(width=width, now_ms=NOW_MS, tz=UTC)
        for line in draw(block, fold, frame, ProseLayout(frame.room(frame.text))).lines:
            shown = text_of(line)
            assert shown.isprintable() and "\u202e" not in shown
            assert cell_len(shown) <= width


# --- wrapping and columns


def test_a_word_in_two_inks_is_not_broken_between_them() -> None:
    rows = wrap([("aaa bbb", Ink()), (":", Ink(bold=True))], 7)
    assert [[text for text, _ in row] for row in rows] == [["aaa"], ["bbb", ":"]]


@given(
    st.lists(st.tuples(st.text(alphabet="ab 界🙂\n", max_size=30), st.just(Ink()))),
    st.integers(2, 20),
)
def test_wrapping_keeps_every_word_within_the_width(
    pieces: list[tuple[str, Ink]], width: int
) -> None:
    rows = wrap(pieces, width)
    assert all(width_of(row) <= width for row in rows)
    assert "".join("".join(t for t, _ in row) for row in rows).replace(" ", "") == "".join(
        text for text, _ in pieces
    ).replace(" ", "").replace("\n", "")


def test_cut_and_spread_measure_cells() -> None:
    assert cut("界界界", 5) == "界界…" and cut("abc", 0) == ""
    line = spread([("a" * 20, Ink())], [("right", Ink())], 12)
    assert text_of(tuple(line)) == "aaaa…  right" and width_of(line) == 12


# --- plain text, for `agents-view log`


def test_plain_text() -> None:
    text = render_plain(LOOK_06, UTC)
    assert text.startswith("♥ 2026-06-01 14:05  If the suite is red")
    assert "\n\n› 2026-06-01 14:16  Find out why they fail" in text
    assert "\n✓ edit  Edit src/core/net/backoff.py  0.4s\n    src/core/net/backoff.py\n" in text
    assert "\n    -        now = time.time()\n    +        now = time.monotonic()\n" in text
    assert render_plain([]) == ""
    hostile = render_plain([MessageEntry(seq=1, text=HOSTILE)])
    assert hostile.rstrip("\n").isprintable()
