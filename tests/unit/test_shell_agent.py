"""The built-in agent as a real process (spec 08.3): turns, permission, cancel, history, leaving."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from acp import schema as sdk

from agents_view.acp import schema
from agents_view.acp.rpc import IncomingRequest, RpcError, RpcPeer
from agents_view.agents.command import HEAD, TAIL, Output
from agents_view.agents.history import Exchange, History
from agents_view.base import processes
from agents_view.base.child import Child, StderrLog, start_child
from agents_view.base.pipes import read_some
from agents_view.base.stopping import stop_child
from tests.support.homes import environment

ARGV = (sys.executable, "-m", "agents_view.agents.shell")
TAG = ("AGENTS_VIEW_SESSION_ID", "test-shell-agent")


class Shell:
    """A client of one agent process; every message of its is kept."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.updates: list[dict] = []
        self.asked: asyncio.Queue[IncomingRequest] = asyncio.Queue()
        self.news = asyncio.Event()
        self.peer = RpcPeer(child.read, child.write, self, 64 << 20)
        self.session = ""

    def on_notification(self, method: str, params: bytes) -> None:
        sdk.SessionNotification.model_validate_json(params)
        self.updates.append(json.loads(params)["update"])
        self.news.set()

    def on_request(self, method: str, request: IncomingRequest) -> None:
        sdk.RequestPermissionRequest.model_validate_json(request.params)
        self.asked.put_nowait(request)

    def on_noise(self, text: str) -> None:
        raise AssertionError(f"no message: {text}")

    def on_closed(self, reason: str) -> None:
        self.news.set()

    async def new(self, cwd: Path) -> str:
        raw = await self.peer.request("session/new", schema.NewSession(cwd=str(cwd)), 20)
        return sdk.NewSessionResponse.model_validate_json(raw).session_id

    async def load(self, session: str, cwd: Path) -> None:
        request = schema.LoadSession(session_id=session, cwd=str(cwd))
        await self.peer.request("session/load", request, 20)

    async def prompt(self, text: str, session: str = "") -> str:
        """The stop reason of one turn."""
        blocks = (schema.TextBlock(text=text),)
        request = schema.Prompt(session_id=session or self.session, prompt=blocks)
        raw = await self.peer.request("session/prompt", request, 20)
        return sdk.PromptResponse.model_validate_json(raw).stop_reason

    def cancel(self) -> None:
        self.peer.notify("session/cancel", schema.Cancel(session_id=self.session))

    def said(self) -> list[str]:
        return [
            u["content"]["text"] for u in self.updates if u["sessionUpdate"].endswith("e_chunk")
        ]

    def tools(self) -> list[dict]:
        return [u for u in self.updates if u["sessionUpdate"].startswith("tool_call")]

    async def first_line(self) -> str:
        """What the running command printed first."""
        async with asyncio.timeout(20):
            while not (shown := [t for t in self.tools() if t.get("content")]):
                self.news.clear()
                await self.news.wait()
        return output_of(shown[0]).split("\n")[0]


def output_of(tool: dict) -> str:
    return tool["content"][0]["content"]["text"]


@asynccontextmanager
async def started(tmp_path: Path) -> AsyncIterator[Child]:
    env = environment(tmp_path, AGENTS_VIEW_SHELL_HISTORY=str(tmp_path / "history"))
    log = StderrLog(None, 1000, 5)
    child = await start_child(ARGV, cwd="/", env=env | dict([TAG]), stderr=log)
    try:
        yield child
    finally:
        await stop_child(child, 5, TAG)


@asynccontextmanager
async def shell(tmp_path: Path, load: str = "") -> AsyncIterator[Shell]:
    """An agent with one session in `tmp_path`, new or loaded."""
    async with started(tmp_path) as child:
        client = Shell(child)
        talking = asyncio.create_task(client.peer.run())
        info = schema.Implementation(name="test", version="1")
        hello = schema.Initialize(protocol_version=1, client_info=info)
        raw = await client.peer.request("initialize", hello, 20)
        assert sdk.InitializeResponse.model_validate_json(raw).agent_capabilities.load_session
        if load:
            await client.load(load, tmp_path)
        client.session = load or await client.new(tmp_path)
        yield client
        child.close_stdin()
        async with asyncio.timeout(20):
            await talking


# --- a turn


