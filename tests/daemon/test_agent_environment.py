"""What an agent's process is given, and what never reaches the disk (A9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon_client.protocol.commands import Spawn
from daemon_client.status import label_of
from tests.support import homes
from tests.support.homes import until
from tests.support.scripted import ENV, daemon, held, new, quiet, said

SECRET = "heron-4711-not-on-disk"
KEYS = 'env_pass = ["SCRIPTED_API_KEY"]'


def holders_of(folder: Path, text: str) -> list[str]:
    """Files that hold it, whatever they are."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if text.encode() in path.read_bytes()]


async def passive(client, session_id: str) -> None:
    await client.sessions.stop(session_id)
    await until(client, session_id, lambda r: not r.resident)


async def test_a9_an_agent_gets_the_persons_environment_and_the_daemon_does_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAEMON_STARTER_SECRET", SECRET)
    person = ENV | {"MY_VALUE": "mine", "AGENTS_VIEW_HOME": "/misleading"}
    async with daemon(home) as client:
        names = ("MY_VALUE", "DAEMON_STARTER_SECRET", "AGENTS_VIEW_HOME", "AGENTS_VIEW_SOCKET")
        steps = "; ".join(f"env {name}" for name in (*names, "AGENTS_VIEW_SESSION_ID"))
        row = await new(client, steps, environ=person)
        await until(client, row.session_id, quiet)
        assert (await said(client, row.session_id)).split("|") == [
            "MY_VALUE=mine",
            "DAEMON_STARTER_SECRET=(unset)",
            "AGENTS_VIEW_HOME=(unset)",
            f"AGENTS_VIEW_SOCKET={home / 'run' / 'daemon.sock'}",
            f"AGENTS_VIEW_SESSION_ID={row.session_id}",
        ]
        for pid in (*homes.supervisors_of(home), *homes.workers_of(home)):
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            assert SECRET.encode() not in environ and b"MY_VALUE" not in environ


async def test_a9_secrets_are_not_on_disk_and_names_are(home: Path) -> None:
    async with daemon(home, "load", entry=KEYS) as client:
        person = ENV | {"SCRIPTED_API_KEY": SECRET}
        row = await new(client, "say one", environ=person)
        await until(client, row.session_id, quiet)
        child = await client.sessions.spawn(Spawn(prompt="say c", parent_id=row.session_id))
        await until(client, child.session_id, quiet)
        await client.conversation.prompt(row.session_id, "say two", environ=person)
        await until(client, row.session_id, quiet)
        await passive(client, row.session_id)
        await homes.stop(client)
        assert holders_of(home, SECRET) == []
        assert holders_of(home / "state", "SCRIPTED_API_KEY"), "its name is kept"


async def test_a9_a_child_and_a_later_turn_see_what_the_person_has(home: Path) -> None:
    async with daemon(home, "load") as client:
        row = await new(client, "env KEY", environ=ENV | {"KEY": "first"})
        await until(client, row.session_id, quiet)
        child = await client.sessions.spawn(Spawn(prompt="env KEY", parent_id=row.session_id))
        await until(client, child.session_id, quiet)
        assert await said(client, child.session_id) == "KEY=first"
        await passive(client, row.session_id)
        await client.conversation.prompt(row.session_id, "env KEY", environ=ENV | {"KEY": "second"})
        await until(client, row.session_id, quiet)
        assert await said(client, row.session_id) == "KEY=first|KEY=second"


async def test_a9_a_key_that_is_missing_now_needs_a_login(home: Path) -> None:
    """A daemon that restarted has forgotten the value, and only knows that there was one."""
    async with daemon(home, "load", entry=KEYS) as client:
        row = await new(client, "say one", environ=ENV | {"SCRIPTED_API_KEY": SECRET})
        await until(client, row.session_id, quiet)
        await passive(client, row.session_id)
        await homes.stop(client)
    async with daemon(home, "load", entry=KEYS) as client:
        await client.conversation.prompt(row.session_id, "say two")
        asks = await until(client, row.session_id, lambda r: r.waiting)
        assert label_of(asks, 0) == "needs login: SCRIPTED_API_KEY missing"
        assert await held(client, row.session_id) == ["say two"]
        await client.sessions.retry(row.session_id, environ=ENV | {"SCRIPTED_API_KEY": "again"})
        await until(client, row.session_id, quiet)
        assert client.mirror.get(row.session_id).waiting is None
        assert await said(client, row.session_id) == "one|two"


async def test_a9_a_key_nobody_ever_had_is_no_reason_to_wait(home: Path) -> None:
    async with daemon(home, entry=KEYS) as client:
        row = await new(client, "say fine")
        await until(client, row.session_id, quiet)


async def test_a9_without_a_person_it_wakes_with_what_was_kept_and_the_catalogues(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ENV["PYTHONPATH"])  # kept by the daemon: finds the agent
    entry = '[agents.scripted.env]\nFROM_CATALOGUE = "yes"\n'
    async with daemon(home, "load", entry=entry) as client:
        row = await new(client, "say one", environ=ENV | {"LC_ALL": "C.UTF-8", "OTHER": "x"})
        await until(client, row.session_id, quiet)
        await passive(client, row.session_id)
        await homes.stop(client)
    async with daemon(home, "load", entry=entry) as client:
        steps = "; ".join(f"env {n}" for n in ("LC_ALL", "OTHER", "FROM_CATALOGUE", "SHELL"))
        await client.conversation.prompt(row.session_id, steps)
        await until(client, row.session_id, quiet)
        assert (await said(client, row.session_id)).split("|")[1:] == [
            "LC_ALL=C.UTF-8",
            "OTHER=(unset)",
            "FROM_CATALOGUE=yes",
            "SHELL=/bin/sh",
        ]


async def test_a9_a_refreshed_environment_is_used_by_the_next_start(home: Path) -> None:
    async with daemon(home, "load") as client:
        row = await new(client, "env KEY", environ=ENV | {"KEY": "old"})
        await until(client, row.session_id, quiet)
        await client.conversation.attach(row.session_id, environ=ENV | {"KEY": "attached"})
        await passive(client, row.session_id)
        await ask_without(client, row.session_id)
        assert await said(client, row.session_id) == "KEY=old|KEY=attached"


async def ask_without(client, session_id: str) -> None:
    await client.conversation.prompt(session_id, "env KEY")
    await until(client, session_id, quiet)
