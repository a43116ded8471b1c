"""A worker's own life: its lock, its predecessor, its supervisor, its end (S3, 05.6, 05.8)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from agents_view.daemon.store import agent_sessions, sessions, workers
from agents_view.daemon.wire import Bye, Deliver, OrderDone, Refresh, Start, StopTree, Watch
from daemon_client import connect
from daemon_client.errors import ErrorCode
from daemon_client.ids import new_id
from tests.daemon.test_worker_turns import ends, said
from tests.support import homes
from tests.support.homes import eventually, processes_of
from tests.support.scripted import ENV
from tests.support.worker_harness import FAST, Bench, Process, bench, nothing_left


def agents_of(b: Bench) -> list[int]:
    return [p.pid for p in processes_of(b.home) if "tests.support.scripted_agent" in p.cmdline()]


def lock_of(b: Bench) -> Path:
    return b.paths.tree_locks / f"{b.root}.lock"


async def test_s3_a_second_worker_of_a_tree_leaves_at_once() -> None:
    async with bench() as b:
        await b.session()
        async with b.worker() as first:
            note = lock_of(b).read_text().split()
            assert note[:2] == [str(first.identity.pid), str(first.identity.start)]
            assert note[3] == "1"
            async with b.process() as second:
                assert await second.ends() == 0
            assert lock_of(b).read_text().split() == note
            assert len(b.up.hellos) == 1


async def test_s3_an_agent_inherits_neither_lock_nor_store() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.up.order(Start(session_id=key, environ=ENV))
            facts = await b.up.seen(key, lambda f: f.worker_state == "ready")
            folder = Path(f"/proc/{facts.agent_pid}/fd")
            held = [os.readlink(entry) for entry in folder.iterdir()]
            assert not [path for path in held if str(b.paths.state_dir) in path]


async def test_s3_a_worker_that_was_replaced_ends_its_agents_and_leaves() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker() as process:
            await b.deliver(key, "setsid; hold")
            await b.up.seen(key, lambda f: f.turn)
            await b.epoch()
            number = b.up.begin(Deliver(session_id=key, prompt_id=new_id(), text="say lost"))
            assert await process.ends() == 0
            answer = b.up.answer(number)
            assert answer is None or answer.error.code is ErrorCode.UNAVAILABLE
        await nothing_left(b)
        assert [text for text, _ in await b.prompts(key)] == ["setsid; hold"]


async def test_s3_a_worker_of_an_epoch_that_is_over_does_nothing() -> None:
    async with bench() as b:
        await b.session()
        given = b.arguments(await b.epoch())
        await b.epoch()
        process = await Process.start(b, given, {})
        assert await process.ends() == 0
        assert b.up.hellos == []


async def test_05_6_a_killed_worker_is_followed_by_one_that_settles_and_goes_on() -> None:
    async with bench("load", "stubborn") as b:
        busy, calm, passive = await b.session(), await b.session(), await b.session()
        async with b.worker() as process:
            await b.deliver(calm, "say calm")
            await b.idle(calm)
            await b.deliver(busy, "setsid; say one; hold")
            await b.deliver(busy, "say two")
            await b.deliver(busy, "say three")
            await b.up.seen(busy, lambda f: f.turn == "writing" and f.queued == 2)
            await b.up.order(Watch(session_id=busy, on=False))  # what it said is in the file
            process.signal(signal.SIGKILL)
            await process.ends()
        left = set(agents_of(b))
        assert len(left) == 2, "its agents outlive it"
        async with b.worker():
            hello = {f.session_id: f for f in b.up.hellos[-1].facts}
            assert set(hello) == {busy, calm, passive}
            assert hello[busy].queued == 2 or hello[busy].turn
            assert hello[calm].resident and not hello[passive].resident
            await b.up.seen(calm, lambda f: f.worker_state == "ready")
            await b.up.seen(busy, lambda f: f.message_count == 5 and f.turn is None)
            assert not left & set(agents_of(b))
            assert not [p for p in processes_of(b.home) if "1000" in p.cmdline()]
            entries = await b.transcript(busy)
            cause = "the worker ended while it was running"
            assert ends(entries)[0] == ("interrupted", cause)
            assert said(entries) == "one|two|three"
            assert [e.seq for e in entries] == list(range(1, len(entries) + 1))
            assert b.up.facts[busy].first_message == "setsid; say one; hold"
        assert [s for _, s in await b.prompts(busy)] == ["interrupted", "done", "done"]


async def test_05_6_a_worker_killed_while_an_agent_starts_brings_it_back() -> None:
    async with bench("hang-initialize") as b:
        key = await b.session()
        async with b.worker() as process:
            await b.up.order(Start(session_id=key, environ=ENV))
            facts = await b.up.seen(key, lambda f: f.agent_pid)

            async def recorded() -> bool:
                rows = await b.db.read(lambda t: agent_sessions.open_of_tree(t, b.root))
                return [row.pid for row in rows] == [facts.agent_pid]

            while not await recorded():
                pass
            process.signal(signal.SIGKILL)
            await process.ends()
        async with b.worker():
            again = await b.up.seen(key, lambda f: f.worker_state == "starting" and f.agent_pid)
            assert again.agent_pid != facts.agent_pid
            assert agents_of(b) == [again.agent_pid]


async def test_05_6_what_a_failed_start_held_is_held_by_the_next_worker_too() -> None:
    async with bench("exit-at-once") as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "say one")
            await b.up.seen(key, lambda f: f.exit_cause)
        async with b.worker():
            facts = b.up.hellos[-1].facts[0]
            assert (facts.held, facts.queued, facts.resident) == (1, 0, False)
            assert facts.exit_cause.startswith("agent not started: ")
            assert agents_of(b) == []


async def test_05_6_an_agent_that_crashed_earlier_holds_nothing() -> None:
    """Its cause stays in the store until it runs again; only a failed start holds prompts."""
    async with bench() as b:
        key = await b.session(exit_cause="agent exited: code 1", exit_at_ms=1)
        await b.queue(key, "say delivered")
        async with b.worker():
            await b.idle(key)
            assert said(await b.transcript(key)) == "delivered"
            assert b.up.facts[key].exit_cause is None


async def test_05_6_asking_again_is_as_durable_as_the_prompt() -> None:
    """A worker killed between the new prompt and the agent's start must not hold it again."""
    async with bench() as b:
        cause = "agent not started: it was not there"
        key = await b.session(exit_cause=cause, exit_at_ms=1)
        await b.queue(key, "say one")
        async with b.process(AGENTS_VIEW_FAILPOINT="worker.accepted") as process:
            await b.up.until(lambda: b.up.hellos)
            assert b.up.facts[key].held == 1
            b.up.begin(Deliver(session_id=key, prompt_id=new_id(), text="say two", environ=ENV))
            assert await process.ends() == -signal.SIGKILL
        async with b.worker():
            await b.up.seen(key, lambda f: f.message_count == 4 and f.turn is None)
            assert said(await b.transcript(key)) == "one|two"


