"""The session screen as pictures (look 06), with what they must say asserted beside each (3.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from agents_view.base.settings import Settings, UiSettings
from agents_view.tui.app import AgentsView
from agents_view.tui.screens.session import SessionScreen
from daemon_client.client import DaemonClient
from daemon_client.connection import ClientLimits, Connection
from daemon_client.protocol.replies import (
    PendingRequest,
    PermissionOption,
    QueuedPrompt,
    SessionState,
)
from daemon_client.protocol.transcript import (
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PlanEntry,
    PlanItem,
    PromptEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from daemon_client.roster import RosterRow, Schedule, Waiting
from tests.support.recorded_session import RecordedSession
from tests.support.transcripts import LOOK_06, NOW_MS, ago, numbered

Compare = Callable[..., bool]
Keys = Callable[[Pilot[int]], Awaitable[None]]

SESSION = "0" * 31 + "1"
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
    tree_heartbeats=Schedule(active=2, next_at_ms=ago(-420)),
)
BUSY = msgspec.structs.replace(
    ROW, turn="tools", tool_label="pytest -q tests/net", turn_started_at_ms=ago(41)
)
NEEDY = tuple(
    RosterRow(
        session_id="0" * 31 + str(number),
        name=f"needy-{number}",
        agent="claude",
        resident=True,
        turn="tools",
        waiting=Waiting(kind="question", since_ms=ago(180), text="keep it?"),
    )
    for number in (2, 3)
)
QUEUE = SessionState(
    session_id=SESSION,
    queue=(
        QueuedPrompt(prompt_id="q1", text="then update CHANGELOG.md"),
        QueuedPrompt(prompt_id="q2", text="keep-green · 14:17", source="job"),
    ),
)
DRAFT = "also run the whole suite under stress -c 8 before you say\nit is fixed"
COMMAND = """cd services/api && \\
  DATABASE_URL=postgres://localhost/api_dev make migrate && \\
  ./bin/check-schema --against origin/main --fail-on-drift \\
    --report /tmp/schema-report.json"""


class Picture:
    """Opens the session in a dashboard and compares its picture."""

    def __init__(self, compare: Compare, directory: Path) -> None:
        self._compare = compare
        self._directory = directory

    def take(
        self,
        *says: str,
        row: RosterRow = BUSY,
        entries: Iterable[TranscriptEntry] = LOOK_06,
        state: SessionState | None = None,
        draft: str = "",
        size: tuple[int, int] = (120, 36),
        theme: str | None = None,
        ascii_only: bool = False,
        keys: Keys | None = None,
    ) -> None:
        """Every text in `says` is on the screen, and the picture is as it was."""
        daemon = RecordedSession(self._directory, row, *NEEDY, entries=entries)
        daemon.state = state or daemon.state
        limits = ClientLimits(retry_first=0.02, retry_most=0.05)
        client = DaemonClient(Connection(daemon.socket, revive=daemon.revive, limits=limits))
        settings = Settings(ui=UiSettings(ascii=ascii_only))
        app = AgentsView(
            client, settings, now=lambda: NOW_MS, ticking=False, home="/home/u", theme=theme
        )
        app.drafts = {SESSION: draft} if draft else {}

        close_on_exit(app, daemon)

        async def prepare(pilot: Pilot[int]) -> None:
            await open_session(app, daemon, pilot)
            if keys is not None:
                await keys(pilot)
            await pilot.pause(0.05)
            shown = screen_text(app)
            for text in says:
                assert text in shown, f"{text!r} is not on screen:\n{shown}"

        assert self._compare(app, terminal_size=size, run_before=prepare)


async def open_session(app: AgentsView, daemon: RecordedSession, pilot: Pilot[int]) -> None:
    """Until everything the daemon sends of it has been drawn."""
    await daemon.start()
    await until(pilot, lambda: app.client.mirror.complete)
    app.push_screen(SessionScreen(SESSION))
    await until(pilot, lambda: isinstance(app.screen, SessionScreen))
    screen = app.screen
    assert isinstance(screen, SessionScreen)
    await until(pilot, lambda: screen.transcript.placeholder == "nothing here yet")
    await until(pilot, lambda: screen.state == daemon.state)
    await pilot.pause(0.05)


def close_on_exit(app: AgentsView, daemon: RecordedSession) -> None:
    """The loop is the app's own here: both ends of the connection have to go with it."""
    shutdown = app._shutdown

    async def close() -> None:
        await shutdown()
        await app.client.connection.close()
        await daemon.stop()
        await asyncio.sleep(0.01)  # transports close on the loop's next rounds

    app._shutdown = close


async def until(pilot: Pilot[int], met: Callable[[], object]) -> None:
    for _ in range(400):
        await pilot.pause(0.01)
        if met():
            return
    raise AssertionError("did not come about")


