"""The session client against a real process that misbehaves (A2, A6, A8, A12–A14)."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from acp import schema as sdk

from agents_view.acp.client import (
    AgentClient,
    AgentError,
    Launch,
    PermissionAsked,
    find_program,
    launch,
)
from agents_view.acp.schema import Update
from agents_view.base import processes
from agents_view.base.settings import AgentLimits
from tests.support.homes import environment

ROOT = Path(__file__).parents[2]
LIMITS = AgentLimits(
    initialize_timeout=20,
    new_session_timeout=20,
    load_session_timeout=20,
    configure_timeout=20,
    stop_step=0.5,
)
TAG = ("AGENTS_VIEW_SESSION_ID", uuid.uuid4().hex)
"""Another one in each test process: what carries it is swept."""

SCHEMAS = {
    "initialize": sdk.InitializeRequest,
    "session/new": sdk.NewSessionRequest,
    "session/load": sdk.LoadSessionRequest,
    "session/resume": sdk.ResumeSessionRequest,
    "session/prompt": sdk.PromptRequest,
    "session/cancel": sdk.CancelNotification,
    "session/set_mode": sdk.SetSessionModeRequest,
    "session/set_config_option": sdk.SetSessionConfigOptionSelectRequest,
}


class Recorder:
    """AgentEvents that keep what they are told; permissions are answered by `decide`."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, bytes, bool]] = []
        self.asked: list[PermissionAsked] = []
        self.noise: list[str] = []
        self.closed: list[str] = []
        self.news = asyncio.Event()
        self.decide: Callable[[PermissionAsked], None] = lambda asked: None

    def on_update(self, update: Update, raw: bytes, *, replay: bool) -> None:
        self.updates.append((update.session_update, raw, replay))
        self.news.set()

    def on_permission(self, asked: PermissionAsked) -> None:
        self.asked.append(asked)
        self.decide(asked)
        self.news.set()

    def on_noise(self, text: str) -> None:
        self.noise.append(text)
        self.news.set()

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)
        self.news.set()

    def said(self) -> str:
        chunks = [json.loads(raw)["content"] for kind, raw, _ in self.updates if "message" in kind]
        return "".join(c["text"] for c in chunks if isinstance(c, dict))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def scripted(
    tmp_path: Path, *words: str, limits: AgentLimits = LIMITS
) -> AsyncIterator[tuple[AgentClient, Recorder]]:
    events = Recorder()
    words = (*words, f"log={tmp_path / 'sent'}")
    plan = Launch(
        argv=(sys.executable, "-m", "tests.support.scripted_agent", *words),
        cwd=str(ROOT),
        env=environment(tmp_path) | dict([TAG]),
        stderr_path=tmp_path / "stderr",
    )
    client = await launch(plan, events, limits)
    try:
        yield client, events
    finally:
        await client.stop(TAG)


@asynccontextmanager
async def opened(
    tmp_path: Path, *words: str, limits: AgentLimits = LIMITS
) -> AsyncIterator[tuple[AgentClient, Recorder]]:
    async with scripted(tmp_path, *words, limits=limits) as (client, events):
        await client.initialize("1")
        await client.new_session()
        yield client, events


def sent(tmp_path: Path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "sent").read_bytes().splitlines()]


def check_against_the_schema(messages: list[dict]) -> set[str]:
    """Every message of ours is what the SDK's schema says, with no field it does not know."""
    seen = set()
    for message in messages:
        assert message["jsonrpc"] == "2.0"
        name = message.get("method", "permission")
        kind = SCHEMAS.get(name, sdk.RequestPermissionResponse)
        body = message["params"] if "method" in message else message["result"]
        model = kind.model_validate(body)
        known = {field.alias or key for key, field in type(model).model_fields.items()}
        assert set(body) <= known, (name, set(body) - known)
        seen.add(name)
    return seen


async def test_a11_everything_we_send_is_valid_acp(tmp_path: Path) -> None:
    async with opened(tmp_path, "load", "resume-missing") as (client, events):
        events.decide = lambda asked: asked.select("just-once")
        await client.prompt(["quoted tail", "ask read"])
        events.decide = lambda asked: asked.cancel()
        assert await client.prompt(["ask edit"]) == "end_turn"
        turn = asyncio.ensure_future(client.prompt(["tool t; hold"]))
        await events.until(lambda: any(kind == "tool_call" for kind, _, _ in events.updates))
        client.cancel()
        assert await turn == "cancelled"
        assert (await client.reopen("earlier"))[0] == "load"
        for change in (client.set_mode("m"), client.set_config_option("o", "v")):
            with pytest.raises(AgentError, match="Method not found"):
                await change
    messages = sent(tmp_path)
    assert check_against_the_schema(messages) == {*SCHEMAS, "permission"}
    assert [m["result"]["outcome"] for m in messages if "result" in m] == [
        {"outcome": "selected", "optionId": "just-once"},
        {"outcome": "cancelled"},
    ]


