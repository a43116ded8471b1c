"""kill -9 at random moments, many times: 0 lost, 0 repeated, never two workers (spec 10.2).

Run with `make reliability`; SEED=N replays a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from daemon_client import DaemonClient, DaemonError, ErrorCode, connect
from daemon_client.ids import new_id
from daemon_client.protocol.transcript import TurnEndEntry
from tests.daemon.test_crashes import kill, lines
from tests.daemon.test_sessions import entries, idle, new
from tests.support import homes
from tests.support.homes import until

pytestmark = [pytest.mark.reliability, pytest.mark.timeout(240)]


@pytest.fixture
def dice() -> random.Random:
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print("SEED", seed)
    return random.Random(seed)


async def test_supervisor_killed_30_times_in_one_turn(
    client, home: Path, tmp_path: Path, dice: random.Random
) -> None:
    out = tmp_path / "out"
    row = await new(client, "; ".join(f"echo {n} >> {out}; sleep 0.1" for n in range(200)))
    await until(client, row.session_id, lambda r: r.pending_tools == 1)
    workers = homes.workers_of(home)
    for _ in range(30):
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        kill(homes.supervisors_of(home))
        async with connect(home) as other:
            await other.follow()
            assert other.mirror.get(row.session_id).worker_pid == workers[0]
        assert homes.workers_of(home) == workers
    await until(client, row.session_id, idle, within=60)
    assert lines(out) == [str(n) for n in range(200)]
    ends = [e for e in await entries(client, row.session_id) if isinstance(e, TurnEndEntry)]
    assert [e.stop_reason for e in ends] == ["end_turn"]


async def accepted(client: DaemonClient, session_id: str, text: str) -> str:
    """Send as a patient person would: after a refusal again, under the same id."""
    key = new_id()
    for _ in range(8):
        try:
            await client.conversation.prompt(session_id, text, prompt_id=key)
            return key
        except DaemonError as error:
            assert error.code in (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT), error
            # the worker was killed four times in a row: it waits for somebody to say "again"
            with contextlib.suppress(DaemonError):
                await client.sessions.retry(session_id)
    raise AssertionError("never accepted")


async def test_anything_killed_100_times_runs_every_prompt_at_most_once(
    client, home: Path, tmp_path: Path, dice: random.Random
) -> None:
    """Whoever sends prompts gets each accepted once; what was not cut off has run exactly once."""
    out = tmp_path / "out"
    row = await new(client, f"echo begin >> {out}")
    sent = []
    for number in range(100):
        sent.append(await accepted(client, row.session_id, f"echo {number} >> {out}"))
        await asyncio.sleep(dice.uniform(0.0, 0.15))
        victims = homes.supervisors_of(home) if dice.random() < 0.5 else homes.workers_of(home)
        kill(victims)
        assert len(homes.workers_of(home)) <= 1
    await client.sessions.retry(row.session_id)
    await until(client, row.session_id, lambda r: idle(r) and not r.queued, within=60)
    with sqlite3.connect(homes.database(home)) as db:
        states = dict(db.execute("SELECT prompt_id, state FROM prompts"))
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert set(sent) <= states.keys(), "an accepted prompt was lost"
    assert set(states.values()) <= {"done", "interrupted"}
    ran = Counter(lines(out))
    assert max(ran.values()) == 1, "a prompt ran twice"
    done = [str(n) for n, key in enumerate(sent) if states[key] == "done"]
    assert set(done) <= ran.keys(), "a finished prompt left no trace"
