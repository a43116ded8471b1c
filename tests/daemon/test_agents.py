"""Agents that misbehave, through the real daemon: each rule of spec 08.2 as a person meets it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from daemon_client import DaemonError, ErrorCode, connect
from daemon_client.protocol.transcript import PermissionEntry, RawEntry, ToolEntry
from daemon_client.status import label_of, section_of
from tests.support import homes
from tests.support.homes import eventually, processes_of, until
from tests.support.scripted import (
    ENV,
    ask,
    configure,
    daemon,
    ends,
    entries,
    held,
    new,
    notices,
    quiet,
    said,
)

FAST = "[agent]\ncancel_timeout = 1\nstop_step = 1\n"


async def test_a2_a_hang_in_initialize_is_a_visible_row_and_can_be_stopped(home: Path) -> None:
    async with daemon(home, "hang-initialize") as client:
        row = await new(client, "say hi")
        await until(client, row.session_id, lambda r: r.worker_state == "starting")
        starting = client.mirror.get(row.session_id)
        assert (section_of(starting), label_of(starting, 0)) == ("running", "starting")

        async def told() -> bool:
            return any("licence server" in text for text in await notices(client, row.session_id))

        async with asyncio.timeout(15):
            while not await told():
                await asyncio.sleep(0.1)
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        await eventually(lambda: len(processes_of(home)) == 1)


async def test_a2_a_start_that_takes_too_long_fails_visibly_and_retry_sends_the_prompt(
    home: Path,
) -> None:
    config = "[agent]\ninitialize_timeout = 2\n"
    async with daemon(home, "hang-initialize", config=config) as client:
        row = await new(client, "say at last")
        failed = await until(client, row.session_id, lambda r: r.exit_cause)
        label = label_of(failed, 0)
        assert "initialize: no answer within 2 s" in label and "licence server" in label
        assert section_of(failed) == "inactive"
        assert await held(client, row.session_id) == ["say at last"]
        await client.sessions.stop(row.session_id)
        await homes.stop(client)
    async with daemon(home) as client:
        assert client.mirror.get(row.session_id).exit_cause
        await client.sessions.retry(row.session_id, environ=ENV)
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "at last"
        assert client.mirror.get(row.session_id).exit_cause is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("no-such-agent", ("no-such-agent is not on PATH", "install it: npm i nothing")),
        ("/etc/passwd", ("is not executable",)),
        ("/bin/false", ("/bin/false", "exit code 1")),
    ],
)
async def test_s51_an_agent_that_cannot_start_says_what_and_what_to_do(
    home: Path, command: str, expected: tuple[str, ...]
) -> None:
    text = f'[agents.broken]\ncommand = "{command}"\ninstall_hint = "npm i nothing"\n'
    async with daemon(home, config=text) as client:
        row = await new(client, "say x", agent="broken")
        failed = await until(client, row.session_id, lambda r: r.exit_cause)
        for part in expected:
            assert part in failed.exit_cause
        assert failed.queued == 0
        assert await held(client, row.session_id) == ["say x"]
        assert any(expected[0] in text for text in await notices(client, row.session_id))


async def test_s51_an_agent_that_exits_at_once_shows_command_code_and_last_lines(
    home: Path,
) -> None:
    async with daemon(home, "exit-at-once") as client:
        row = await new(client, "say x")
        failed = await until(client, row.session_id, lambda r: r.exit_cause)
        for part in ("exit code 7", "scripted_agent exit-at-once", "reason 0", "reason 4"):
            assert part in failed.exit_cause
        assert section_of(failed) == "inactive"


async def test_s51_held_prompts_go_out_once_the_config_is_right_and_it_is_retried(
    home: Path,
) -> None:
    async with daemon(home, "exit-at-once") as client:
        row = await new(client, "say at last")
        await until(client, row.session_id, lambda r: r.exit_cause)
        configure(home)
        await client.sessions.retry(row.session_id, environ=ENV)
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "at last"
        assert client.mirror.get(row.session_id).exit_cause is None


async def test_a3_an_unconfirmed_cancel_replaces_the_agent(home: Path) -> None:
    async with daemon(home, "deaf", config=FAST) as client:
        row = await new(client, "tool t; hold")
        await until(client, row.session_id, lambda r: r.pending_tools == 1)
        (first,) = [p.pid for p in processes_of(home) if "deaf" in p.cmdline()]
        await client.conversation.cancel_turn(row.session_id)
        ((reason, cause),) = await ends(client, row.session_id)
        assert reason == "cancelled" and "unconfirmed" in cause
        await ask(client, row, "say usable again")
        assert (await said(client, row.session_id)).endswith("usable again")
        (second,) = [p.pid for p in processes_of(home) if "deaf" in p.cmdline()]
        assert second != first


async def test_a3_steer_works_with_an_agent_that_ignores_cancels(home: Path) -> None:
    async with daemon(home, "deaf", config=FAST) as client:
        row = await new(client, "tool t; hold")
        await until(client, row.session_id, lambda r: r.pending_tools == 1)
        await client.conversation.prompt(row.session_id, "say steered", steer=True, environ=ENV)
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "steered"


async def test_a4_replay_is_history_and_counts_nothing(home: Path) -> None:
    async with daemon(home, "load", "replay=300") as client:
        row = await new(client, "say one")
        await until(client, row.session_id, quiet)
        await client.sessions.seen(row.session_id)
        before = await until(client, row.session_id, lambda r: not r.unread)
        length = len(await entries(client, row.session_id))
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        await client.sessions.wake(row.session_id, environ=ENV)
        after = await until(client, row.session_id, lambda r: r.worker_state == "ready")
        assert (after.message_count, after.last_activity_at_ms, after.unread) == (
            before.message_count,
            before.last_activity_at_ms,
            False,
        )
        assert section_of(after) == "idle" and after.pending_tools == 0
        assert len(await entries(client, row.session_id)) == length
        await ask(client, row, "say two")
        assert await said(client, row.session_id) == "one|two"


async def test_a5_a_permission_waits_with_nobody_attached(home: Path) -> None:
    async with daemon(home) as client:
        row = await new(client, "ask edit")
        async with connect(home) as other:
            await other.follow()
            waiting = await until(other, row.session_id, lambda r: r is not None and r.waiting)
            assert label_of(waiting, 0) == "needs approval: edit a file"
            (request,) = await other.conversation.pending(row.session_id)
            with pytest.raises(DaemonError) as caught:
                await other.conversation.answer(row.session_id, request.request_id, "made-up")
            assert caught.value.code is ErrorCode.INVALID
            await other.conversation.answer(row.session_id, request.request_id, "just-once")
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "answer: just-once"


async def test_a5_a13_a_policy_allows_by_kind_once_and_says_so(home: Path) -> None:
    """Two `always` options come first: a policy must take neither, nor an unlisted kind."""
    async with daemon(home, config='[permissions]\nallow = ["read"]\n') as client:
        row = await new(client, "ask read")
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "answer: just-once"
        found = await entries(client, row.session_id)
        records = [e for e in found if isinstance(e, PermissionEntry)]
        assert [(e.outcome, e.by) for e in records] == [("", ""), ("Allow", "policy")]
        await client.conversation.prompt(row.session_id, "ask execute")
        await until(client, row.session_id, lambda r: r.waiting)


async def test_a13_a_cancel_answers_what_was_asked(home: Path) -> None:
    """The agent goes on only once its request is answered."""
    async with daemon(home) as client:
        row = await new(client, "ask edit")
        await until(client, row.session_id, lambda r: r.waiting)
        await client.conversation.cancel_turn(row.session_id)
        await until(client, row.session_id, quiet)
        assert client.mirror.get(row.session_id).waiting is None
        assert [reason for reason, _ in await ends(client, row.session_id)] == ["cancelled"]
        found = await entries(client, row.session_id)
        assert [e.by for e in found if isinstance(e, PermissionEntry)] == ["", "cancel"]


async def test_a6_noise_and_garbage_are_shown_and_end_nothing(home: Path) -> None:
    async with daemon(home, "banner", "flood") as client:
        row = await new(client, "odd; utf8; wrong; meta fine; stderr 300000; hostile")
        await until(client, row.session_id, quiet)
        text = " ".join(await notices(client, row.session_id))
        assert "the agent printed: Welcome to Scripted 1.0!" in text
        assert "the agent printed: loading..." in text, "its colours are gone"
        assert "fine" in await said(client, row.session_id)
        assert [reason for reason, _ in await ends(client, row.session_id)] == ["end_turn"]
        assert "\x1b" not in label_of(client.mirror.get(row.session_id), 0) + text


async def test_a6_a_line_of_70_mb_ends_that_session_only(home: Path) -> None:
    async with daemon(home) as client:
        neighbour = await new(client, "slow 150; say survived")
        child = await new(client, "say sibling")
        row = await new(client, f"line {70 << 20}; say never")
        await until(client, row.session_id, lambda r: r.turn is None and r.message_count, 40)
        ((reason, cause),) = await ends(client, row.session_id)
        assert reason == "interrupted"
        assert "a line of more than 67108864 bytes" in cause
        for other in (neighbour, child):
            await until(client, other.session_id, quiet)
        assert (await said(client, neighbour.session_id)).endswith("survived")
        await ask(client, row, "say back")
        assert (await said(client, row.session_id)).endswith("back")


async def test_a6_a_chunk_of_5_mb_is_kept_whole(home: Path) -> None:
    async with daemon(home) as client:
        row = await new(client, f"chunk {5 << 20}; say end")
        await until(client, row.session_id, quiet)
        assert (await said(client, row.session_id)).endswith("|end")
        transcript = home / "state" / "transcripts" / f"{row.session_id}.jsonl"
        assert transcript.stat().st_size > 5 << 20


async def test_a8_the_agents_own_id_is_stored_before_it_is_prompted(home: Path) -> None:
    async with daemon(home, f"db={home / 'state' / 'state.db'}") as client:
        row = await new(client, "stored")
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "stored: 1"


async def test_a10_a_directory_that_is_gone_is_named(home: Path, tmp_path: Path) -> None:
    where = tmp_path / "project"
    where.mkdir()
    async with daemon(home, "load") as client:
        row = await new(client, "say one", cwd=str(where))
        await until(client, row.session_id, quiet)
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        shutil.rmtree(where)
        await client.conversation.prompt(row.session_id, "say two", environ=ENV)
        failed = await until(client, row.session_id, lambda r: r.exit_cause)
        assert f"directory is gone: {where}" in failed.exit_cause
        assert not where.exists()
        assert await held(client, row.session_id) == ["say two"]
        where.mkdir()
        await client.sessions.retry(row.session_id)
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "one|two"


async def test_a11_unknown_updates_are_kept_raw(home: Path) -> None:
    async with daemon(home) as client:
        row = await new(client, "unknown")
        await until(client, row.session_id, quiet)
        raw = [e for e in await entries(client, row.session_id) if isinstance(e, RawEntry)]
        assert [e.update for e in raw] == ["brand_new_kind", "usage_update"]
        assert '"deep"' in raw[0].json


async def test_a12_tools_left_open_end_with_the_turn_and_late_updates_are_taken(
    home: Path,
) -> None:
    async with daemon(home) as client:
        row = await new(client, "tool open; tool shut; done shut; ask read; late afterwards")
        (request,) = await waiting(client, row.session_id)
        assert client.mirror.get(row.session_id).pending_tools == 2
        await client.conversation.answer(row.session_id, request.request_id, "just-once")
        await until(client, row.session_id, quiet)

        async def came() -> bool:
            return (await said(client, row.session_id)).endswith("afterwards")

        async with asyncio.timeout(10):
            while not await came():
                await asyncio.sleep(0.05)
        found = await entries(client, row.session_id)
        last = {e.tool_id: e.status for e in found if isinstance(e, ToolEntry) and e.status}
        assert last["open"] == last["shut"] == last["asked-read"] == "completed"
        now = client.mirror.get(row.session_id)
        assert (now.pending_tools, section_of(now)) == (0, "idle")


async def waiting(client, session_id: str):
    await until(client, session_id, lambda r: r is not None and r.waiting)
    return await client.conversation.pending(session_id)


@pytest.mark.parametrize(
    ("words", "remembers"),
    [
        (("resume", "load"), True),
        (("resume-missing", "load"), True),
        (("resume-missing", "load-fails"), False),
        ((), False),
    ],
)
async def test_a14_resume_then_load_then_a_new_one_with_a_tail(
    home: Path, tmp_path: Path, words: tuple[str, ...], remembers: bool
) -> None:
    log = tmp_path / "log"
    async with daemon(home, *words, f"log={log}") as client:
        row = await new(client, "say the secret word is heron")
        await until(client, row.session_id, quiet)
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        log.unlink()
        await ask(client, row, "say two")
        assert ("resumed without memory" in await notices(client, row.session_id)) != remembers
        prompts = [line for line in log.read_text().splitlines() if "session/prompt" in line]
        assert ("heron" in prompts[0]) != remembers
        await ask(client, row, "say three")
        assert "heron" not in log.read_text().splitlines()[-1]


async def test_a14_an_agent_without_frame_gets_no_tail(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with daemon(home, f"log={log}", entry="frame = false") as client:
        row = await new(client, "say heron")
        await until(client, row.session_id, quiet)
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        log.unlink()
        await ask(client, row, "say two")
        assert "heron" not in log.read_text()


async def test_a15_stop_leaves_nothing_of_a_stubborn_agent_and_its_detached_child(
    home: Path,
) -> None:
    async with daemon(home, "stubborn", config=FAST) as client:
        row = await new(client, "setsid; say started")
        await until(client, row.session_id, lambda r: quiet(r) and r.background == 1)
        await client.sessions.stop(row.session_id)
        await until(client, row.session_id, lambda r: not r.resident)
        await eventually(lambda: len(processes_of(home)) == 1)


@pytest.mark.parametrize(("prompt", "reason"), [("say x; exit 3", "interrupted")])
async def test_s51_an_agent_that_dies_in_a_turn(home: Path, prompt: str, reason: str) -> None:
    async with daemon(home, "load") as client:
        row = await new(client, prompt)
        ended = await until(client, row.session_id, lambda r: r.exit_cause and r.turn is None)
        assert "code 3" in ended.exit_cause
        ((stop, cause),) = await ends(client, row.session_id)
        assert stop == reason and "code 3" in cause
        await ask(client, row, "say back")
        assert await said(client, row.session_id) == "x|back"
        assert client.mirror.get(row.session_id).exit_cause is None


async def test_s51_an_agent_that_dies_between_turns_comes_back_with_the_next_prompt(
    home: Path,
) -> None:
    async with daemon(home, "load") as client:
        row = await new(client, "say one; exit-after 4")
        gone = await until(client, row.session_id, lambda r: not r.resident and r.exit_cause)
        assert "code 4" in gone.exit_cause
        assert [reason for reason, _ in await ends(client, row.session_id)] == ["end_turn"]
        await ask(client, row, "say two")
        assert await said(client, row.session_id) == "one|two"


async def test_a_model_error_ends_the_turn_and_the_session_is_usable(home: Path) -> None:
    async with daemon(home) as client:
        row = await new(client, "error 400 model overloaded")
        await until(client, row.session_id, lambda r: r.message_count == 1 and r.turn is None)
        ((reason, cause),) = await ends(client, row.session_id)
        assert (reason, cause) == ("error", "model overloaded (400)")
        await ask(client, row, "say fine")
        assert await said(client, row.session_id) == "fine"


async def test_a9_a_needed_login_waits(home: Path) -> None:
    async with daemon(home, "auth") as client:
        row = await new(client, "say held")
        asks = await until(client, row.session_id, lambda r: r.waiting)
        assert label_of(asks, 0).startswith("needs login: Authentication required")
        assert await held(client, row.session_id) == ["say held"]