async def test_8_3_a_command_is_a_tool_call_with_output_exit_code_and_text(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        assert await client.prompt("pwd; echo done") == "end_turn"
    first, last = client.tools()[0], client.tools()[-1]
    assert (first["kind"], first["title"], first["status"]) == (
        "execute",
        "pwd; echo done",
        "in_progress",
    )
    assert (last["toolCallId"], last["status"]) == (first["toolCallId"], "completed")
    assert output_of(last) == f"{tmp_path}\ndone\n" and last["rawOutput"] == {"exitCode": 0}
    assert client.said() == [f"{tmp_path}\ndone"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("echo no; exit 3", "no\nexit 3"),
        ("exit 7", "exit 7"),
        ("kill -9 $$", "killed by signal 9"),
        ("true", None),
        ("cat", None),  # a command that reads gets nothing, at once
        ("cd / && true", None),
    ],
)
async def test_8_3_the_end_is_reported_in_the_text(
    tmp_path: Path, line: str, text: str | None
) -> None:
    async with shell(tmp_path) as client:
        assert await client.prompt(line) == "end_turn"
        assert client.said() == ([text] if text else [])
        assert client.tools()[-1]["status"] == ("completed" if text is None else "failed")
        # each prompt starts where the session is
        await client.prompt("pwd")
        assert client.said()[-1] == str(tmp_path)


@pytest.mark.parametrize(
    "line", ["echo \0x", "echo \x1b[31m\udcff".encode("utf-8", "replace").decode()]
)
async def test_a_strange_command_line_is_answered(tmp_path: Path, line: str) -> None:
    async with shell(tmp_path) as client:
        assert await client.prompt(line) == "end_turn"
        assert client.said()
        await client.prompt("echo next")
        assert client.said()[-1] == "next"


async def test_a10_a_directory_that_went_away_is_said(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        gone = tmp_path / "gone"
        gone.mkdir()
        session = await client.new(gone)
        gone.rmdir()
        assert await client.prompt("echo x", session) == "end_turn"
        assert "cannot run it" in client.said()[-1] and str(gone) in client.said()[-1]
        assert client.tools()[-1]["status"] == "failed"
        with pytest.raises(RpcError, match="no directory"):
            await client.new(gone)


async def test_output_grows_while_it_runs_at_most_ten_times_a_second(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        began = asyncio.get_running_loop().time()
        await client.prompt("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.05; done")
        seconds = asyncio.get_running_loop().time() - began
    shown = [output_of(tool) for tool in client.tools() if tool.get("content")]
    assert 2 <= len(shown) <= seconds * 10 + 2
    # content replaces content: each update holds what the one before held
    assert all(late.startswith(early) for early, late in zip(shown, shown[1:], strict=False))
    assert shown[-1] == "".join(f"{i}\n" for i in range(1, 10))


async def test_long_output_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        await client.prompt("echo first; yes | head -c 3000000; echo; echo last")
    *live, last = [output_of(tool) for tool in client.tools() if tool.get("content")]
    assert all(len(text) <= 64 << 10 for text in live)
    assert last.startswith("first\n") and last.endswith("last\n") and "bytes left out" in last
    assert len(last) <= HEAD + TAIL + (64 << 10) + 100
    assert len(client.said()[0]) <= 4000


def test_output_counts_what_it_leaves_out() -> None:
    output = Output()
    for _ in range(40):
        output.feed(b"x" * 100_000)
    text = output.text()
    (cut,) = [line for line in text.split("\n") if "left out" in line]
    assert text.count("x") + int(cut.split()[1]) == 4_000_000


async def test_a3_a_second_turn_of_a_session_is_refused(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        first = asyncio.create_task(client.prompt("echo on; exec sleep 1000"))
        await client.first_line()
        with pytest.raises(RpcError, match="runs already"):
            await client.prompt("echo second")
        with pytest.raises(RpcError, match="runs here"):
            await client.load(client.session, tmp_path)
        client.cancel()
        assert await first == "cancelled"


async def test_many_sessions_run_at_once(tmp_path: Path) -> None:
    """More than a pool of threads has."""
    async with shell(tmp_path) as client:
        sessions = [await client.new(tmp_path) for _ in range(12)]
        turns = [asyncio.create_task(client.prompt("exec sleep 1000", one)) for one in sessions]
        assert await client.prompt("echo free") == "end_turn"
        assert client.said() == ["free"]
        for one in sessions:
            client.peer.notify("session/cancel", schema.Cancel(session_id=one))
        assert set(await asyncio.gather(*turns)) == {"cancelled"}


async def test_a_background_process_outlives_the_turn_and_its_pipe(tmp_path: Path) -> None:
    """A closed pipe would end it at its next word; an open one must not hold the turn."""
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "back")
    back = os.open(tmp_path / "back", os.O_RDWR | os.O_NONBLOCK)
    try:
        async with shell(tmp_path) as client:
            line = "(read x <go; echo noise; echo alive >back) & echo started"
            assert await client.prompt(line) == "end_turn"
            assert client.said() == ["started"]
            go = os.open(tmp_path / "go", os.O_RDWR)
            os.write(go, b"\n")
            async with asyncio.timeout(20):
                assert await read_some(back) == b"alive\n"
            os.close(go)
    finally:
        os.close(back)


# --- permission


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("once", "yes"),
        ("always", "yes"),
        ("no", "not run: echo yes"),
        ("never", "not run: echo yes"),
    ],
)
async def test_8_3_a_question_mark_asks_first(tmp_path: Path, option: str, said: str) -> None:
    async with shell(tmp_path) as client:
        turn = asyncio.create_task(client.prompt("? echo yes"))
        request = await client.asked.get()
        asked = msgspec.json.decode(request.params, type=schema.RequestPermission)
        assert asked.tool_call is not None and asked.tool_call.title == "echo yes"
        kinds = {one.option_id: one.kind for one in asked.options or ()}
        assert sorted(kinds.values()) == [
            "allow_always",
            "allow_once",
            "reject_always",
            "reject_once",
        ]
        outcome = schema.Outcome(outcome="selected", option_id=option)
        request.respond(schema.PermissionOutcome(outcome=outcome))
        assert await turn == "end_turn"
        assert client.said() == [said]
        again = asyncio.create_task(client.prompt("?echo again"))
        if kinds[option].endswith("always"):
            await again  # remembered by this process
            assert client.asked.empty()
        else:
            (await client.asked.get()).respond(None)  # no outcome: not allowed
            await again
        assert client.said()[-1] == ("again" if option == "always" else "not run: echo again")