async def test_a12_no_file_system_and_no_terminal_is_offered(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    offered = sent(tmp_path)[0]["params"]["clientCapabilities"]
    assert offered == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


async def test_a2_a_hang_in_initialize_is_named_with_its_last_words(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, initialize_timeout=1.5)
    async with scripted(tmp_path, "hang-initialize", limits=limits) as (client, _):
        with pytest.raises(AgentError) as caught:
            await client.initialize("1")
    assert caught.value.text().startswith("initialize: no answer within 1.5 s")
    assert caught.value.stderr == ("waiting for the licence server",)
    assert "scripted_agent hang-initialize" in caught.value.command


async def test_a2_a_hang_in_session_new_is_named(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, new_session_timeout=0.2)
    async with scripted(tmp_path, "hang-new", limits=limits) as (client, _):
        await client.initialize("1")
        with pytest.raises(AgentError, match=r"no answer within 0\.2 s") as caught:
            await client.new_session()
    assert caught.value.step == "session/new"


async def test_a2_an_agent_that_exits_at_once_says_code_and_last_lines(tmp_path: Path) -> None:
    async with scripted(tmp_path, "exit-at-once") as (client, _):
        with pytest.raises(AgentError) as caught:
            await client.initialize("1")
    text = caught.value.text()
    assert "exit code 7" in text
    assert "reason 0 / reason 1 / reason 2 / reason 3 / reason 4" in text
    assert (tmp_path / "stderr").stat().st_mode & 0o777 == 0o600


async def test_a2_a_missing_program_says_what_to_do(tmp_path: Path) -> None:
    plan = Launch(argv=("no-such-agent", "x"), cwd="/", env={"PATH": "/bin"}, hint="npm i it")
    with pytest.raises(AgentError, match="no-such-agent is not on PATH; npm i it"):
        await launch(plan, Recorder(), LIMITS)
    plain = tmp_path / "agent"
    plain.write_text("no program")
    for argv in ((str(plain),), ("agent",)):
        with pytest.raises(AgentError, match="agent is not executable"):
            await launch(
                Launch(argv=argv, cwd="/", env={"PATH": str(tmp_path)}), Recorder(), LIMITS
            )


async def test_a10_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    plan = Launch(argv=("sh",), cwd=str(tmp_path / "gone"), env={"PATH": "/bin:/usr/bin"})
    with pytest.raises(AgentError, match=r"directory is gone: .*/gone"):
        await launch(plan, Recorder(), LIMITS)


def test_the_first_executable_program_on_path_is_taken(tmp_path: Path) -> None:
    for name, mode in (("a", 0o644), ("b", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("")
        (tmp_path / name / "tool").chmod(mode)
    path = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    assert find_program("tool", {"PATH": path}) == str(tmp_path / "b" / "tool")
    assert find_program("tool", {"PATH": str(tmp_path / "a")}) == str(tmp_path / "a" / "tool")
    assert find_program("tool", {"PATH": "/nowhere"}) is None


async def test_auth_required_needs_a_login(tmp_path: Path) -> None:
    async with scripted(tmp_path, "auth") as (client, _):
        await client.initialize("1")
        with pytest.raises(AgentError, match="Authentication required") as caught:
            await client.new_session()
    assert caught.value.needs_login


async def test_a_model_error_is_no_login_and_the_agent_lives_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, events):
        with pytest.raises(AgentError, match=r"model overloaded \(400\)") as caught:
            await client.prompt(["error 400 model overloaded"])
        assert not caught.value.needs_login
        await client.prompt(["say again"])
        assert events.said() == "again"


async def test_a6_noise_and_odd_messages_are_kept_and_end_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, "banner", "string-ids") as (client, events):
        await client.prompt(["odd; utf8; wrong; unknown; meta still here"])
        kinds = [kind for kind, _, _ in events.updates]
    assert "Welcome to Scripted 1.0!" in events.noise
    assert "null" in events.noise and "{half" in events.noise
    assert "invalid UTF-8 in a message was replaced" in events.noise
    assert "bad \ufffd\ufffd bytes" in events.said() and events.said().endswith("still here")
    # A11: unknown kinds and wrong types are handed on raw, in order
    assert kinds == [
        "agent_message_chunk",
        "tool_call",
        "plan",
        "agent_message_chunk",
        "brand_new_kind",
        "usage_update",
        "agent_message_chunk",
    ]
    unknown = next(raw for kind, raw, _ in events.updates if kind == "brand_new_kind")
    assert json.loads(unknown)["payload"] == {"deep": [1, {"x": None}]}


async def test_a6_a_chunk_of_5_mb_arrives_whole(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, events):
        await client.prompt([f"chunk {5 << 20}"])
    assert len(events.said()) == 5 << 20


async def test_a6_a_line_over_the_limit_ends_it_with_that_reason(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, max_line=1 << 20)
    async with opened(tmp_path, limits=limits) as (client, events):
        with pytest.raises(AgentError, match="a line of more than 1048576 bytes"):
            await client.prompt([f"line {3 << 20}"])
        assert events.closed == ["it printed a line of more than 1048576 bytes"]


async def test_a6_stderr_never_blocks_the_agent_and_its_log_is_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path, "flood") as (client, _):
        await client.prompt(["stderr 300000"])
        assert client.child.stderr.lines()[-1] == "E" * 99
    assert (tmp_path / "stderr").stat().st_size <= LIMITS.stderr_log + 4096


