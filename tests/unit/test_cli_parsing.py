"""What the command line accepts, how it answers failures, and what it imports (spec 09)."""

from __future__ import annotations

import argparse
import subprocess
import sys

import msgspec
import pytest

from agents_view.cli import output
from agents_view.cli.durations import seconds
from agents_view.cli.main import _COMMANDS, _parser, main
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.roster import RosterRow, Schedule, Waiting

COMMANDS = [name for name, *_ in _COMMANDS]
GROUPED = [f"daemon {name}" for name in ["start", "stop", "status", "restart", "run", "logs"]]
GROUPED += [f"config {name}" for name in ["show", "check", "path"]]
PLAIN_USE = {
    "rename": ["rename", "s", "name"],
    "send": ["send", "s", "text"],
    "new": ["new"],
    "spawn": ["spawn"],
    "ls": ["ls"],
    "agents": ["agents"],
}


def parse(*words: str) -> argparse.Namespace:
    return _parser().parse_args(words)


def test_every_command_of_the_first_slice_is_there() -> None:
    wanted = (
        "new spawn ls show explain send log wait cancel stop wake retry rename archive restore rm"
        " answer agents"
    )
    assert set(wanted.split()) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_in_json_when_asked(name: str) -> None:
    args = parse(*PLAIN_USE.get(name, [name, "s"]), "--json")
    assert args.json is True and args.handler


@pytest.mark.parametrize("words", GROUPED)
def test_so_does_every_command_of_a_group(words: str) -> None:
    args = parse(*words.split(), "--json")
    assert args.json is True and args.handler


def test_no_command_is_the_dashboard() -> None:
    args = parse("--embedded", "--theme", "nord", "--config", "f.toml")
    assert args.handler is None
    assert (args.embedded, args.theme, args.config) == (True, "nord", "f.toml")


def test_defaults_of_a_new_session() -> None:
    args = parse("new", "echo hi")
    assert (args.prompt, args.agent, args.cwd, args.wait) == ("echo hi", "shell", ".", False)


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["show"],
        ["send", "s"],
        ["rename", "s"],
        ["daemon"],
        ["daemon", "dance"],
        ["config", "write"],
        ["ls", "--section", "asleep"],
        ["wait", "s", "--until", "bored"],
        ["wait", "s", "--timeout", "soon"],
        ["log", "s", "--tail", "some"],
    ],
)
def test_bad_usage_is_exit_2_with_a_message_on_stderr(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == output.USAGE
    shown = capsys.readouterr()
    assert shown.out == "" and "agents-view: " in shown.err
    assert main([*words, "--json"]) == output.USAGE
    shown = capsys.readouterr()
    assert msgspec.json.decode(shown.out)["error"]["code"] == "invalid" and shown.err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert not caught.value.code
    assert capsys.readouterr().out.startswith("agents-view ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86_400), ("250ms", 0.25)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "soon", "5 weeks", "1e3", "m", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_FOUND, 3),
        (ErrorCode.AMBIGUOUS, 2),
        (ErrorCode.INVALID, 2),
        (ErrorCode.UNAVAILABLE, 4),
        (ErrorCode.INCOMPATIBLE, 4),
        (ErrorCode.REFUSED, 1),
        (ErrorCode.BUSY, 1),
        (ErrorCode.CONFLICT, 1),
        (ErrorCode.AGENT_FAILED, 1),
        (ErrorCode.UNCERTAIN, 1),
        (ErrorCode.TIMEOUT, 1),
    ],
)
def test_exit_codes_of_failures(code: ErrorCode, expected: int) -> None:
    assert output.report(DaemonError(code, "why"), as_json=False) == expected


def test_no_failure_is_a_success() -> None:
    codes = [output.report(DaemonError(code, "why"), as_json=False) for code in ErrorCode]
    assert output.OK not in codes


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "failed"),
        (2, "invalid"),
        (3, "not_found"),
        (4, "unavailable"),
        (5, "timeout"),
        (6, "needs_person"),
    ],
)
def test_an_early_end_has_its_exit_code_and_a_reason(
    code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert output.report(output.Stop(code, "why", ("more",)), as_json=True) == code
    assert msgspec.json.decode(capsys.readouterr().out) == {
        "error": {"code": reason, "message": "why", "detail": ["more"]}
    }


def test_a_failure_in_json_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    error = DaemonError(ErrorCode.AMBIGUOUS, "two of them", ("one", "two"))
    assert output.report(error, as_json=True) == 2
    shown = capsys.readouterr()
    assert shown.err == ""
    assert msgspec.json.decode(shown.out) == {
        "error": {"code": "ambiguous", "message": "two of them", "detail": ["one", "two"]}
    }


def test_a_failure_for_people_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.report(DaemonError(ErrorCode.BUSY, "works", ("alpha",)), as_json=False)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err == "agents-view: works\n  alpha\n"


def test_a_row_has_every_field_also_those_at_their_default() -> None:
    row = RosterRow(session_id="a")
    shown = output.row_json(row, 0)
    assert set(shown) == {*RosterRow.__struct_fields__, "section", "label", "badges"}
    assert shown["heartbeats"] == {"active": 0, "paused": 0, "next_at_ms": None}
    assert (shown["section"], shown["badges"]) == ("inactive", [])


def test_badges_and_nested_facts_of_a_row() -> None:
    row = RosterRow(
        session_id="a",
        resident=True,
        waiting=Waiting(kind="permission", since_ms=0, text="make"),
        tree_crons=Schedule(paused=2),
    )
    shown = output.row_json(row, 5_000)
    assert shown["label"] == "needs approval: make"
    assert shown["waiting"] == {
        "kind": "permission",
        "since_ms": 0,
        "text": "make",
        "request_id": "",
    }
    assert shown["badges"] == [
        {"kind": "waiting", "text": "? 5s", "dim": False},
        {"kind": "cron", "text": "◷ 2", "dim": True},
    ]


def test_tables_are_aligned_by_what_a_terminal_shows(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([("日本", "x"), ("abcd", "y"), ("é", "z")])
    assert capsys.readouterr().out == "日本  x\nabcd  y\né     z\n"


_IMPORTS = """
import sys
sys.argv = ["agents-view", *{words!r}]
from agents_view.cli.main import main
try:
    code = main({words!r})
except SystemExit as stop:
    code = stop.code
heavy = ("textual", "rich", "sqlite3", "agents_view.daemon", "agents_view.tui", "psutil")
sys.stderr.write("%s %s" % (code, [name for name in heavy if name in sys.modules]))
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["config", "path"], 0),
        (["daemon", "stop", "--json"], 0),
        (["daemon", "status", "--json"], 4),
    ],
)
def test_nothing_heavy_is_imported_without_need(
    words: list[str], code: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`ls --json` needs a daemon: tests/e2e/test_cli.py asks the same of it."""
    home = tmp_path_factory.mktemp("h")
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORTS.format(words=words)],
        capture_output=True,
        text=True,
        timeout=30,
        env={"AGENTS_VIEW_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"},
    )
    assert ran.stderr.splitlines()[-1] == f"{code} []"
