"""A worker alone, under a supervisor of straw: orders, turns, requests, facts (spec 08.2, 07.4)."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from agents_view.daemon.wire import (
    Alive,
    AnswerRequest,
    Cancel,
    Deliver,
    EditQueued,
    Event,
    Facts,
    OrderDone,
    Refresh,
    Release,
    SetMode,
    Start,
    Watch,
)
from daemon_client.errors import ErrorCode
from daemon_client.ids import new_id
from daemon_client.protocol.transcript import (
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PromptEntry,
    ToolEntry,
    TurnEndEntry,
)
from tests.support.homes import eventually, processes_of
from tests.support.scripted import ENV
from tests.support.worker_harness import FAST, Refused, bench, nothing_left


def said(entries: list) -> str:
    return "|".join(e.text for e in entries if isinstance(e, MessageEntry))


def notices(entries: list) -> list[str]:
    return [e.text for e in entries if isinstance(e, NoticeEntry)]


def ends(entries: list) -> list[tuple[str, str]]:
    return [(e.stop_reason, e.cause) for e in entries if isinstance(e, TurnEndEntry)]


async def test_07_4_the_row_says_queued_before_the_prompt_is_confirmed() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "say hi")
            done = next(i for i, m in enumerate(b.up.said) if isinstance(m, OrderDone))
            before = [f for m in b.up.said[:done] if isinstance(m, Facts) for f in m.sessions]
            assert before[-1].queued == 1 or before[-1].turn is not None
            await b.idle(key)


async def test_07_4_a_repeated_deliver_changes_nothing_and_says_the_same() -> None:
    async with bench() as b:
        key, again = await b.session(), new_id()
        async with b.worker():
            await b.deliver(key, "tool t; hold")
            await b.up.seen(key, lambda f: f.turn == "tools")
            order = Deliver(session_id=key, prompt_id=again, text="say once", environ=ENV)
            await b.deliver(key, "say first")
            positions = [(await b.up.order(order)).position for _ in range(3)]
            assert positions == [1, 1, 1]
            await b.up.order(Cancel(session_id=key))
            await b.idle(key)
            assert (await b.up.order(order)).position == 0
            assert said(await b.transcript(key)) == "first|once"
        assert [state for _, state in await b.prompts(key)] == ["done"] * 3


async def test_a3_the_answer_to_a_steer_does_not_wait_for_the_turn_to_end() -> None:
    async with bench("deaf", config=FAST.replace("cancel_timeout = 1", "cancel_timeout = 3")) as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "hold")
            await b.up.seen(key, lambda f: f.turn)
            order = Deliver(session_id=key, prompt_id=new_id(), text="say new", steer=True)
            await b.up.order(order, within=2)
            await b.up.seen(key, lambda f: f.message_count == 3)
            entries = await b.transcript(key)
            assert ends(entries)[0] == ("cancelled", "unconfirmed: the agent was replaced")
            assert said(entries) == "new"


async def test_a3_two_cancels_of_a_deaf_agent_replace_it_once() -> None:
    async with bench("deaf") as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "hold")
            await b.deliver(key, "say next")
            await b.up.seen(key, lambda f: f.turn)
            first, second = (b.up.begin(Cancel(session_id=key)) for _ in range(2))
            for number in (first, second):
                assert isinstance(await b.up.until(lambda n=number: b.up.answer(n)), OrderDone)
            await b.up.seen(key, lambda f: f.message_count == 3)
            entries = await b.transcript(key)
            assert [reason for reason, _ in ends(entries)] == ["cancelled", "end_turn"]
            assert said(entries) == "next"


async def test_a3_cancel_and_edit_of_what_is_not_there_are_conflicts() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            prompt = await b.deliver(key, "say x")
            await b.idle(key)
            for body in (
                Cancel(session_id=key),
                EditQueued(session_id=key, prompt_id=prompt, text="say y"),
                AnswerRequest(session_id=key, request_id="nobody", option_id="just-once"),
            ):
                with pytest.raises(Refused) as caught:
                    await b.up.order(body)
                assert caught.value.code is ErrorCode.CONFLICT


async def test_a2_one_that_hangs_holds_up_nobody() -> None:
    async with bench("hang-initialize") as b:
        stuck = await b.session()
        well = await b.session(agent="shell")
        async with b.worker():
            await b.deliver(stuck, "say never")
            await b.up.seen(stuck, lambda f: f.worker_state == "starting")
            await b.deliver(well, "echo fine")
            await b.idle(well)
            assert said(await b.transcript(well)) == "fine"
            assert b.up.facts[stuck].queued == 1


async def test_a2_a_mode_the_agent_does_not_know_any_more_is_no_reason_not_to_start() -> None:
    async with bench() as b:
        key = await b.session(mode="plan", model="gone-9")
        async with b.worker():
            await b.deliver(key, "say started")
            await b.idle(key)
            entries = await b.transcript(key)
            assert said(entries) == "started"
            assert [t.split(":")[0] for t in notices(entries)] == [
                "mode plan not set",
                "model gone-9 not set",
            ]
            with pytest.raises(Refused) as caught:
                await b.up.order(SetMode(session_id=key, mode="plan"))
            assert caught.value.code is ErrorCode.AGENT_FAILED


async def test_a12_what_comes_after_the_turn_is_closed_by_the_next() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.up.order(Watch(session_id=key, on=True))
            await b.deliver(key, "say one; late afterwards")
            await b.up.until(
                lambda: any(
                    isinstance(e, ToolEntry) and e.tool_id == "late-tool" for e in b.up.entries(key)
                )
            )
            facts = await b.idle(key)
            assert (facts.pending_tools, facts.tool_label) == (0, None)
            await b.deliver(key, "say two")
            await b.up.seen(key, lambda f: f.message_count == 4)
            tools = [e for e in await b.transcript(key) if isinstance(e, ToolEntry)]
            assert [e.status for e in tools] == ["in_progress", "completed"]


async def test_a13_a_process_that_goes_away_expires_what_it_asked() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "ask edit")
            facts = await b.up.seen(key, lambda f: f.waiting)
            (pending,) = b.up.asides[key].pending
            assert pending.request_id == facts.waiting.request_id
            os.kill(facts.agent_pid, 9)
            ended = await b.up.seen(key, lambda f: f.turn is None)
            assert (ended.waiting, ended.resident) == (None, False)
            assert ended.exit_cause == "agent killed: SIGKILL"
            assert b.up.asides[key].pending == ()
            entries = await b.transcript(key)
            assert [e.by for e in entries if isinstance(e, PermissionEntry)] == ["", "expiry"]
            assert ends(entries) == [("interrupted", "agent killed: SIGKILL")]


async def test_s51_after_a_crash_in_a_turn_the_queue_goes_to_a_fresh_agent() -> None:
    async with bench("load") as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "say one; ask edit; exit 3")
            await b.deliver(key, "say two")
            await b.up.seen(key, lambda f: f.waiting and f.queued == 1)
            (asked,) = b.up.asides[key].pending
            await b.up.order(
                AnswerRequest(session_id=key, request_id=asked.request_id, option_id="just-once")
            )
            await b.up.seen(key, lambda f: f.message_count == 4 and f.turn is None)
            entries = await b.transcript(key)
            assert said(entries) == "one|answer: just-once|two"
            assert [reason for reason, _ in ends(entries)] == ["interrupted", "end_turn"]
            assert b.up.facts[key].exit_cause is None
        assert await b.prompts(key) == [
            ("say one; ask edit; exit 3", "interrupted"),
            ("say two", "done"),
        ]


async def test_a_start_that_fails_holds_what_waits_and_a_new_prompt_sends_all_in_order(
    tmp_path: Path,
) -> None:
    gone = tmp_path / "gone"
    async with bench() as b:
        key = await b.session(cwd=str(gone))
        async with b.worker():
            await b.deliver(key, "say one")
            failed = await b.up.seen(key, lambda f: f.exit_cause)
            assert (failed.queued, failed.held, failed.resident) == (0, 1, False)
            assert str(gone) in failed.exit_cause
            assert [p.held for p in b.up.asides[key].queue] == [True]
            gone.mkdir()
            await b.deliver(key, "say two")
            await b.up.seen(key, lambda f: f.message_count == 4)
            assert said(await b.transcript(key)) == "one|two"
            assert b.up.facts[key].exit_cause is None


async def test_a9_a_child_has_what_its_parent_has_by_now() -> None:
    async with bench(entry="") as b:
        root = await b.session()
        child = await b.session()
        async with b.worker():
            await b.up.order(Refresh(session_id=root, environ=ENV | {"KEY": "of the parent"}))
            await b.deliver(child, "env KEY", environ={})
            await b.idle(child)
            assert said(await b.transcript(child)) == "KEY=of the parent"


async def test_watch_streams_only_what_is_watched_in_frames_that_fit() -> None:
    async with bench() as b:
        seen, unseen = await b.session(), await b.session()
        async with b.worker():
            await b.up.order(Watch(session_id=seen, on=True))
            for key in (seen, unseen):
                await b.deliver(key, f"chunk {3 << 20}; say end")
                await b.idle(key)
            await b.up.until(lambda: ends(b.up.entries(seen)))
            assert b.up.entries(seen) == await b.transcript(seen)
            assert b.up.entries(unseen) == []
            events = [
                size
                for size, message in zip(b.up.frames, b.up.said, strict=True)
                if isinstance(message, Event)
            ]
            assert max(events) < 512 << 10
            assert len(said(b.up.entries(seen)).replace("|", "")) == (3 << 20) + len("end")


async def test_watch_on_means_that_the_file_is_complete() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "say one; hold")
            await b.up.seen(key, lambda f: f.turn == "writing")
            await b.up.order(Watch(session_id=key, on=True))
            path = b.paths.transcripts / f"{key}.jsonl"
            assert b'"one"' in path.read_bytes()


async def test_facts_that_did_not_change_are_not_sent_again() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "slow 60")
            await b.idle(key)
            told = [f for m in b.up.said if isinstance(m, Facts) for f in m.sessions]
            assert all(one != two for one, two in itertools.pairwise(told))
            assert len(told) < 25, "60 messages are not 60 rows"


async def test_a_long_prompt_is_recorded_in_parts_and_sent_whole(tmp_path: Path) -> None:
    async with bench(config=FAST + "transcript_entry = 1000\n") as b:
        key = await b.session()
        async with b.worker():
            text = "say " + "long " * 700
            await b.deliver(key, text)
            await b.idle(key)
            entries = await b.transcript(key)
            parts = [e for e in entries if isinstance(e, PromptEntry)]
            assert [e.part for e in parts] == [0, 1, 2, 3]
            assert "".join(e.text for e in parts) == text
            assert said(entries).replace("|", "") == text[4:].rstrip()


async def test_release_ends_one_session_and_keeps_what_it_had_queued() -> None:
    async with bench() as b:
        root, child = await b.session(), await b.session()
        async with b.worker():
            await b.deliver(root, "hold")
            await b.deliver(child, "setsid; hold")
            await b.deliver(child, "say later")
            agent = (await b.up.seen(child, lambda f: f.turn and f.queued == 1)).agent_pid
            await b.up.order(Release(session_id=child))
            released = await b.up.seen(child, lambda f: not f.resident)
            assert (released.turn, released.queued, released.held) == (None, 0, 1)
            assert not Path(f"/proc/{agent}").exists()
            assert b.up.facts[root].turn is not None
            await eventually(lambda: not [p for p in processes_of(b.home) if "1000" in p.cmdline()])
        assert [s for _, s in await b.prompts(child)] == ["interrupted", "queued"]


async def test_noise_without_end_is_counted_not_recorded() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "; ".join(["odd"] * 20) + "; say end")
            await b.idle(key)
            entries = await b.transcript(key)
            assert said(entries) == "end"
            assert len(notices(entries)) == 51
            assert notices(entries)[-1].endswith("more lines that are no messages")


async def test_a12_commands_told_right_behind_the_answer_to_a_start_are_offered() -> None:
    async with bench("commands") as b:
        key = await b.session()
        async with b.worker():
            await b.up.order(Start(session_id=key, environ=ENV))
            await b.up.seen(key, lambda f: f.worker_state == "ready")
            await b.up.until(lambda: b.up.asides[key].choices.commands == ("compact",))


async def test_start_makes_resident_and_a_session_without_prompts_counts_nothing() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.up.order(Start(session_id=key, environ=ENV))
            facts = await b.up.seen(key, lambda f: f.worker_state == "ready")
            assert (facts.message_count, facts.last_activity_at_ms, facts.turn) == (0, 1, None)
    await nothing_left(b)


async def test_r7_a_silent_worker_says_that_it_is_alive() -> None:
    async with bench(config=FAST + "alive_interval = 0.2\n") as b:
        await b.session()
        async with b.worker():
            await b.up.until(lambda: sum(isinstance(m, Alive) for m in b.up.said) >= 3)