def screen_text(app: AgentsView) -> str:
    """What is on screen, as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@pytest.fixture
def picture(snap_compare: Compare, tmp_path: Path) -> Picture:
    return Picture(snap_compare, tmp_path)


def test_a_running_turn(picture: Picture) -> None:
    picture.take(
        "‹ fix-flaky-tests   ◆ running tools: pytest -q tests/net  41s",
        " 2 need you ",
        "▾ ✓ edit  src/core/net/backoff.py  +1 −1",
        "  1 then update CHANGELOG.md",
        "  2 ♥ keep-green · 14:17",
        "enter queues behind this turn",
        "following · draft kept",
        state=QUEUE,
        draft=DRAFT,
    )


def test_a_running_turn_light(picture: Picture) -> None:
    picture.take("following", state=QUEUE, draft=DRAFT, theme="agents-view-light")


async def _read_up(pilot: Pilot[int]) -> None:
    await pilot.press("escape", "k", "k")


def test_reading_at_80x24(picture: Picture) -> None:
    picture.take(
        "▌  ▸ ✓ read  src/core/net/backoff.py:31-58",
        "↓ 4 more  G",
        "enter write",
        state=QUEUE,
        draft=DRAFT,
        size=(80, 24),
        keys=_read_up,
    )


def test_ascii_at_80x24(picture: Picture) -> None:
    picture.take(
        "< fix-flaky-tests   R running tools: pytest -q te.",
        "v R run   pytest -q tests/net",
        "following - draft kept",
        state=QUEUE,
        draft=DRAFT,
        size=(80, 24),
        ascii_only=True,
    )


def test_a_small_terminal_50x16(picture: Picture) -> None:
    picture.take("? 2", "enter queues behind this turn", size=(50, 16))


ASKED = SessionState(
    session_id=SESSION,
    pending=(
        PendingRequest(
            session_id=SESSION,
            request_id="r1",
            kind="permission",
            text="run `make migrate`",
            since_ms=ago(180),
            command=COMMAND,
            options=(
                PermissionOption(id="o1", kind="allow_once", name="Allow once"),
                PermissionOption(id="o2", kind="allow_always", name="Allow always"),
                PermissionOption(id="o3", kind="reject_once", name="Reject"),
            ),
        ),
    ),
)
ASKING = numbered(
    *LOOK_06[:-1],
    PermissionEntry(request_id="r0", text="run `ls`", at_ms=ago(200)),
    PermissionEntry(request_id="r0", outcome="allow_once", by="person", at_ms=ago(190)),
    PermissionEntry(request_id="r1", text="run `make migrate`", at_ms=ago(180)),
)


async def _to_the_panel(pilot: Pilot[int]) -> None:
    await pilot.press("escape")
    await pilot.pause(0.6)  # until its keys are not inert any more


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=["120x36", "80x24"])
def test_a_permission_is_pending(picture: Picture, size: tuple[int, int]) -> None:
    waiting = Waiting(kind="permission", since_ms=ago(180), text="run `make migrate`")
    picture.take(
        "◆ needs approval: run `make m",
        "? needs approval: run `make migrate`",
        "--report /tmp/schema-report.json",
        "1 a Allow once   2 A Allow always   3 r Reject",
        row=msgspec.structs.replace(BUSY, waiting=waiting),
        entries=ASKING,
        state=ASKED,
        size=size,
        keys=_to_the_panel,
    )


def test_an_empty_transcript(picture: Picture) -> None:
    asleep = msgspec.structs.replace(ROW, resident=False, worker_state=None, name="deploy-watch")
    picture.take(
        "‹ deploy-watch   ○",
        "nothing here yet",
        "enter wakes the session and sends",
        row=asleep,
        entries=[],
        size=(80, 24),
    )


INTERRUPTED = numbered(
    *LOOK_06,
    TurnEndEntry(
        prompt_id="p2", stop_reason="interrupted", cause="the worker was lost", at_ms=ago(40)
    ),
    NoticeEntry(text="agent ended: code 1", level="error", at_ms=ago(39)),
    NoticeEntry(text="resumed with memory", at_ms=ago(30)),
    PromptEntry(prompt_id="p3", text="go on from there", source="agent", at_ms=ago(20)),
    PlanEntry(
        items=(
            PlanItem(text="run the suite", status="completed"),
            PlanItem(text="under stress", status="in_progress"),
            PlanItem(text="report"),
        ),
        at_ms=ago(19),
    ),
    TurnEndEntry(prompt_id="p3", stop_reason="cancelled", at_ms=ago(10)),
)


def test_an_interrupted_turn(picture: Picture) -> None:
    picture.take(
        "· run   pytest -q tests/net",
        "cut off",
        "✗ interrupted: the worker was lost · after 1m 18s",
        "✗ agent ended: code 1",
        "agent · 14:17",
        "plan  1 of 3",
        "· cancelled · after 10s",
        "enter sends",
        row=ROW,
        entries=INTERRUPTED,
    )


PROSE = numbered(
    PromptEntry(prompt_id="p", text="What changed, and why?", at_ms=ago(90)),
    MessageEntry(
        text="## What changed\n"
        "Three things, in *this* order:\n\n"
        "1. `Backoff.next()` reads the **monotonic** clock\n"
        "2. the jitter seed is per worker\n"
        "   - taken from `os.urandom`\n"
        "   - logged once at the start\n\n"
        "> The wall clock may step back under NTP.\n\n"
        "| case | before | after |\n|---|---|---|\n| load | 2 failed | 0 failed |\n\n"
        "```python\nnow = time.monotonic()\nreturn max(0.0, self.base * 2 ** self.n)\n```\n"
        "More in [the issue](https://example.org/4711). <b>No HTML</b>, 漢字 and 🙂 included.",
        at_ms=ago(80),
    ),
    TurnEndEntry(prompt_id="p", stop_reason="end_turn", at_ms=ago(79)),
)


def test_prose(picture: Picture) -> None:
    picture.take(
        "     1. Backoff.next() reads the monotonic clock",
        "        · taken from os.urandom",
        "     │ The wall clock may step back under NTP.",
        "     | load | 2 failed | 0 failed |",
        "      now = time.monotonic()",
        "the issue (https://example.org/4711). <b>No HTML</b>, 漢字 and 🙂 included.",
        row=ROW,
        entries=PROSE,
    )


async def _edit_queued(pilot: Pilot[int]) -> None:
    await pilot.press("up")


def test_a_queued_prompt_is_edited(picture: Picture) -> None:
    picture.take(
        "▌1 then update CHANGELOG.md",
        "enter save  esc leave",
        "enter saves the queued prompt · empty removes it",
        state=QUEUE,
        size=(80, 24),
        keys=_edit_queued,
    )
