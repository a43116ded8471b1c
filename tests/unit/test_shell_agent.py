"""The built-in `shell` agent as a real process (08.3), driven by the SDK's own client and ours.

What the SDK understands without a complaint is ACP; its client is strict where ours is tolerant.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema as sdk

from agents_view.acp.client import Launch, launch
from agents_view.base import processes
from agents_view.base.settings import AgentLimits
from tests.support.homes import environment, eventually
from tests.unit.test_acp_client import Recorder

ARGV = (sys.executable, "-m", "agents_view.agents.shell")


class SdkClient(acp.Client):
    """The SDK's side: keeps updates, answers permissions with `choice`."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.choice: str | None = "once"
        self.news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append((session_id, update))
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> sdk.RequestPermissionResponse:
        self.asked.append((session_id, tool_call, options))
        self.news.set()
        if self.choice is None:
            return sdk.RequestPermissionResponse(outcome=sdk.DeniedOutcome(outcome="cancelled"))
        chosen = sdk.AllowedOutcome(outcome="selected", option_id=self.choice)
        return sdk.RequestPermissionResponse(outcome=chosen)

    def of(self, kind: str, session_id: str | None = None) -> list[Any]:
        return [
            update
            for session, update in self.updates
            if update.session_update == kind and session_id in (None, session)
        ]

    def said(self, session_id: str | None = None) -> list[str]:
        return [update.content.text for update in self.of("agent_message_chunk", session_id)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.news.clear()
                await self.news.wait()


class Agent:
    """The process, the SDK's connection to it, and what came back."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.client = SdkClient()
        self.connection = acp.connect_to_agent(self.client, process.stdin, process.stdout)

    async def open(self, cwd: Path) -> str:
        await self.connection.initialize(protocol_version=1)
        return (await self.connection.new_session(cwd=str(cwd), mcp_servers=[])).session_id

    async def prompt(self, session_id: str, text: str) -> str:
        block = sdk.TextContentBlock(type="text", text=text)
        async with asyncio.timeout(20):
            answer = await self.connection.prompt(session_id=session_id, prompt=[block])
        return answer.stop_reason


@asynccontextmanager
async def shell(tmp_path: Path) -> AsyncIterator[Agent]:
    pipe = subprocess.PIPE
    env = environment(tmp_path) | {"AGENTS_VIEW_SHELL_HISTORY": str(tmp_path / "history")}
    process = await asyncio.create_subprocess_exec(
        *ARGV, stdin=pipe, stdout=pipe, stderr=None, env=env, cwd="/"
    )
    agent = Agent(process)
    try:
        yield agent
    finally:
        await agent.connection.close()
        if process.returncode is None and process.stdin is not None:
            process.stdin.close()
        async with asyncio.timeout(20):
            await process.wait()


async def test_it_says_what_it_can(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        answer = await agent.connection.initialize(protocol_version=1)
        assert answer.protocol_version == 1
        assert answer.agent_capabilities.load_session is True
        assert answer.agent_info.name == "shell"


async def test_a_prompt_is_a_command_in_the_sessions_directory(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "pwd; echo err >&2") == "end_turn"
        (call,) = agent.client.of("tool_call")
        assert (call.title, call.kind, call.status) == (
            "pwd; echo err >&2",
            "execute",
            "in_progress",
        )
        last = agent.client.of("tool_call_update")[-1]
        assert (last.tool_call_id, last.status) == (call.tool_call_id, "completed")
        assert last.raw_output == {"exitCode": 0}
        assert last.content[0].content.text == f"{tmp_path}\nerr\n"
        assert agent.client.said() == [f"{tmp_path}\nerr"]


async def test_output_is_streamed_while_it_comes(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        turn = asyncio.create_task(agent.prompt(session, "echo early; read x < go"))
        os.mkfifo(tmp_path / "go")
        shown = agent.client

        def early() -> bool:
            updates = shown.of("tool_call_update")
            return any("early" in u.content[0].content.text for u in updates if u.content)

        await shown.until(early)
        assert not turn.done()
        await asyncio.to_thread((tmp_path / "go").write_text, "x\n")
        assert await turn == "end_turn"


@pytest.mark.parametrize(
    ("command", "said", "status"),
    [
        ("echo x; exit 3", "x\nexit 3", "failed"),
        ("kill -9 $$", "killed by signal 9", "failed"),
        ("no-such-command-here 2>/dev/null", "exit 127", "failed"),
        ("true", None, "completed"),
    ],
)
async def test_how_it_ended_is_in_the_text(
    tmp_path: Path, command: str, said: str | None, status: str
) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, command) == "end_turn"
        assert agent.client.said() == ([said] if said else [])
        assert agent.client.of("tool_call_update")[-1].status == status


@pytest.mark.parametrize(
    ("choice", "runs", "asked_again"),
    [("once", True, True), ("always", True, False), ("no", False, True), ("never", False, False)],
)
async def test_a5_a_question_mark_asks_first(
    tmp_path: Path, choice: str, runs: bool, asked_again: bool
) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        agent.client.choice = choice
        for _ in range(2):
            assert await agent.prompt(session, "?echo ran >> out") == "end_turn"
        out = tmp_path / "out"
        assert (out.read_text() if out.exists() else "") == "ran\n" * (2 if runs else 0)
        assert len(agent.client.asked) == (2 if asked_again else 1)
        _, call, options = agent.client.asked[0]
        assert call.raw_input == {"command": "echo ran >> out"}
        assert [o.kind for o in options] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        ]


async def test_a13_a_permission_that_is_cancelled_runs_nothing(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        agent.client.choice = None
        assert await agent.prompt(session, "?touch out") in ("end_turn", "cancelled")
        assert not (tmp_path / "out").exists()


async def test_cancel_ends_the_whole_group_also_what_ignores_term(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        script = "trap '' TERM; sleep 1000 & sleep 1000 & echo on; wait; wait; sleep 1000"
        turn = asyncio.create_task(agent.prompt(session, script))
        await agent.client.until(lambda: bool(agent.client.of("tool_call_update")))
        below = processes.descendants(agent.process.pid)
        assert len(below) == 3
        await agent.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        await eventually(lambda: not any(processes.is_alive(one) for one in below))
        assert "cancelled" in agent.client.said()[-1]
        assert await agent.prompt(session, "echo again") == "end_turn"


async def test_several_sessions_run_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with shell(tmp_path) as agent:
        one, two = await agent.open(tmp_path / "a"), await agent.open(tmp_path / "b")
        os.mkfifo(tmp_path / "go")
        turn = asyncio.create_task(agent.prompt(one, "pwd; read x < ../go"))
        await agent.prompt(two, "pwd; echo x > ../go")
        await turn
        assert agent.client.said(one) == [f"{tmp_path / 'a'}"]
        assert agent.client.said(two) == [f"{tmp_path / 'b'}"]


async def test_load_brings_the_history_back_after_kill_9_with_a_torn_line(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        await agent.prompt(session, "echo one")
        await agent.prompt(session, "exit 4")
        agent.process.send_signal(signal.SIGKILL)
        await agent.process.wait()
    (history,) = (tmp_path / "history").iterdir()
    assert history.stat().st_mode & 0o777 == 0o600
    with history.open("ab") as file:
        file.write(b'\n{"tool_id":"torn","prompt":"echo tor')
    async with shell(tmp_path) as agent:
        await agent.connection.initialize(protocol_version=1)
        await agent.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert await agent.prompt(session, "echo three") == "end_turn"
        users = [u.content.text for u in agent.client.of("user_message_chunk")]
        assert users == ["echo one", "exit 4"]
        assert agent.client.said() == ["one", "exit 4", "three"]
        statuses = [u.status for u in agent.client.of("tool_call")]
        assert statuses == ["completed", "failed", "in_progress"]


@pytest.mark.parametrize("wrong", ["nobody", "../../etc/passwd", ""])
async def test_an_unknown_session_is_refused(tmp_path: Path, wrong: str) -> None:
    async with shell(tmp_path) as agent:
        await agent.open(tmp_path)
        with pytest.raises(acp.RequestError):
            await agent.connection.load_session(cwd=str(tmp_path), session_id=wrong, mcp_servers=[])
        with pytest.raises(acp.RequestError):
            await agent.prompt(wrong, "echo x")


async def test_unknown_methods_and_bad_params_are_errors_and_no_end(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        with pytest.raises(acp.RequestError, match="Method not found"):
            await agent.connection.set_session_mode(session_id=session, mode_id="x")
        with pytest.raises(acp.RequestError):
            await agent.connection.new_session(cwd=str(tmp_path / "gone"), mcp_servers=[])
        assert await agent.prompt(session, "echo fine") == "end_turn"


async def test_a15_the_end_of_input_ends_what_runs(tmp_path: Path) -> None:
    async with shell(tmp_path) as agent:
        session = await agent.open(tmp_path)
        turn = asyncio.create_task(agent.prompt(session, "echo on; sleep 1000 & sleep 1000"))
        await agent.client.until(lambda: bool(agent.client.of("tool_call_update")))
        below = processes.descendants(agent.process.pid)
        assert below
        agent.process.stdin.close()
        async with asyncio.timeout(10):
            assert await agent.process.wait() == 0
        await eventually(lambda: not any(processes.is_alive(one) for one in below))
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)


async def test_our_own_client_drives_it_too(tmp_path: Path) -> None:
    """Over `AgentClient`: a big output is bounded, and a background child keeps no turn open."""
    events = Recorder()
    env = environment(tmp_path) | {"AGENTS_VIEW_SHELL_HISTORY": str(tmp_path / "history")}
    client = await launch(Launch(argv=ARGV, cwd="/", env=env), events, AgentLimits())
    try:
        await client.initialize("1")
        await client.new_session()
        async with asyncio.timeout(20):
            assert await client.prompt(["yes | head -c 3000000"]) == "end_turn"
            assert await client.prompt(["sleep 1000 & echo left one"]) == "end_turn"
        assert events.said().endswith("left one")
        assert sum(len(raw) for _, raw, _ in events.updates) < 30 << 20
        loaded = await client.reopen(client.session_id)
        assert loaded is not None and loaded[0] == "load"
    finally:
        report = await client.stop(("AGENTS_VIEW_SESSION_ID", "none"))
    assert report.complete
