"""Hostile names, prompts and output reach a real terminal as harmless text (spec 03.8, 07.3)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from wcwidth import wcswidth

from daemon_client import DaemonClient
from daemon_client.roster import RosterRow
from tests.support import homes
from tests.support.terminals import Terminal, terminal

pytestmark = pytest.mark.timeout(90)

COLUMNS, LINES = 120, 40
ESCAPE = "\x1b[27u"
"""As the keyboard protocol that the dashboard asks for sends it: no key behind it is taken in."""

BOARD = (sys.executable, "-m", "agents_view")

_OURS = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[[0-9]+;[0-9]+H"  # the cursor
    r"|\x1b\[\?(?:1049|1000|1003|1006|1015|25|1004|2004|2026|7)[hl]"
    r"|\x1b\[\?(?:2026|2048)\$p"
    r"|\x1b\[[<>][0-9]*u"
    r"|\x1b\[2[23];2t"
    r"|\x1b\]22;[a-z-]+\x07"  # the mouse pointer's shape
    r"|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*agents-view\x07"  # the window's title
)
"""Every sequence the dashboard itself writes; a new one is added here by a person, knowingly."""

_FOREIGN = re.compile(
    "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
"""Controls and bidi marks in what is left: nothing but text, CR and LF may be there."""

PIECES = {
    "c0": "a\x01\x07\x08\x0b\x0c\x0e\x0f\x7fb",
    "c1": "a\x80\x85\x8d\x90\x9b31m\x9d0;t\x9cb",
    "osc 52": "\x1b]52;c;aGFja2Vk\x07 paste",
    "osc 0": "\x1b]0;owned\x1b\\ title",
    "csi": "\x1b[6n\x1b[2J\x1b[?1049l\x1b[31m red",
    "unfinished": "tail \x1b]52;c;aGFj",
    "bidi": "abc \u202e\u2066desrever\u2069\u202c\u200f end",
    "nul": "nul\x00nul",
    "markup": "[@click=app.quit]click[/] [/] [bold red]x[/bold red]",
    "cjk": "漢字かな交じり文" * 38,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪❤️" * 30,
    "combining": "a\u0301\u0300\u0302" * 100,
    "spaces": "\t \r\n \u2028 \u2029 x",
}


def foreign(output: bytes) -> list[str]:
    """Everything in the output that is neither our own sequence nor plain text."""
    text = _OURS.sub("", output.decode("utf-8", "strict"))
    return [repr(text[m.start() : m.start() + 20]) for m in _FOREIGN.finditer(text)]


_PLACE = re.compile(r"\x1b\[(\d+);(\d+)H|\r?\n")


def line_ends(output: str) -> list[tuple[int, str]]:
    """How far right each run of text that was written in one go reaches, in cells."""
    ends: list[tuple[int, str]] = []
    column, start = 1, 0
    for found in [*_PLACE.finditer(output), None]:
        run = output[start : found.start() if found else len(output)]
        plain = _OURS.sub("", run)
        if plain:
            ends.append((column - 1 + wcswidth(plain), plain))
        if found:
            column, start = int(found[2] or 1), found.end()
    return ends


async def _fill(home: Path) -> None:
    """A session per piece: its name, its prompt and its output hold it; one waits for an answer."""
    script = home / "say"
    async with homes.running(home) as client:
        for number, (what, piece) in enumerate(PIECES.items()):
            (home / f"text{number}").write_bytes(piece.encode())
            prompt, name = f"cat {home}/text{number} # {piece}", f"{what} {piece}"
            await _create(client, home, prompt, name[:300])
        script.write_bytes("".join(PIECES.values()).encode())
        await _create(client, home, f"cat {script}", None)
        await _create(client, home, f"?echo {''.join(PIECES.values())}", "asks")


async def _create(client: DaemonClient, home: Path, prompt: str, name: str | None) -> None:
    row = await client.sessions.create(
        "shell", str(home), name=name, prompt=prompt, environ=homes.environment(home)
    )
    await homes.until(client, row.session_id, lambda r: r is not None and _settled(r), 30)


def _settled(row: RosterRow) -> bool:
    return bool(row.waiting or row.exit_cause) or (row.turn is None and row.message_count > 0)


def _lines_since(board: Terminal, start: int) -> list[tuple[int, str]]:
    return line_ends(bytes(board.output[start:]).decode("utf-8", "ignore"))


@pytest.mark.parametrize("what", ["c0", "c1", "osc 52", "osc 0", "csi", "bidi", "nul"])
def test_a_foreign_sequence_would_be_seen(what: str) -> None:
    assert foreign(PIECES[what].encode())


@pytest.fixture
async def filled(home: Path) -> None:
    await _fill(home)


def _walk(board: Terminal) -> None:
    """Every row: its session screen; every other one: each dialog that names it."""
    for number in range(len(PIECES) + 2):
        board.send("\r")
        board.wait(lambda: "n new" not in board.text(), 10, "the session screen")
        board.settle(0.1)
        while "n new" not in board.text():
            board.send(ESCAPE)
            board.settle(0.1)
        for key in ("r", "d", "!", ":") if number % 2 else ():
            board.send(key)
            board.settle(0.1)
            board.send(ESCAPE)
            board.wait(lambda: "╭─" not in board.text(), 10, "the end of the dialog")
        board.send("j")
        board.settle(0.06)


@pytest.mark.usefixtures("filled")
def test_no_foreign_sequence_reaches_the_terminal(terminal_env: dict[str, str]) -> None:
    with terminal(BOARD, terminal_env, size=(COLUMNS, LINES)) as board:
        board.wait_text("asks")
        board.settle()
        assert "[@click" in board.text()
        _walk(board)
        assert board.process.poll() is None
        start = len(board.output)
        board.send("\x0c")
        board.wait(lambda: len(_lines_since(board, start)) >= LINES, 10, "the repainted screen")
        board.settle()
        assert foreign(bytes(board.output)) == []
        repainted = _lines_since(board, start)
        assert [line for line in repainted if len(line[1]) > 60 and line[0] != COLUMNS] == []
        assert [line for line in _lines_since(board, 0) if line[0] > COLUMNS] == []