async def test_a_refused_question_does_not_hold_the_turn(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        turn = asyncio.create_task(client.prompt("?echo x"))
        (await client.asked.get()).fail(-32601, "no such method")
        assert await turn == "end_turn"
        assert "no such method" in client.said()[-1]


async def test_a13_a_cancel_ends_a_question(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        turn = asyncio.create_task(client.prompt("?touch made"))
        request = await client.asked.get()
        client.cancel()
        assert await turn == "cancelled"
        chosen = schema.Outcome(outcome="selected", option_id="once")
        request.respond(schema.PermissionOutcome(outcome=chosen))
        await client.prompt("echo next")
        assert not (tmp_path / "made").exists()


async def test_a13_a_cancel_that_crosses_the_permission_wins(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        turn = asyncio.create_task(client.prompt("?touch made"))
        request = await client.asked.get()
        chosen = schema.Outcome(outcome="selected", option_id="once")
        request.respond(schema.PermissionOutcome(outcome=chosen))
        client.cancel()
        assert await turn in ("cancelled", "end_turn")
        assert (await client.prompt("echo next")) == "end_turn"
        assert client.said()[-1] == "next"


# --- cancel


async def test_a_cancel_right_behind_its_prompt_is_not_lost(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        turn = asyncio.ensure_future(client.prompt("exec sleep 1000"))
        await asyncio.sleep(0)  # the prompt is in the outbox, the cancel follows in the same write
        client.cancel()
        assert await turn == "cancelled"


async def test_a_cancel_ends_the_group_even_if_it_ignores_term(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        line = "trap '' TERM; sh -c 'echo $$; while :; do sleep 1000; done'"
        turn = asyncio.create_task(client.prompt(line))
        inner = processes.identify(int(await client.first_line()))
        assert inner is not None
        client.cancel()
        assert await turn == "cancelled"
        assert not processes.is_alive(inner)


async def test_a_cancel_outside_a_turn_means_nothing(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        client.cancel()
        assert await client.prompt("echo x") == "end_turn"


# --- history


async def test_8_3_a_session_is_loaded_after_kill_9(tmp_path: Path) -> None:
    async with started(tmp_path) as child:
        client = Shell(child)
        talking = asyncio.create_task(client.peer.run())
        client.session = await client.new(tmp_path)
        await client.prompt("echo one")
        await client.prompt("echo two; exit 4")
        running = asyncio.ensure_future(client.prompt("echo on; exec sleep 1000"))
        await client.first_line()
        processes.signal(child.identity, signal.SIGKILL)
        await talking
        await asyncio.gather(running, return_exceptions=True)
    path = tmp_path / "history" / f"{client.session}.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    with path.open("ab") as file:
        file.write(b'\n{"tool_id":"torn","pro')  # as a kill in the middle of a write leaves it
    async with shell(tmp_path, load=client.session) as again:
        kinds = [update["sessionUpdate"] for update in again.updates]
        assert kinds == ["user_message_chunk", "tool_call", "agent_message_chunk"] * 3
        assert again.said()[1::2] == ["one", "two\nexit 4", "interrupted"]
        assert [tool["status"] for tool in again.tools()] == ["completed", "failed", "failed"]
        assert again.tools()[1]["rawOutput"] == {"exitCode": 4}
        assert await again.prompt("echo after") == "end_turn"


@pytest.mark.parametrize("name", ["nobody", "../history/x", "", "a/b", "x" * 300])
async def test_only_sessions_of_ours_are_loaded(tmp_path: Path, name: str) -> None:
    async with shell(tmp_path) as client:
        with pytest.raises(RpcError):
            await client.load(name, tmp_path)
        assert await client.prompt("echo x") == "end_turn"


async def test_a_history_that_cannot_be_written_stops_no_command(tmp_path: Path) -> None:
    async with shell(tmp_path) as client:
        folder = tmp_path / "history"
        folder.rename(tmp_path / "elsewhere")
        assert await client.prompt("echo x") == "end_turn"
        assert client.said() == ["x"]


def test_a_long_history_is_read_from_its_end_and_cut(tmp_path: Path) -> None:
    history = History(tmp_path, "s")
    history.create()
    for number in range(200):
        history.add(Exchange(tool_id=str(number), prompt="p", output="x" * 200_000))
    path = tmp_path / "s.jsonl"
    assert path.stat().st_size > 8 << 20
    found = list(history.read())
    assert found[-1].tool_id == "199" and 30 < len(found) < 100
    assert all(len(exchange.output) <= (64 << 10) + 1 for exchange in found)
    assert path.stat().st_size <= 4 << 20 and path.stat().st_mode & 0o777 == 0o600
    assert [e.tool_id for e in history.read()] == [e.tool_id for e in found]


# --- leaving


@pytest.mark.parametrize("how", ["eof", "term"])
async def test_leaving_ends_what_runs_quickly(tmp_path: Path, how: str) -> None:
    async with started(tmp_path) as child:
        client = Shell(child)
        talking = asyncio.create_task(client.peer.run())
        client.session = await client.new(tmp_path)
        turn = asyncio.ensure_future(client.prompt("echo $$; exec sleep 1000"))
        command = processes.identify(int(await client.first_line()))
        assert command is not None
        if how == "eof":
            child.close_stdin()
        else:
            processes.signal(child.identity, signal.SIGTERM)
        assert await child.wait(10) == 0
        assert not processes.is_alive(command)
        await talking
        await asyncio.gather(turn, return_exceptions=True)


async def test_leaving_waits_for_nobody_who_does_not_read(tmp_path: Path) -> None:
    async with started(tmp_path) as child:
        new = b'{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'
        await child.write(new)
        session = json.loads(await child.read())["result"]["sessionId"]
        block = {"type": "text", "text": "yes | head -c 4000000"}
        params = {"sessionId": session, "prompt": [block]}
        message = {"id": 2, "method": "session/prompt", "params": params}
        await child.write(json.dumps(message).encode() + b"\n")
        await child.read()  # it has begun to talk, and nobody reads on
        child.close_stdin()
        assert await child.wait(10) == 0


def test_its_input_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_text('{"id":1,"method":"initialize","params":{}}\nnoise\n{"id":2}\n')
    with (tmp_path / "in").open() as stdin:
        done = subprocess.run(
            ARGV, stdin=stdin, capture_output=True, timeout=20, env=environment(tmp_path)
        )
    assert done.returncode == 0 and b"noise" in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["result"]["protocolVersion"] == 1


def test_it_starts_without_what_it_does_not_need() -> None:
    code = "import sys, agents_view.agents.shell; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert not {"textual", "rich", "psutil", "sqlite3", "acp"} & set(done.stdout.split())
