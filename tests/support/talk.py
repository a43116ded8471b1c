"""The session screen in a dashboard over a recorded daemon, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from agents_view.base.settings import Settings
from agents_view.tui.app import AgentsView
from agents_view.tui.screens.session import SessionScreen
from agents_view.tui.widgets.line import LineBar
from daemon_client.client import DaemonClient
from daemon_client.connection import ClientLimits, Connection
from daemon_client.protocol.replies import PendingRequest, PermissionOption, QueuedPrompt
from daemon_client.roster import RosterRow, Schedule, Waiting
from tests.support.recorded_session import RecordedSession
from tests.support.transcripts import LOOK_06, NOW_MS, ago

SESSION = "0" * 31 + "1"
OTHER = "0" * 31 + "2"
ROW = RosterRow(
    session_id=SESSION,
    name="fix-flaky-tests",
    agent="codex",
    model="gpt-5-codex",
    mode="auto-edit",
    cwd="/home/u/src/core",
    resident=True,
    worker_state="ready",
    message_count=3,
    created_at_ms=ago(9999),
    last_activity_at_ms=ago(3),
    unread=True,
)
BUSY = msgspec.structs.replace(
    ROW,
    turn="tools",
    tool_label="pytest -q tests/net",
    turn_started_at_ms=ago(41),
    tree_heartbeats=Schedule(active=2, next_at_ms=ago(-420)),
)
ASLEEP = msgspec.structs.replace(ROW, resident=False, worker_state=None)
NEEDY = RosterRow(
    session_id=OTHER,
    name="api-review",
    agent="claude",
    resident=True,
    turn="tools",
    created_at_ms=ago(99_999),
    waiting=Waiting(kind="permission", since_ms=ago(180), text="make migrate"),
)
QUEUE = (
    QueuedPrompt(prompt_id="q1", text="then update CHANGELOG.md"),
    QueuedPrompt(prompt_id="q2", text="keep-green", source="job"),
    QueuedPrompt(prompt_id="q3", text="and push"),
)
ASKED = PendingRequest(
    session_id=SESSION,
    request_id="r1",
    kind="permission",
    text="run make migrate",
    since_ms=ago(180),
    command="make migrate && make check",
    options=(
        PermissionOption(id="yes", kind="allow_once", name="Allow once"),
        PermissionOption(id="no", kind="reject_once", name="Reject"),
    ),
)


class Talk:
    """A dashboard with the session open, and the daemon behind it."""

    def __init__(self, app: AgentsView, pilot: Pilot[int], daemon: RecordedSession) -> None:
        self.app = app
        self.pilot = pilot
        self.daemon = daemon

    @property
    def screen(self) -> SessionScreen:
        assert isinstance(self.app.screen, SessionScreen)
        return self.app.screen

    def lines(self) -> list[str]:
        """The transcript as text."""
        view = self.screen.transcript
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]

    def bar(self, name: str) -> str:
        return self.screen.query_one(f"#{name}", LineBar).render_line(0).text

    def toasts(self) -> list[str]:
        return [toast.message for toast in self.app._notifications]

    async def until(self, met: Callable[[], object]) -> None:
        """Wait for a state, never for a time."""
        for _ in range(400):
            await self.pilot.pause(0.01)
            if met():
                return
        raise AssertionError("did not come about")


@pytest.fixture
async def talk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    """`@pytest.mark.parametrize("talk", [(row, entries, state)], indirect=True)`, all optional."""
    given = getattr(request, "param", {})
    daemon = RecordedSession(
        tmp_path, given.get("row", ROW), NEEDY, entries=given.get("entries", LOOK_06)
    )
    daemon.state = msgspec.structs.replace(daemon.state, **given.get("state", {}))
    async with daemon:
        limits = ClientLimits(retry_first=0.02, retry_most=0.05)
        client = DaemonClient(Connection(daemon.socket, revive=daemon.revive, limits=limits))
        settings = Settings()
        settings = msgspec.structs.replace(
            settings, ui=msgspec.structs.replace(settings.ui, key_guard=given.get("guard", 0.01))
        )
        app = AgentsView(client, settings, now=lambda: NOW_MS, ticking=False, home="/home/u")
        async with app.run_test(size=given.get("size", (120, 36)), notifications=True) as pilot:
            found = Talk(app, pilot, daemon)
            await found.until(lambda: client.mirror.complete)
            app.drafts.update(given.get("drafts", {}))
            app.push_screen(SessionScreen(SESSION))
            await found.until(lambda: isinstance(app.screen, SessionScreen))
            await found.until(lambda: found.screen.transcript.placeholder == "nothing here yet")
            await pilot.pause(0.05)
            yield found
        await client.connection.close()


def given(**fields: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("talk", [fields], indirect=True)