async def test_a12_updates_after_the_answer_are_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, events):
        assert await client.prompt(["late hello"]) == "end_turn"
        await events.until(lambda: len(events.updates) == 2)
        assert events.said() == "hello"


@pytest.mark.parametrize(
    ("words", "expected", "noise"),
    [
        (("resume", "load"), "resume", 0),
        (("resume-missing", "load", "replay=50"), "load", 1),
        (("load", "replay=50"), "load", 0),
        (("resume-missing", "load-fails"), None, 2),
        (("load-fails",), None, 1),
        ((), None, 0),
    ],
)
async def test_a14_resume_then_load_then_neither(
    tmp_path: Path, words: tuple[str, ...], expected: str | None, noise: int
) -> None:
    async with scripted(tmp_path, *words) as (client, events):
        await client.initialize("1")
        back = await client.reopen("earlier")
        assert (back[0] if back else None) == expected
        assert len(events.noise) == noise
        # A4: what came while it loaded is history, all of it before the answer
        assert all(replay for _, _, replay in events.updates)
        assert len(events.updates) == (100 if "replay=50" in words else 0)
        if back is None:
            await client.new_session()
        assert client.session_id == ("earlier" if expected else client.session_id) != ""
        await client.prompt(["say live"])
        assert events.updates[-1][2] is False


async def test_an_agent_that_dies_in_a_turn_says_how(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, events):
        with pytest.raises(AgentError, match="it ended: exit code 3") as caught:
            await client.prompt(["say x; exit 3"])
        assert caught.value.stderr == ("about to go",)
        assert len(events.closed) == 1


async def test_an_end_between_turns_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, events):
        await client.prompt(["exit-after 0"])
        await events.until(lambda: bool(events.closed))
        assert await client.child.wait(5) == 0


async def test_what_the_agent_asks_that_we_do_not_offer_is_refused_in_time(tmp_path: Path) -> None:
    """An `fs/read_text_file` that nobody answers would hang the agent."""
    source = "import json,sys\nprint(json.dumps(dict(jsonrpc='2.0',id=1,method='fs/read_text_file',\
params={})),flush=True)\nprint(sys.stdin.readline(),file=sys.stderr,flush=True)\nsys.stdin.read()"
    plan = Launch(argv=(sys.executable, "-c", source), cwd="/", env=environment(tmp_path))
    client = await launch(plan, Recorder(), LIMITS)
    try:
        async with asyncio.timeout(20):
            while not client.child.stderr.lines():
                await asyncio.sleep(0.01)
        answer = json.loads(client.child.stderr.lines()[0])
        assert (answer["id"], answer["error"]["code"]) == (1, -32601)
    finally:
        await client.stop(TAG)


async def _stop_report(tmp_path: Path, prompt: str, *words: str):
    before: list[processes.Identity] = []
    async with opened(tmp_path, *words) as (client, _):
        await client.prompt([prompt])
        before = [client.child.identity, *client.child.tree()]
        report = await client.stop(TAG)
    assert not [one for one in before if processes.is_alive(one)]
    return report, before


async def test_a7_an_agent_that_leaves_at_eof_is_not_signalled(tmp_path: Path) -> None:
    report, _ = await _stop_report(tmp_path, "say x")
    assert (report.exit_code, report.complete) == (0, True)


async def test_a15_a_stubborn_agent_and_what_left_its_group_are_gone(tmp_path: Path) -> None:
    report, before = await _stop_report(tmp_path, "setsid", "stubborn")
    assert len(before) == 2
    assert (report.exit_code, report.complete) == (-9, True)
