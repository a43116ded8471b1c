"""The session screen against a daemon on the real wire: what it shows (spec 03.2, 03.7)."""

from __future__ import annotations

import time

import pytest
from textual import events

from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.screens.session import SessionScreen
from daemon_client.protocol import commands as c
from daemon_client.protocol.transcript import MessageEntry, PromptEntry, TurnEndEntry
from tests.support.talk import (
    ASLEEP,
    BUSY,
    OTHER,
    QUEUE,
    Talk,
    given,
    talk,
)
from tests.support.transcripts import LOOK_06, NOW_MS, ago, long_transcript

__all__ = ["talk"]


# --- opening


@given(row=BUSY, state={"queue": QUEUE})
async def test_opening_shows_the_tail_and_marks_it_seen(talk: Talk) -> None:
    assert talk.lines()[-1].startswith("       tests/net/test_retry.py")
    assert "‹ fix-flaky-tests   ◆ running tools: pytest -q tests/net  41s" in talk.bar("header")
    assert " 1 needs you " in talk.bar("header")
    assert talk.bar("header").rstrip().endswith("codex  ~/src/core  14:18")
    assert talk.bar("status").strip().startswith("auto-edit · gpt-5-codex   ♥ 2·7m")
    assert talk.bar("status").rstrip().endswith("following")
    assert talk.screen.composer.area.has_focus
    await talk.until(lambda: talk.daemon.got(c.Seen))
    assert talk.daemon.got(c.Attach)[0].tail == 200


@given(row=ASLEEP)
async def test_opening_an_inactive_session_does_not_wake_it(talk: Talk) -> None:
    assert any("Find out why they fail" in line for line in talk.lines())
    assert not talk.daemon.got(c.Wake)
    assert str(talk.screen.composer.border_subtitle) == "enter wakes the session and sends"
    await talk.pilot.press("escape", "w")
    await talk.until(lambda: talk.daemon.got(c.Wake))


@given(entries=long_transcript(50_000))
async def test_fifty_thousand_entries_open_with_the_tail_only(talk: Talk) -> None:
    sheet = talk.screen.transcript.sheet
    assert sheet.folder.last_seq == 50_000 and sheet.folder.first_seq == 49_801
    await talk.pilot.press("escape")
    for expected in (49_401, 49_001):
        await talk.pilot.press("g")
        await talk.until(lambda expected=expected: sheet.folder.first_seq <= expected)
    assert not sheet.following


@given(entries=[])
async def test_an_empty_session_says_so(talk: Talk) -> None:
    assert talk.lines()[1].strip() == "nothing here yet"


async def test_a_session_that_is_gone_leads_back_to_the_board(talk: Talk) -> None:
    talk.daemon.delete()
    await talk.until(lambda: isinstance(talk.app.screen, BoardScreen))
    assert any("was deleted" in toast for toast in talk.toasts())


# --- what comes live


@given(row=BUSY)
async def test_chunks_are_drawn_together_and_the_end_is_followed(talk: Talk) -> None:
    start = len(LOOK_06)
    for index in range(1, 301):
        talk.daemon.push(MessageEntry(seq=start + index, at_ms=NOW_MS, text=f"word{index} "))
    await talk.until(lambda: any("word300" in line for line in talk.lines()))
    assert talk.screen.transcript.sheet.following


@given(entries=long_transcript(200))
async def test_scrolled_up_nothing_jumps(talk: Talk) -> None:
    await talk.pilot.press("escape", "pageup", "pageup")
    before = talk.lines()
    talk.daemon.push(
        *[
            entry
            for turn in range(5)
            for entry in (
                PromptEntry(seq=201 + 2 * turn, at_ms=NOW_MS, prompt_id=f"n{turn}", text="more"),
                MessageEntry(seq=202 + 2 * turn, at_ms=NOW_MS, text="answer"),
            )
        ]
    )
    await talk.until(lambda: "new" in talk.bar("status"))
    assert talk.lines() == before
    assert "↓ 20 new  G" in talk.bar("status")
    await talk.pilot.press("G")
    assert talk.lines()[-1].strip("▌ ") == "answer" and "following" in talk.bar("status")


async def test_a_fast_stream_does_not_block_the_keys(talk: Talk) -> None:
    """5,000 chunks a second: a key is answered while they come."""
    start = len(LOOK_06)
    worst = 0.0
    for frame in range(20):
        first = start + 1 + frame * 250
        talk.daemon.push(
            *[
                MessageEntry(seq=first + i, at_ms=NOW_MS, text="word and " + "\n" * (i % 50 == 0))
                for i in range(250)
            ]
        )
        began = time.perf_counter()
        await talk.pilot.press("x")
        worst = max(worst, time.perf_counter() - began)
    assert talk.screen.composer.text == "x" * 20
    assert worst < 1.0
    await talk.until(lambda: talk.screen.transcript.last_seq == start + 5000)


