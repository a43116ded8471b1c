"""The session screen against a daemon on the real wire (spec 03.2, 03.3, 03.7)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from agents_view.base.settings import Settings
from agents_view.tui import editor
from agents_view.tui.app import AgentsView
from agents_view.tui.screens import session_actions
from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.screens.session import SessionScreen
from agents_view.tui.widgets.line import LineBar
from daemon_client.client import DaemonClient
from daemon_client.connection import ClientLimits, Connection
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import PendingRequest, PermissionOption, QueuedPrompt
from daemon_client.protocol.transcript import MessageEntry, PromptEntry, TurnEndEntry
from daemon_client.roster import RosterRow, Schedule, Waiting
from tests.support.recorded_session import RecordedSession
from tests.support.transcripts import LOOK_06, NOW_MS, ago, long_transcript

SESSION = "0" * 31 + "1"
OTHER = "0" * 31 + "2"
ROW = RosterRow(
    session_id=SESSION,
    name="fix-flaky-tests",
    agent="codex",
    model="gpt-5-codex",
    mode="auto-edit",
    cwd="/home/u/src/core",
    resident=True,
    worker_state="ready",
    message_count=3,
    created_at_ms=ago(9999),
    last_activity_at_ms=ago(3),
    unread=True,
)
BUSY = msgspec.structs.replace(
    ROW,
    turn="tools",
    tool_label="pytest -q tests/net",
    turn_started_at_ms=ago(41),
    tree_heartbeats=Schedule(active=2, next_at_ms=ago(-420)),
)
ASLEEP = msgspec.structs.replace(ROW, resident=False, worker_state=None)
NEEDY = RosterRow(
    session_id=OTHER,
    name="api-review",
    agent="claude",
    resident=True,
    turn="tools",
    created_at_ms=ago(99_999),
    waiting=Waiting(kind="permission", since_ms=ago(180), text="make migrate"),
)
QUEUE = (
    QueuedPrompt(prompt_id="q1", text="then update CHANGELOG.md"),
    QueuedPrompt(prompt_id="q2", text="keep-green", source="job"),
    QueuedPrompt(prompt_id="q3", text="and push"),
)
ASKED = PendingRequest(
    session_id=SESSION,
    request_id="r1",
    kind="permission",
    text="run make migrate",
    since_ms=ago(180),
    command="make migrate && make check",
    options=(
        PermissionOption(id="yes", kind="allow_once", name="Allow once"),
        PermissionOption(id="no", kind="reject_once", name="Reject"),
    ),
)


class Talk:
    """A dashboard with the session open, and the daemon behind it."""

    def __init__(self, app: AgentsView, pilot: Pilot[int], daemon: RecordedSession) -> None:
        self.app = app
        self.pilot = pilot
        self.daemon = daemon

    @property
    def screen(self) -> SessionScreen:
        assert isinstance(self.app.screen, SessionScreen)
        return self.app.screen

    def lines(self) -> list[str]:
        """The transcript as text."""
        view = self.screen.transcript
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]

    def bar(self, name: str) -> str:
        return self.screen.query_one(f"#{name}", LineBar).render_line(0).text

    def toasts(self) -> list[str]:
        return [toast.message for toast in self.app._notifications]

    async def until(self, met: Callable[[], object]) -> None:
        """Wait for a state, never for a time."""
        for _ in range(400):
            await self.pilot.pause(0.01)
            if met():
                return
        raise AssertionError("did not come about")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clock times on screen are local times."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
async def talk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    """`@pytest.mark.parametrize("talk", [(row, entries, state)], indirect=True)`, all optional."""
    given = getattr(request, "param", {})
    daemon = RecordedSession(
        tmp_path, given.get("row", ROW), NEEDY, entries=given.get("entries", LOOK_06)
    )
    daemon.state = msgspec.structs.replace(daemon.state, **given.get("state", {}))
    async with daemon:
        limits = ClientLimits(retry_first=0.02, retry_most=0.05)
        client = DaemonClient(Connection(daemon.socket, revive=daemon.revive, limits=limits))
        settings = Settings()
        settings = msgspec.structs.replace(
            settings, ui=msgspec.structs.replace(settings.ui, key_guard=given.get("guard", 0.01))
        )
        app = AgentsView(client, settings, now=lambda: NOW_MS, ticking=False, home="/home/u")
        async with app.run_test(size=given.get("size", (120, 36)), notifications=True) as pilot:
            found = Talk(app, pilot, daemon)
            await found.until(lambda: client.mirror.complete)
            app.drafts.update(given.get("drafts", {}))
            app.push_screen(SessionScreen(SESSION))
            await found.until(lambda: isinstance(app.screen, SessionScreen))
            await found.until(lambda: found.screen.transcript.placeholder == "nothing here yet")
            await pilot.pause(0.05)
            yield found
        await client.connection.close()


def given(**fields: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("talk", [fields], indirect=True)


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


# --- writing


async def test_enter_sends_and_the_draft_is_gone(talk: Talk) -> None:
    await talk.pilot.press(*"go on")
    assert talk.app.drafts[SESSION] == "go on" and "draft kept" in talk.bar("status")
    await talk.pilot.press("enter")
    await talk.until(lambda: talk.daemon.got(c.Prompt))
    sent = talk.daemon.got(c.Prompt)[0]
    assert (sent.text, sent.steer) == ("go on", False) and "PATH" in sent.environ
    assert talk.screen.composer.text == "" and SESSION not in talk.app.drafts


async def test_keys_typed_at_once_are_taken_in_their_order(talk: Talk) -> None:
    """A terminal hands over text and enter in one piece: nothing of it may be left behind."""
    for key in [*"echo", "enter", *"two", "enter"]:
        talk.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await talk.until(lambda: len(talk.daemon.got(c.Prompt)) == 2)
    assert [prompt.text for prompt in talk.daemon.got(c.Prompt)] == ["echo", "two"]


async def test_blank_text_is_not_sent(talk: Talk) -> None:
    await talk.pilot.press("space", "enter")
    assert not talk.daemon.got(c.Prompt)


@given(row=BUSY)
async def test_while_a_turn_runs_enter_queues_and_ctrl_s_steers(talk: Talk) -> None:
    assert str(talk.screen.composer.border_subtitle) == "enter queues behind this turn"
    assert talk.bar("keys").startswith(" enter queue   ctrl+s steer   ctrl+x cancel turn")
    await talk.pilot.press(*"later", "enter")
    await talk.until(lambda: talk.screen.state.queue)
    assert "1 later" in talk.screen.queue_list.render_line(1).text
    await talk.pilot.press(*"now", "ctrl+s")
    await talk.until(lambda: len(talk.daemon.got(c.Prompt)) == 2)
    assert talk.daemon.got(c.Prompt)[1].steer


@given(row=BUSY)
async def test_only_ctrl_x_cancels(talk: Talk) -> None:
    await talk.pilot.press("ctrl+x")
    await talk.until(lambda: talk.daemon.got(c.CancelTurn))
    await talk.pilot.press("escape", "escape")
    assert isinstance(talk.app.screen, BoardScreen)
    assert len(talk.daemon.got(c.CancelTurn)) == 1


async def test_escape_goes_composer_transcript_board(talk: Talk) -> None:
    await talk.pilot.press(*"keep me", "left", "escape")
    assert talk.screen.transcript.has_focus
    await talk.pilot.press("enter")
    assert talk.screen.composer.area.has_focus
    await talk.pilot.press("escape", "escape")
    assert isinstance(talk.app.screen, BoardScreen)
    assert talk.app.drafts[SESSION] == "keep me"
    talk.app.push_screen(SessionScreen(SESSION))
    await talk.until(lambda: isinstance(talk.app.screen, SessionScreen))
    await talk.pilot.pause()
    assert talk.screen.composer.text == "keep me"


async def test_left_leaves_only_an_empty_composer(talk: Talk) -> None:
    await talk.pilot.press("a", "left", "left")
    assert isinstance(talk.app.screen, SessionScreen)
    await talk.pilot.press("delete", "left")
    assert isinstance(talk.app.screen, BoardScreen)


async def test_new_lines_and_history(talk: Talk) -> None:
    await talk.pilot.press("a", "ctrl+j", "b", "shift+enter", "c")
    assert talk.screen.composer.text == "a\nb\nc"
    await talk.pilot.press("up", "up")
    assert talk.screen.composer.text == "a\nb\nc"
    await talk.pilot.press("up")
    assert talk.screen.composer.text.startswith("Find out why they fail")
    await talk.pilot.press("down")
    assert talk.screen.composer.text == "a\nb\nc"
    assert talk.app.drafts[SESSION] == "a\nb\nc"


async def test_a_refused_prompt_comes_back(talk: Talk) -> None:
    talk.daemon.refusals[c.Prompt] = "the prompt is too long"
    await talk.pilot.press(*"hello", "enter")
    await talk.until(lambda: talk.screen.composer.text == "hello")
    assert "the prompt is too long" in talk.toasts()


async def test_the_editor_gets_the_text_and_gives_it_back(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ed"
    script.write_text('#!/bin/sh\nprintf " and more\\n" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    assert editor.edit_text("hello") == "hello and more"
    monkeypatch.setattr(session_actions, "edit_text", lambda text: text + "!")
    await talk.pilot.press("h", "ctrl+g")
    assert "no terminal to hand to an editor" in talk.toasts()
    assert talk.screen.composer.text == "h"


# --- the queue


@given(row=BUSY, state={"queue": QUEUE})
async def test_up_edits_the_last_queued_prompt(talk: Talk) -> None:
    await talk.pilot.press("up")
    assert talk.screen.composer.text == "and push"
    assert str(talk.screen.composer.border_subtitle).startswith("enter saves the queued prompt")
    await talk.pilot.press("up")
    assert talk.screen.composer.text == "then update CHANGELOG.md"  # a firing is not editable
    await talk.pilot.press("down", *"!", "enter")
    await talk.until(lambda: talk.daemon.got(c.QueueEdit))
    edit = talk.daemon.got(c.QueueEdit)[0]
    assert (edit.prompt_id, edit.text) == ("q3", "and push!")
    assert talk.screen.composer.text == ""


@given(row=BUSY, state={"queue": QUEUE})
async def test_escape_leaves_a_queued_prompt_as_it_was(talk: Talk) -> None:
    await talk.pilot.press("up", "x", "escape")
    assert talk.screen.composer.text == "" and talk.screen.composer.area.has_focus
    assert not talk.daemon.got(c.QueueEdit)


@given(row=BUSY, state={"queue": QUEUE})
async def test_queued_prompts_can_be_removed(talk: Talk) -> None:
    await talk.pilot.press("escape", "Q", "k", "k")
    assert talk.screen.queue_list.has_focus
    await talk.pilot.pause(0.05)
    await talk.pilot.press("delete")
    await talk.until(lambda: len(talk.screen.state.queue) == 2)
    assert talk.daemon.got(c.QueueEdit)[0].prompt_id == "q1"
    await talk.pilot.press("escape")
    assert talk.screen.composer.area.has_focus


@given(row=BUSY, state={"queue": QUEUE[:1]})
async def test_removing_the_last_one_leads_back_to_writing(talk: Talk) -> None:
    await talk.pilot.press("escape", "Q")
    await talk.pilot.pause(0.05)
    await talk.pilot.press("d")
    await talk.until(lambda: not talk.screen.queue_list.display)
    assert talk.screen.composer.area.has_focus


@given(row=BUSY, state={"queue": QUEUE})
async def test_a_prompt_that_was_sent_meanwhile_is_not_edited(talk: Talk) -> None:
    await talk.pilot.press("up", "!")
    talk.daemon.show(queue=QUEUE[:2])
    await talk.until(lambda: len(talk.screen.state.queue) == 2)
    assert talk.screen.recall.editing is None and talk.screen.composer.text == "and push!"


# --- permissions


@given(row=BUSY, state={"pending": (ASKED,)})
async def test_typing_never_answers(talk: Talk) -> None:
    await talk.pilot.press(*"a1Ar")
    assert talk.screen.composer.text == "a1Ar" and not talk.daemon.got(c.Answer)
    assert talk.screen.panel.display


@given(row=BUSY, state={"pending": (ASKED,)})
async def test_answering_from_the_panel(talk: Talk) -> None:
    await talk.pilot.press("escape")
    assert talk.screen.panel.has_focus
    await talk.pilot.pause(0.05)
    await talk.pilot.press("a")
    await talk.until(lambda: talk.daemon.got(c.Answer))
    assert talk.daemon.got(c.Answer)[0].option_id == "yes"
    await talk.until(lambda: not talk.screen.panel.display)
    assert talk.screen.composer.area.has_focus


@given(row=BUSY, state={"pending": (ASKED,)})
async def test_escape_passes_the_panel_and_answers_nothing(talk: Talk) -> None:
    await talk.pilot.press("escape", "escape")
    assert talk.screen.transcript.has_focus
    await talk.pilot.press("escape")
    assert isinstance(talk.app.screen, BoardScreen) and not talk.daemon.got(c.Answer)


@given(row=BUSY, state={"pending": (ASKED,)}, guard=0.4)
async def test_a_key_right_after_the_request_came_answers_nothing(talk: Talk) -> None:
    talk.daemon.show(pending=(msgspec.structs.replace(ASKED, request_id="r2"),))
    await talk.until(lambda: talk.screen.panel.request.request_id == "r2")
    talk.screen.panel.focus()
    await talk.pilot.press("a")
    assert not talk.daemon.got(c.Answer)


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
