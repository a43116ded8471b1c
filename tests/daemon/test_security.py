"""Who may do what (spec 07.3): decided by the process at the other end, never by what it says."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import get_args

import pytest

from daemon_client import DaemonClient, DaemonError, ErrorCode
from daemon_client.paths import make_private, paths_for
from daemon_client.protocol import AnyCommand
from daemon_client.protocol.commands import Spawn
from daemon_client.protocol.transcript import MessageEntry, PromptEntry
from tests.support import homes
from tests.support.homes import until
from tests.support.scripted import ENV, ROOT, entries, new, quiet, said

TOOL = f"{sys.executable} -m tests.support.agent_client"
CLI = f"{sys.executable} -m agents_view.cli.main"

READ_OWN = {"Attach", "Detach", "Transcript"}
ANY_TREE = {"Ping", "RosterSubscribe"}
WRITE_OWN = {"Prompt", "Spawn"}


async def shell(client: DaemonClient, prompt: str | None = None):
    return await new(client, prompt, agent="shell", cwd=str(ROOT))


async def inside(client: DaemonClient, row, command: str) -> str:
    """What a command prints that the session's agent runs, and its exit code if it failed."""
    prompt = await client.conversation.prompt(
        row.session_id, f"{command} || echo exit $?; echo end-of-it", environ=ENV
    )

    async def output() -> str | None:
        found = await entries(client, row.session_id)
        ids = [e.prompt_id if isinstance(e, PromptEntry) else None for e in found]
        if prompt.prompt_id not in ids:
            return None
        after = found[ids.index(prompt.prompt_id) :]
        texts = [e.text for e in after if isinstance(e, MessageEntry)]
        return texts[0] if texts else None

    async with asyncio.timeout(40):
        while (text := await output()) is None:
            await asyncio.sleep(0.05)
    return text.removesuffix("end-of-it").strip()


async def pair(client: DaemonClient):
    """Two trees, each with a quiet session."""
    own, other = await shell(client, "echo own"), await shell(client, "echo other")
    for row in (own, other):
        await until(client, row.session_id, quiet)
    return own, other


async def test_07_3_an_agent_may_do_little_and_only_in_its_own_tree(client: DaemonClient) -> None:
    """Every command there is: a new one has to be put into one of the sets, or be refused."""
    own, other = await pair(client)
    command = f"{TOOL} everything {own.session_id} {other.session_id}"
    outcomes = json.loads(await inside(client, own, command))
    assert set(outcomes) == {kind.__name__ for kind in get_args(AnyCommand)}
    for name, (in_own, in_other) in outcomes.items():
        if name in ANY_TREE:
            assert (in_own, in_other) == ("ok", "ok"), name
        elif name in READ_OWN | WRITE_OWN:
            assert (in_own, in_other) == ("ok", "refused"), name
        else:
            assert (in_own, in_other) == ("refused", "refused"), name
    rows = {row.session_id: row for row in client.mirror}
    assert rows[own.session_id].name is None and not rows[own.session_id].archived
    assert await said(client, other.session_id) == "other"


@pytest.mark.parametrize(
    "disguise",
    [
        "",
        "env -u AGENTS_VIEW_SESSION_ID ",
        "setsid -w ",
        "env -u AGENTS_VIEW_SESSION_ID setsid -w ",
        "env AGENTS_VIEW_SESSION_ID=OTHER ",
    ],
)
async def test_07_3_no_disguise_makes_an_agent_a_person_or_another_agent(
    client: DaemonClient, disguise: str
) -> None:
    own, other = await pair(client)
    disguise = disguise.replace("OTHER", other.session_id)
    seen = await inside(client, own, f"{disguise}{TOOL} rows")
    assert json.loads(seen) == [own.session_id]
    spawned = await inside(client, own, f"{disguise}{TOOL} spawn")
    assert json.loads(spawned) == [own.session_id, own.session_id]


