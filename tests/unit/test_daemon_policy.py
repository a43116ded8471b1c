"""Pure rules of the daemon: who may what (07.3), crash restarts (05.6), deleting (R50, R51)."""

from __future__ import annotations

import typing

import msgspec
import pytest

from agents_view.daemon.policy.access import PERSON, Caller, refusal
from agents_view.daemon.policy.deletion import plan, title_of
from agents_view.daemon.policy.restarts import after_crash
from daemon_client.protocol import AnyCommand
from daemon_client.protocol import commands as c
from daemon_client.protocol.replies import QueuedPrompt
from daemon_client.roster import RosterRow

AGENT = Caller(session_id="s", root_id="tree")
ALL = typing.get_args(AnyCommand)
MAY = {c.Ping, c.RosterSubscribe, c.Spawn, c.Prompt, c.Attach, c.Detach, c.Transcript}


def any_of(kind: type) -> AnyCommand:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**dict.fromkeys(required, "x"))


@pytest.mark.parametrize("kind", ALL, ids=[kind.__name__ for kind in ALL])
def test_07_3_agents_may_little_and_people_everything(kind: type) -> None:
    command = any_of(kind)
    assert refusal(PERSON, command, "tree") is None
    why = refusal(AGENT, command, "tree")
    assert (why is None) == (kind in MAY), why


@pytest.mark.parametrize("kind", sorted(MAY - {c.Ping, c.RosterSubscribe}, key=str))
def test_07_3_an_agent_reaches_its_own_tree_only(kind: type) -> None:
    assert "another tree" in (refusal(AGENT, any_of(kind), "other") or "")


def test_05_6_three_delays_then_failed() -> None:
    delays, crashes = [], 0
    for _ in range(4):
        restart = after_crash(crashes, 1.0, (0.25, 1.0, 5.0), 600)
        crashes = restart.crashes
        delays.append(restart.delay)
    assert delays == [0.25, 1.0, 5.0, None]


def test_05_6_ten_minutes_of_health_reset_the_count() -> None:
    restart = after_crash(3, 600.0, (0.25, 1.0, 5.0), 600)
    assert (restart.crashes, restart.delay) == (1, 0.25)


ROW = RosterRow(session_id="a" * 32, name="triage", agent="shell", cwd="/w")


def test_r51_any_change_of_what_goes_along_changes_the_fingerprint() -> None:
    child = RosterRow(session_id="b", parent_id=ROW.session_id)
    working = RosterRow(session_id="b", parent_id=ROW.session_id, turn="thinking")
    queued = QueuedPrompt(prompt_id="p", text="then this")
    plans = [
        plan(ROW, [], [], "triage"),
        plan(ROW, [child], [], "triage"),
        plan(ROW, [working], [], "triage"),
        plan(ROW, [child], [queued], "triage"),
        plan(RosterRow(session_id=ROW.session_id, turn="writing"), [], [], "triage"),
    ]
    assert len({p.fingerprint for p in plans}) == len(plans)
    assert plan(ROW, [], [], "triage").fingerprint == plans[0].fingerprint


def test_r50_the_plan_names_what_goes_along() -> None:
    working = RosterRow(session_id="b", name="bisect", turn="tools")
    result = plan(ROW, [working], [QueuedPrompt(prompt_id="p", text="next\x1b[31m")], "triage")
    assert (result.subagents, result.subagents_working) == (1, ("bisect",))
    assert result.queued == ("next",)


def test_a_title_is_never_empty() -> None:
    assert title_of(RosterRow(session_id="0" * 24 + "deadbeef", agent="shell")) == "shell deadbeef"