# --- the connection


async def test_a_reconnect_keeps_scroll_and_draft(talk: Talk) -> None:
    talk.daemon.entries += long_transcript(300)[len(LOOK_06) :]
    talk.daemon.lose()
    await talk.until(lambda: talk.screen.transcript.last_seq == 300)
    await talk.pilot.press(*"half", "escape", "pageup", "pageup")
    before = talk.lines()
    await talk.daemon.stop()
    await talk.until(lambda: not talk.screen.connected)
    assert str(talk.screen.composer.border_subtitle).startswith("daemon not reachable")
    assert talk.lines() == before
    talk.daemon.entries.append(MessageEntry(seq=301, at_ms=NOW_MS, text="meanwhile"))
    await talk.daemon.start()
    await talk.until(lambda: talk.screen.transcript.last_seq == 301)
    assert talk.lines() == before and talk.screen.composer.text == "half"
    await talk.pilot.press("G")
    await talk.until(lambda: any("meanwhile" in line for line in talk.lines()))


async def test_a_hole_after_a_lost_stream_is_filled(talk: Talk) -> None:
    """More came meanwhile than the tail holds: pages fill the gap, nothing is missing."""
    whole = long_transcript(2000)
    talk.daemon.entries = whole[:14]
    talk.daemon.lose()
    await talk.pilot.pause(0.05)
    talk.daemon.entries = [*LOOK_06, *whole[len(LOOK_06) :]]
    talk.daemon.lose()
    await talk.until(lambda: talk.screen.transcript.last_seq == 2000)
    folder = talk.screen.transcript.sheet.folder
    assert folder.first_seq == 1
    assert sum(1 for block in folder.blocks() if type(block).__name__ == "TurnEndBlock") > 250


# --- the transcript


async def test_folding_and_copying(talk: Talk) -> None:
    await talk.pilot.press("escape")
    assert "↑ 12 lines  o all" in "\n".join(talk.lines())
    await talk.pilot.press("o")
    assert "test_00.py" in "\n".join(talk.lines())
    await talk.pilot.press("o")
    assert "▸ ◆ run" in "\n".join(talk.lines())
    await talk.pilot.press("y")
    assert talk.app.clipboard.startswith("tests/net/test_00.py")
    await talk.pilot.press("k", "k", "k", "y")
    assert talk.app.clipboard.startswith("The cause is **one line**")
    assert any(toast.startswith("copied") for toast in talk.toasts())


async def test_the_block_at_the_cursor_is_marked(talk: Talk) -> None:
    await talk.pilot.press("escape", "k")
    marked = [line for line in talk.lines() if line.startswith("▌")]
    assert "edit" in marked[0] and len(marked) == 5
    await talk.pilot.press("enter")
    assert not any(line.startswith("▌") for line in talk.lines())


async def test_a_paste_over_the_transcript_is_text(talk: Talk) -> None:
    await talk.pilot.press("escape")
    talk.screen.transcript.post_message(events.Paste("q\x1b[31mw\nd"))
    await talk.until(lambda: talk.screen.composer.text)
    assert talk.screen.composer.text == "qw\nd" and talk.screen.composer.area.has_focus


async def test_ctrl_o_goes_to_the_next_that_needs_you(talk: Talk) -> None:
    await talk.pilot.press("ctrl+o")
    await talk.until(lambda: talk.screen.session_id == OTHER)
    await talk.pilot.press("ctrl+o")
    assert "nobody else waits for you" in talk.toasts()
    await talk.pilot.press("escape", "escape")
    assert isinstance(talk.app.screen, BoardScreen)


async def test_help_lists_the_keys_that_work_here(talk: Talk) -> None:
    await talk.pilot.press("f1")
    await talk.until(lambda: type(talk.app.screen).__name__ == "Help")
    await talk.pilot.press("escape")
    assert isinstance(talk.app.screen, SessionScreen)


HOSTILE_END = TurnEndEntry(
    seq=15, at_ms=ago(1), prompt_id="p2", stop_reason="interrupted", cause="[/b]\x1b[31m lost"
)


@given(row=BUSY, entries=[*LOOK_06, HOSTILE_END])
@pytest.mark.parametrize("size", [(120, 36), (80, 24), (50, 16), (30, 8)])
async def test_nothing_is_wider_than_the_terminal(talk: Talk, size: tuple[int, int]) -> None:
    await talk.pilot.resize_terminal(*size)
    await talk.pilot.pause(0.05)
    view = talk.screen.transcript
    for y in range(view.size.height):
        assert view.render_line(y).cell_length == view.size.width <= size[0]
    for name in ("header", "status", "keys"):
        assert len(talk.bar(name)) == size[0]