async def test_07_3_a_process_that_detached_itself_is_still_an_agent(
    client: DaemonClient, home: Path, tmp_path: Path
) -> None:
    """Orphaned, in a session of its own, without our variables: the worker is its reaper."""
    own, _ = await pair(client)
    out = tmp_path / "out"
    socket = f"AGENTS_VIEW_SOCKET={paths_for(home).socket}"
    command = (
        f"setsid sh -c 'sleep 0.3; env -u AGENTS_VIEW_SESSION_ID {socket} {TOOL} rows"
        f" > {out}.new; mv {out}.new {out}' >/dev/null 2>&1 &"
    )
    await client.conversation.prompt(own.session_id, command, environ=ENV)
    await homes.eventually(out.exists)
    assert json.loads(out.read_text()) == [own.session_id]


async def test_07_3_an_agent_cannot_approve_what_its_tree_asks(client: DaemonClient) -> None:
    own, _ = await pair(client)
    child = await client.sessions.spawn(
        Spawn(prompt="?echo approved", parent_id=own.session_id, environ=ENV)
    )
    await until(client, child.session_id, lambda r: r.waiting)
    (request,) = await client.conversation.pending(child.session_id)
    command = f"{TOOL} answer {child.session_id} {request.request_id} once"
    assert json.loads(await inside(client, own, command)) == "refused"
    assert client.mirror.get(child.session_id).waiting is not None


async def test_07_3_the_command_line_inside_an_agent(client: DaemonClient) -> None:
    own, other = await pair(client)
    listed = await inside(client, own, f"{CLI} ls --json")
    assert own.session_id in listed and other.session_id not in listed
    child = (await inside(client, own, f"{CLI} spawn 'echo c'")).split()[0]
    await until(client, child, quiet)
    assert client.mirror.get(child).parent_id == own.session_id
    await inside(client, own, f"{CLI} send {child} 'echo sent'")
    await until(client, child, lambda r: quiet(r) and r.message_count == 4)
    assert "sent" in await inside(client, own, f"{CLI} log {child}")
    for words in ("rm --yes", "archive", "rename", "explain", "stop", "cancel"):
        verb, *flags = words.split()
        rest = "x" if verb == "rename" else ""
        shown = await inside(client, own, f"{CLI} {verb} {' '.join(flags)} {child} {rest} 2>&1")
        assert "for people" in shown, verb
    assert client.mirror.get(child) is not None
    assert "for people" in await inside(client, own, f"{CLI} daemon stop 2>&1")
    refused = await inside(client, own, f"{CLI} send {other.session_id} 'echo x' 2>&1")
    assert "exit " in refused, "refused, or not found in what it can see"
    assert await said(client, other.session_id) == "other"


def test_07_1_an_agent_never_starts_a_supervisor(home: Path) -> None:
    done = homes.cli(home, "ls", AGENTS_VIEW_SESSION_ID="0" * 32)
    assert done.returncode != 0 and "never starts one" in done.stderr
    assert homes.supervisors_of(home) == []


async def test_07_3_socket_and_directories_are_private(client: DaemonClient, home: Path) -> None:
    await pair(client)
    places = paths_for(home)
    assert stat.S_IMODE(places.socket.stat().st_mode) == 0o600
    for directory in (
        places.socket.parent,
        places.state_dir,
        places.run_dir,
        places.logs,
        places.transcripts,
    ):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory
    for path in places.state_dir.rglob("*"):
        assert not stat.S_IMODE(path.lstat().st_mode) & 0o077, path


async def test_07_3_a_runtime_directory_that_is_a_link_is_refused(
    home: Path, tmp_path: Path
) -> None:
    (home / "run").symlink_to(tmp_path)
    with pytest.raises(DaemonError) as caught:
        async with homes.running(home):
            pass
    assert "run is not a directory" in "\n".join((caught.value.message, *caught.value.detail))
    assert list(tmp_path.iterdir()) == []
    homes.wait_until(lambda: not homes.processes_of(home))


def test_07_3_a_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_private(tmp_path / "mine")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(DaemonError, match="belongs to uid") as caught:
        make_private(tmp_path / "mine")
    assert caught.value.code is ErrorCode.REFUSED


def test_07_3_a_directory_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    make_private(open_to_all)
    assert stat.S_IMODE(open_to_all.stat().st_mode) == 0o700