async def test_a9_agents_come_back_with_the_environment_the_supervisor_still_knows() -> None:
    async with bench("load") as b:
        root, child = await b.session(), await b.session()
        async with b.worker() as process:
            for key in (root, child):
                await b.up.order(Start(session_id=key, environ=ENV))
                await b.up.seen(key, lambda f: f.worker_state == "ready")
            await b.deliver(root, "tool t; hold")
            await b.deliver(root, "env KEY")
            await b.up.seen(root, lambda f: f.pending_tools == 1 and f.queued == 1)
            process.signal(signal.SIGKILL)
            await process.ends()
        b.up.first_orders = [Refresh(session_id=root, environ=ENV | {"KEY": "kept"})]
        async with b.worker():
            await b.up.seen(root, lambda f: f.message_count == 3 and f.turn is None)
            assert said(await b.transcript(root)) == "KEY=kept"
            await b.deliver(child, "env KEY", environ={})
            await b.idle(child)
            assert said(await b.transcript(child)) == "KEY=kept"


async def test_05_6_without_a_supervisor_agents_come_back_a_little_later() -> None:
    async with bench(config=FAST + "boot_pass = 0.3\n") as b:
        key = await b.session()
        await b.queue(key, "say alone")
        await b.up.close()
        async with b.process():
            path = b.paths.transcripts / f"{key}.jsonl"
            await eventually(lambda: path.exists() and b'"end_turn"' in path.read_bytes())


async def test_05_6_a_lost_supervisor_stops_nothing_and_the_next_learns_everything() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker():
            await b.up.order(Start(session_id=key, environ=ENV))
            await b.deliver(key, "say one; ask edit; say two")
            await b.up.seen(key, lambda f: f.waiting)
            for _ in range(3):
                b.up.facts.clear()
                b.up.asides.clear()
                known = len(b.up.hellos)
                b.up.drop()
                await b.up.until(lambda n=known: len(b.up.hellos) > n)
                hello = b.up.hellos[-1].facts[0]
                assert hello.waiting is not None and hello.turn is not None
                await b.up.until(lambda: b.up.asides.get(key))
                assert len(b.up.asides[key].pending) == 1


