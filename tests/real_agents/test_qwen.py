"""Qwen Code through the real daemon, against a scripted model (`make real-agents`)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agents_view.base.settings import Settings
from agents_view.tui.app import AgentsView
from daemon_client import DaemonClient
from daemon_client.connection import Connection
from daemon_client.paths import paths_for
from daemon_client.protocol.replies import PendingRequest
from daemon_client.protocol.transcript import MessageEntry, NoticeEntry, TurnEndEntry
from daemon_client.roster import RosterRow
from daemon_client.status import section_of
from tests.support.homes import processes_of, until
from tests.support.loopback_model import GREETING, Exchange, LoopbackModel

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(40)]

_STEP = 20.0
"""Seconds for one step of a test: an agent needs one to start, the machine may be busy."""


class Talk:
    """One Qwen session: what a test says to it, and what it sees."""

    def __init__(self, client: DaemonClient, home: Path, environ: dict[str, str]) -> None:
        self.client, self.home, self.environ = client, home, environ
        self.session_id = ""
        self.turns = 0

    async def start(self, prompt: str) -> None:
        """A new session; it works on `prompt` when this returns."""
        row = await self.client.sessions.create(
            "qwen", str(self.home / "work"), prompt=prompt, environ=self.environ
        )
        self.session_id = row.session_id
        self.turns = 1

    async def say(self, prompt: str) -> None:
        await self.client.conversation.prompt(self.session_id, prompt)
        self.turns += 1

    async def entries(self, kind: type) -> list:
        page = await self.client.conversation.transcript(self.session_id, limit=1000)
        return [entry for entry in page.entries if isinstance(entry, kind)]

    async def ended(self) -> str:
        """Wait for the end of the last turn; its stop reason."""
        async with asyncio.timeout(_STEP):
            while len(ends := await self.entries(TurnEndEntry)) < self.turns:
                await asyncio.sleep(0.05)
        await until(self.client, self.session_id, lambda r: r is not None and r.turn is None)
        return ends[-1].stop_reason

    async def said(self) -> str:
        return "".join(entry.text for entry in await self.entries(MessageEntry))

    async def asked(self) -> PendingRequest:
        """Wait for a request for permission."""
        await until(self.client, self.session_id, lambda r: r is not None and bool(r.waiting), 20)
        (request,) = await self.client.conversation.pending(self.session_id)
        return request

    def processes(self) -> list[psutil.Process]:
        return [p for p in processes_of(self.home) if any("qwen" in w for w in p.cmdline())]


@pytest.fixture
def talk(client: DaemonClient, home: Path, environ: dict[str, str]) -> Talk:
    return Talk(client, home, environ)


def option(request: PendingRequest, kind: str) -> str:
    """The id of the first option of a kind; agents order and name them as they like."""
    return next(each.id for each in request.options if each.kind == kind)


async def seen(condition: Callable[[], bool]) -> None:
    """Wait for something that sends no events (files, the model's own record)."""
    async with asyncio.timeout(_STEP):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_prompt_is_answered(talk: Talk) -> None:
    await talk.start("HELLO there")
    assert await talk.ended() == "end_turn"
    assert await talk.said() == "".join(GREETING)
    row = talk.client.mirror.get(talk.session_id)
    assert isinstance(row, RosterRow) and section_of(row) == "idle"


async def test_a_tool_runs_after_permission(talk: Talk, home: Path) -> None:
    await talk.start("RUN `echo made-it > proof.txt && cat proof.txt`")
    request = await talk.asked()
    assert "proof.txt" in request.command
    assert not (home / "work" / "proof.txt").exists()
    await talk.client.conversation.answer(
        talk.session_id, request.request_id, option(request, "allow_once")
    )
    assert await talk.ended() == "end_turn"
    assert (home / "work" / "proof.txt").read_text() == "made-it\n"
    assert "made-it" in await talk.said()


async def test_the_board_answers_a_permission(talk: Talk, home: Path) -> None:
    await talk.start("RUN `echo from-the-board > proof.txt`")
    await talk.asked()
    app = AgentsView(DaemonClient(Connection(paths_for(home).socket)), Settings(), ticking=False)
    async with app.run_test(size=(100, 30)) as pilot:
        async with asyncio.timeout(_STEP):
            while not app.client.mirror.complete or not app.screen.roster.selected_session:
                await pilot.pause(0.05)
        await pilot.press("exclamation_mark")
        await pilot.pause(app.settings.ui.key_guard + 0.3)
        await pilot.press("a")
        assert await talk.ended() == "end_turn"
    await app.client.connection.close()
    assert (home / "work" / "proof.txt").read_text() == "from-the-board\n"


async def test_a_rejected_tool_does_not_run(talk: Talk, home: Path) -> None:
    await talk.start("RUN `touch never.txt`")
    request = await talk.asked()
    await talk.client.conversation.answer(
        talk.session_id, request.request_id, option(request, "reject_once")
    )
    await talk.ended()
    assert not (home / "work" / "never.txt").exists()
    await talk.say("HELLO again")
    assert await talk.ended() == "end_turn"


async def test_cancel_in_mid_stream_aborts_the_stream(talk: Talk, model: LoopbackModel) -> None:
    def streams() -> list[Exchange]:
        return [each for each in model.exchanges_for("SLOW") if each.sent >= 3]

    await talk.start("SLOW 300")
    await seen(lambda: bool(streams()))
    await talk.client.conversation.cancel_turn(talk.session_id)
    assert await talk.ended() == "cancelled"
    await seen(lambda: all(each.aborted for each in streams()))
    await talk.say("HELLO after that")
    assert await talk.ended() == "end_turn"
    assert (await talk.said()).endswith("".join(GREETING))


async def test_a_model_error_ends_the_turn_and_nothing_else(talk: Talk) -> None:
    await talk.start("FAIL 400")
    assert await talk.ended() != "cancelled"
    await talk.say("HELLO after that")
    assert await talk.ended() == "end_turn"


async def test_a_killed_agent_comes_back_with_its_memory(talk: Talk) -> None:
    await talk.start("REMEMBER aubergine")
    assert await talk.ended() == "end_turn"
    killed = {process.pid for process in talk.processes()}
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    await until(talk.client, talk.session_id, lambda r: r is not None and bool(r.exit_cause))
    await talk.say("RECALL")
    assert await talk.ended() == "end_turn"
    assert (await talk.said()).endswith("You told me: aubergine.")
    assert not [e for e in await talk.entries(NoticeEntry) if "without memory" in e.text]


async def test_stopping_the_session_leaves_no_process(talk: Talk) -> None:
    await talk.start("SLOW 300")
    await seen(lambda: bool(talk.processes()))
    await talk.client.sessions.stop(talk.session_id)
    await until(talk.client, talk.session_id, lambda r: r is not None and not r.resident)
    await seen(lambda: not talk.processes())
