"""A session from creation to deletion, through a real supervisor, worker and agent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from daemon_client import DaemonClient, DaemonError, ErrorCode
from daemon_client.ids import new_id
from daemon_client.protocol import SessionChunk, SessionGone
from daemon_client.protocol.commands import Create, Prompt, Spawn
from daemon_client.protocol.transcript import MessageEntry, PromptEntry, TurnEndEntry
from daemon_client.status import label_of, section_of
from tests.support.homes import eventually, processes_of, until

ENV = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh"}


def idle(row) -> bool:
    return row is not None and section_of(row) == "idle" and row.message_count > 0


async def entries(client: DaemonClient, session_id: str) -> list:
    page = await client.conversation.transcript(session_id, limit=1000)
    return list(page.entries)


async def said(client: DaemonClient, session_id: str) -> str:
    return "\n".join(
        e.text for e in await entries(client, session_id) if isinstance(e, MessageEntry)
    )


async def new(client: DaemonClient, prompt: str | None = None, **more):
    return await client.sessions.create("shell", "/tmp", prompt=prompt, environ=ENV, **more)


async def test_r1_running_at_once_and_idle_when_done(client: DaemonClient) -> None:
    row = await new(client, "sleep 0.3; echo done")
    assert section_of(row) == "running"
    await until(client, row.session_id, idle)
    assert await said(client, row.session_id) == "done"


async def test_turns_are_serial_and_queued_prompts_follow_a3(client: DaemonClient) -> None:
    row = await new(client, "sleep 0.3; echo one")
    await client.conversation.prompt(row.session_id, "echo two")
    await client.conversation.prompt(row.session_id, "echo three")
    await until(client, row.session_id, idle)
    kinds = [
        (type(e).__name__, getattr(e, "text", ""))
        for e in await entries(client, row.session_id)
        if isinstance(e, (PromptEntry, MessageEntry, TurnEndEntry))
    ]
    assert [text for kind, text in kinds if kind == "MessageEntry"] == ["one", "two", "three"]
    assert [kind for kind, _ in kinds] == ["PromptEntry", "MessageEntry", "TurnEndEntry"] * 3


async def test_queued_prompts_can_be_edited_and_removed(client: DaemonClient) -> None:
    row = await new(client, "sleep 0.5; echo one")
    two = await client.conversation.prompt(row.session_id, "echo two")
    three = await client.conversation.prompt(row.session_id, "echo three")
    await client.conversation.edit_queued(row.session_id, two.prompt_id, "echo zwei")
    await client.conversation.remove_queued(row.session_id, three.prompt_id)
    await until(client, row.session_id, idle)
    assert await said(client, row.session_id) == "one\nzwei"
    with pytest.raises(DaemonError) as caught:
        await client.conversation.edit_queued(row.session_id, two.prompt_id, "echo late")
    assert caught.value.code is ErrorCode.CONFLICT


async def test_cancel_ends_the_turn_and_its_processes(client: DaemonClient, home: Path) -> None:
    row = await new(client, "sleep 1000")
    await until(client, row.session_id, lambda r: r is not None and r.pending_tools == 1)
    await client.conversation.cancel_turn(row.session_id)
    assert idle(await until(client, row.session_id, idle))
    end = [e for e in await entries(client, row.session_id) if isinstance(e, TurnEndEntry)]
    assert [e.stop_reason for e in end] == ["cancelled"]
    with pytest.raises(DaemonError) as caught:
        await client.conversation.cancel_turn(row.session_id)
    assert caught.value.code is ErrorCode.CONFLICT


async def test_a3_steer_cancels_then_prompts(client: DaemonClient) -> None:
    row = await new(client, "sleep 1000")
    await until(client, row.session_id, lambda r: r is not None and r.pending_tools == 1)
    await client.conversation.prompt(row.session_id, "echo steered", steer=True)
    await until(client, row.session_id, idle)
    assert (await said(client, row.session_id)).endswith("steered")


async def test_a5_a_permission_waits_and_is_answered_once(client: DaemonClient) -> None:
    row = await new(client, "?echo allowed")
    waiting = await until(client, row.session_id, lambda r: r is not None and r.waiting)
    assert label_of(waiting, 0) == "needs approval: echo allowed"
    (request,) = await client.conversation.pending(row.session_id)
    assert request.command == "echo allowed"
    await client.conversation.answer(row.session_id, request.request_id, "once")
    with pytest.raises(DaemonError, match="already answered"):
        await client.conversation.answer(row.session_id, request.request_id, "no")
    await until(client, row.session_id, idle)
    assert await said(client, row.session_id) == "allowed"


async def test_idempotency_a_repeated_request_runs_nothing_twice(client: DaemonClient) -> None:
    key = new_id()
    create = Create(agent="shell", cwd="/tmp", prompt="echo once", environ=ENV)
    first = await client.connection.request(create, request_id=key)
    again = await client.connection.request(create, request_id=key)
    assert first.row.session_id == again.row.session_id == key
    prompt = Prompt(session_id=key, text="echo twice?")
    accepted = new_id()
    await client.connection.request(prompt, request_id=accepted)
    await client.connection.request(prompt, request_id=accepted)
    await until(client, key, lambda r: idle(r) and r.message_count == 4)
    assert await said(client, key) == "once\ntwice?"
    assert len(client.mirror) == 1


async def test_a_child_stands_below_its_parent_and_counts_as_running(client: DaemonClient) -> None:
    row = await new(client, "echo parent")
    await until(client, row.session_id, idle)
    child = await client.sessions.spawn(Spawn(prompt="sleep 0.5", parent_id=row.session_id))
    assert (child.parent_id, child.root_id, child.depth) == (row.session_id, row.session_id, 1)
    busy = await until(client, row.session_id, lambda r: r.running_children == 1)
    assert label_of(busy, 0) == "1 subagent running"
    quiet = await until(client, row.session_id, lambda r: r.running_children == 0)
    assert section_of(quiet) == "idle"
    assert quiet.worker_pid == client.mirror.get(child.session_id).worker_pid


async def test_attach_streams_the_tail_then_live_then_gone(client: DaemonClient) -> None:
    row = await new(client, "echo first")
    await until(client, row.session_id, idle)
    got: list = []
    gone = asyncio.Event()

    def take(message) -> None:
        if isinstance(message, SessionChunk):
            got.extend(message.entries)
        elif isinstance(message, SessionGone):
            gone.set()

    client.connection.on_push(take)
    await client.conversation.attach(row.session_id)
    await client.conversation.prompt(row.session_id, "echo second")
    await until(client, row.session_id, lambda r: idle(r) and r.message_count == 4)
    await client.sessions.delete(row.session_id)
    await asyncio.wait_for(gone.wait(), 5)
    assert [e.text for e in got if isinstance(e, MessageEntry)] == ["first", "second"]
    assert [e.seq for e in got] == sorted({e.seq for e in got})


async def test_r16_unread_until_a_person_looks(client: DaemonClient) -> None:
    row = await new(client, "sleep 0.2; echo x")
    assert (await until(client, row.session_id, lambda r: r.unread)) is not None
    await client.sessions.seen(row.session_id)
    await until(client, row.session_id, lambda r: not r.unread)


async def test_stop_makes_it_inactive_and_a_prompt_brings_it_back(client: DaemonClient) -> None:
    row = await new(client, "echo before")
    await until(client, row.session_id, idle)
    await client.sessions.stop(row.session_id)
    passive = await until(client, row.session_id, lambda r: not r.resident)
    assert (section_of(passive), label_of(passive, 0)) == ("inactive", "")
    await client.conversation.prompt(row.session_id, "echo after")
    await until(client, row.session_id, idle)
    assert await said(client, row.session_id) == "before\nafter"


async def test_archive_and_restore(client: DaemonClient) -> None:
    row = await new(client, "sleep 1000")
    await client.sessions.archive(row.session_id)
    put_away = await until(client, row.session_id, lambda r: r.archived and not r.resident)
    assert label_of(put_away, 0) == "archived"
    with pytest.raises(DaemonError, match="restore it first"):
        await client.conversation.prompt(row.session_id, "echo no")
    await client.sessions.restore(row.session_id)
    await until(client, row.session_id, lambda r: not r.archived)


async def test_r51_delete_is_refused_when_the_facts_changed(client: DaemonClient) -> None:
    row = await new(client, "echo x")
    await until(client, row.session_id, idle)
    plan = await client.sessions.preview_delete(row.session_id)
    await client.conversation.prompt(row.session_id, "sleep 1000")
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    with pytest.raises(DaemonError) as caught:
        await client.sessions.delete(row.session_id, expected=plan.fingerprint)
    assert caught.value.code is ErrorCode.CONFLICT
    fresh = await client.sessions.preview_delete(row.session_id)
    assert fresh.working
    await client.sessions.delete(row.session_id, expected=fresh.fingerprint)
    await until(client, row.session_id, lambda r: r is None)


async def test_r52_undo_brings_back_a_deleted_tree_and_purge_ends_it(
    client: DaemonClient, home: Path
) -> None:
    row = await new(client, "echo parent")
    child = await client.sessions.spawn(Spawn(prompt="echo c", parent_id=row.session_id))
    await until(client, row.session_id, idle)
    await until(client, child.session_id, idle)
    await client.sessions.delete(row.session_id)
    await until(client, child.session_id, lambda r: r is None)
    await client.sessions.restore(row.session_id)
    await until(client, child.session_id, lambda r: r is not None)
    assert await said(client, row.session_id) == "parent"
    with pytest.raises(DaemonError, match="delete it first"):
        await client.sessions.purge(row.session_id)
    await client.sessions.delete(row.session_id)
    await client.sessions.purge(row.session_id)
    with pytest.raises(DaemonError) as caught:
        await client.sessions.restore(row.session_id)
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_the_working_directory_is_never_touched(client: DaemonClient, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    row = await client.sessions.create("shell", str(tmp_path), prompt="echo x", environ=ENV)
    await client.sessions.delete(row.session_id)
    await client.sessions.purge(row.session_id)
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize(
    ("agent", "cwd", "text"),
    [
        ("shel", "/tmp", "did you mean shell"),
        ("shell", "/nowhere/at/all", "no directory"),
        ("shell", "relative", "not an absolute directory"),
    ],
)
async def test_bad_input_is_refused_with_what_and_where(
    client: DaemonClient, agent: str, cwd: str, text: str
) -> None:
    with pytest.raises(DaemonError, match=text) as caught:
        await client.sessions.create(agent, cwd)
    assert caught.value.code is ErrorCode.INVALID
    assert len(client.mirror) == 0


async def test_a15_stop_leaves_nothing_of_a_detached_child(
    client: DaemonClient, home: Path
) -> None:
    row = await new(client, "setsid sleep 1000 & echo started")
    await until(client, row.session_id, lambda r: idle(r) and r.background == 1)
    await client.sessions.stop(row.session_id)
    await eventually(lambda: len(processes_of(home)) == 1)