async def test_05_6_after_the_grace_it_starts_a_supervisor_that_adopts_it() -> None:
    config = FAST + "supervisor_grace = 0.3\n"
    async with bench(config=config) as b:
        key = await b.session()
        async with b.worker() as process:
            await b.deliver(key, "hold")
            await b.up.seen(key, lambda f: f.turn)
            await b.up.close()
            await eventually(lambda: len(homes.supervisors_of(b.home)) == 1, 30)
            async with connect(b.home) as client:
                await client.follow()
                row = await homes.until(client, key, lambda r: r is not None and r.turn)
                assert row.worker_pid == process.identity.pid
                await homes.stop(client)
            assert await process.ends() == 0
        await nothing_left(b)


async def test_05_6_a_supervisor_that_was_shut_down_is_not_started_again() -> None:
    config = FAST + "supervisor_grace = 0.1\n"
    async with bench(config=config) as b:
        key = await b.session()
        async with b.worker():
            await b.deliver(key, "slow 150; say done")
            await b.up.seen(key, lambda f: f.turn == "writing")
            b.up.say_closing("shutdown")
            await b.up.order(Start(session_id=key))  # so that it has read the goodbye
            await b.up.close()
            await eventually(lambda: said_done(b, key), 30)
            assert homes.supervisors_of(b.home) == []


def said_done(b: Bench, key: str) -> bool:
    return b'"done"' in (b.paths.transcripts / f"{key}.jsonl").read_bytes()


async def test_a_tied_worker_ends_with_its_supervisor_whatever_that_said() -> None:
    async with bench(config=FAST + "supervisor_grace = 0.1\n") as b:
        key = await b.session()
        async with b.worker(tied=True) as process:
            await b.deliver(key, "setsid; hold")
            await b.up.seen(key, lambda f: f.turn)
            b.up.say_closing("shutdown")
            await b.up.order(Start(session_id=key))
            await b.up.close()
            assert await process.ends() == 0
        await nothing_left(b)


async def test_s50_stopping_the_tree_cuts_off_and_keeps_the_queue() -> None:
    async with bench() as b:
        root, child = await b.session(), await b.session()
        async with b.worker() as process:
            for key in (root, child):
                await b.deliver(key, "setsid; tool t; hold")
                await b.deliver(key, "say later")
                await b.up.seen(key, lambda f: f.pending_tools == 1 and f.queued == 1)
            number = b.up.begin(StopTree(session_id=b.root, cause="daemon stopped"))
            assert await process.ends() == 0
            await b.up.until(lambda: b.up.said_bye)
            kinds = [type(m) for m in b.up.said]
            assert isinstance(b.up.answer(number), OrderDone)
            assert kinds.index(Bye) == len(kinds) - 1
        await nothing_left(b)
        for key in (root, child):
            facts = b.up.facts[key]
            assert (facts.resident, facts.turn, facts.queued) == (False, None, 0)
            assert [s for _, s in await b.prompts(key)] == ["interrupted", "queued"]
            assert ends(b.written(key)) == [("interrupted", "daemon stopped")]
            row = await b.db.read(lambda t, k=key: sessions.get(t, k))
            assert (row.message_count, row.first_message) == (1, "setsid; tool t; hold")
        assert await b.db.read(lambda t: agent_sessions.open_of_tree(t, b.root)) == []
        row = await b.db.read(lambda t: workers.get(t, b.root))
        assert row.state == "starting", "its row is the supervisor's to change"


async def test_sigterm_is_a_stop_and_sigint_is_nothing() -> None:
    async with bench() as b:
        key = await b.session()
        async with b.worker() as process:
            await b.deliver(key, "hold")
            await b.up.seen(key, lambda f: f.turn)
            process.signal(signal.SIGINT)
            await b.up.order(Start(session_id=key))
            process.signal(signal.SIGTERM)
            assert await process.ends() == 0
            await b.up.until(lambda: b.up.said_bye)
        assert ends(b.written(key)) == [("interrupted", "terminated")]
        await nothing_left(b)


async def test_stopping_a_tree_whose_agent_hangs_in_its_start() -> None:
    async with bench("hang-initialize") as b:
        key = await b.session()
        async with b.worker() as process:
            await b.deliver(key, "say later")
            await b.up.seen(key, lambda f: f.agent_pid)
            await b.up.order(StopTree(session_id=b.root))
            assert await process.ends() == 0
        await nothing_left(b)
        assert [s for _, s in await b.prompts(key)] == ["queued"]
        row = await b.db.read(lambda t: sessions.get(t, key))
        assert row.exit_cause is None, "that it was stopped is no failure"
