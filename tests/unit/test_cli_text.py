"""What the command line writes for people: a followed transcript, tables, settings (spec 09)."""

from __future__ import annotations

import tomllib
from datetime import UTC

import msgspec
import pytest

from agents_view.base.settings import AgentEntry, Settings
from agents_view.cli.configuration import toml_lines
from agents_view.cli.listing import fitted, in_order
from agents_view.cli.live import LiveText
from agents_view.cli.output import Stop
from agents_view.cli.session import own_environment
from agents_view.cli.talk import chosen_option, chosen_request
from daemon_client.errors import DaemonError
from daemon_client.protocol.replies import PendingRequest, PermissionOption
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
    TurnEndEntry,
)
from daemon_client.roster import RosterRow, Schedule


def live(*entries: TranscriptEntry, end: bool = True) -> str:
    written: list[str] = []
    text = LiveText(written.append, UTC)
    for seq, entry in enumerate(entries, start=1):
        text.feed([msgspec.structs.replace(entry, seq=seq)])
    if end:
        text.end()
    return "".join(written)


def test_words_flow_and_each_kind_begins_a_line() -> None:
    shown = live(
        PromptEntry(prompt_id="p", text="do it"),
        ThoughtEntry(text="I thi"),
        ThoughtEntry(text="nk"),
        MessageEntry(text="Hel"),
        MessageEntry(text="lo\nworld"),
        TurnEndEntry(prompt_id="p", stop_reason="cancelled"),
    )
    assert shown == "› 1970-01-01 00:00  do it\n▸ I think\nHello\nworld\n· cancelled\n"


def test_an_ordinary_end_and_raw_updates_are_not_worth_a_line() -> None:
    shown = live(
        MessageEntry(text="done"),
        RawEntry(update="usage"),
        TurnEndEntry(prompt_id="p", stop_reason="end_turn"),
        NoticeEntry(text="agent ended", level="error"),
    )
    assert shown == "done\n✗ agent ended\n"


def test_a_piece_is_shown_before_its_line_is_whole() -> None:
    assert live(MessageEntry(text="half a li"), end=False) == "half a li"


def test_the_output_of_a_tool_comes_as_it_grows() -> None:
    begin = ToolEntry(tool_id="t", title="make", tool_kind="execute", status="in_progress")
    more = ToolEntry(tool_id="t", output="one\ntw")
    end = ToolEntry(tool_id="t", status="completed", output="one\ntwo\nthree", at_ms=1500)
    assert live(begin) == "◆ execute  make\n"
    assert live(begin, more) == "◆ execute  make\n    one\n"
    shown = live(begin, more, end)
    assert shown == "◆ execute  make\n    one\n    two\n    three\n✓ execute  make  1.5s\n"


def test_an_output_that_is_another_one_is_shown_whole() -> None:
    shown = live(
        ToolEntry(tool_id="t", title="make", status="in_progress", output="first\n"),
        ToolEntry(tool_id="t", status="failed", output="second\n"),
    )
    assert shown == "◆ make\n    first\n    second\n✗ make  0.0s\n"


def test_a_tool_that_is_over_when_it_comes_and_its_diff() -> None:
    diff = Diff(path="a.py", old_text="x\n", new_text="y\n")
    shown = live(ToolEntry(tool_id="t", title="edit", status="completed", diffs=(diff,)))
    assert shown.startswith("✓ edit") and "    -x\n    +y\n" in shown


def test_a_permission_keeps_its_text() -> None:
    shown = live(
        PermissionEntry(request_id="r", text="rm -rf build"),
        PermissionEntry(request_id="r", outcome="allow_once", by="person"),
    )
    assert shown == "? needs approval: rm -rf build\n? allow once: rm -rf build\n"


def test_hostile_pieces_are_harmless() -> None:
    shown = live(
        MessageEntry(text="a\x1b]52;c;AAAA\x07b\x1b[2J"),
        ToolEntry(tool_id="t", title="x\x9b31m\r\n", status="in_progress", output="\x1b[6n\n"),
    )
    assert all(letter == "\n" or letter.isprintable() for letter in shown)


def test_only_the_directory_gives_way_to_the_width() -> None:
    table = [("ID", "DIRECTORY"), ("0123", "/home/somebody/日本/project"), ("0124", "~")]
    assert fitted(table, 80) == table
    narrow = fitted(table, 20)
    assert narrow[1][0] == "0123" and narrow[1][1] == "…/日本/project"
    assert narrow[0] == table[0] and narrow[2] == table[2]
    assert fitted(table, 1)[1][0] == "0123"


def test_r20_r21_rows_stand_as_on_the_board() -> None:
    armed = Schedule(active=1)
    rows = [
        RosterRow(session_id="late", created_at_ms=1, last_activity_at_ms=9),
        RosterRow(session_id="armed", created_at_ms=1, last_activity_at_ms=2, tree_crons=armed),
        RosterRow(session_id="idle", created_at_ms=1, resident=True),
        RosterRow(session_id="old", created_at_ms=1, turn="tools", resident=True),
        RosterRow(session_id="new", created_at_ms=2, turn="tools", resident=True),
    ]
    assert [row.session_id for row in in_order(rows)] == ["new", "old", "idle", "armed", "late"]


def test_settings_as_toml_read_back_the_same() -> None:
    mine = AgentEntry(command='a "quoted" thing', args=("--x", "ü\n"), env={"A B": "c"})
    settings = Settings(agents={"my agent": mine}, keys={"session.delete": "D"})
    text = "\n".join(toml_lines(msgspec.to_builtins(settings)))
    assert msgspec.convert(tomllib.loads(text), Settings, strict=True) == settings


def test_a9_nothing_of_ours_and_nothing_but_text_is_handed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENTS_VIEW_SESSION_ID", "x")
    monkeypatch.setenv("MY_KEY", "ü")
    monkeypatch.setenv("ODD", "\udcff")
    environ = own_environment()
    assert environ["MY_KEY"] == "ü" and "ODD" not in environ
    assert not any(name.startswith("AGENTS_VIEW_") for name in environ)


def request(number: int) -> PendingRequest:
    options = (
        PermissionOption(id="a", kind="allow_once", name="Allow"),
        PermissionOption(id="b", kind="reject_once", name="No"),
        PermissionOption(id="c", kind="reject_once", name="No, and say why"),
    )
    return PendingRequest(
        session_id="s",
        request_id=f"request-{number}",
        kind="permission",
        text="make",
        since_ms=0,
        options=options,
    )


def test_a13_an_option_is_chosen_by_id_or_by_a_kind_of_its_own() -> None:
    assert chosen_option(request(1), "b") == "b"
    assert chosen_option(request(1), "allow_once") == "a"
    for wanted in ("reject_once", "allow_always", ""):
        with pytest.raises(Stop) as caught:
            chosen_option(request(1), wanted)
        assert caught.value.code == 2 and len(caught.value.detail) == 3


def test_a_request_is_chosen_only_if_it_is_clear_which() -> None:
    one, two = request(1), request(2)
    assert chosen_request((one,), None) is one
    assert chosen_request((one, two), "request-2") is two
    with pytest.raises(Stop) as caught:
        chosen_request((one, two), None)
    assert caught.value.code == 2
    for pending in ((), (one,)):
        with pytest.raises(DaemonError, match="already answered"):
            chosen_request(pending, "request-9")
