"""Writing prompts, the queue, and answers on the session screen (spec 03.2, 03.3)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from textual import events

from agents_view.tui import editor
from agents_view.tui.screens import session_actions
from agents_view.tui.screens.board import BoardScreen
from agents_view.tui.screens.session import SessionScreen
from daemon_client.protocol import commands as c
from tests.support.talk import (
    ASKED,
    BUSY,
    QUEUE,
    SESSION,
    Talk,
    given,
    talk,
)

__all__ = ["talk"]


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
