"""A change of a file as lines: sign and tint, numbers where they can be known (look 06)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from agents_view.board.ink import FAINT, MUTED, Ink, Line, Piece, cut, width_of
from agents_view.board.transcript.frame import Frame, at
from agents_view.board.transcript.wrap import fold_line
from daemon_client.protocol.transcript import Diff
from daemon_client.text import clean, clean_lines

Sign = Literal[" ", "+", "-", "…"]

_COMPARED: Final = 1_500
"""Lines on both sides together that are still compared; comparing more takes too long."""
_CONTEXT: Final = 2
_NUMBER: Final = 4


class DiffRow(NamedTuple):
    """`number` counts in the new file, for removed lines in the old one; None: not known."""

    sign: Sign
    text: str
    number: int | None = None


class DiffStat(NamedTuple):
    added: int
    removed: int


@lru_cache(maxsize=128)
def diff_rows(diff: Diff, first_line: int | None) -> tuple[DiffRow, ...]:
    """Changed lines with two lines around; `first_line` is the number of the texts' first line."""
    old, new = _lines(diff.old_text), _lines(diff.new_text)
    start = first_line if first_line is not None else 1 if not old else None
    rows: list[DiffRow] = []
    for group in _groups(old, new):
        if rows:
            rows.append(DiffRow("…", ""))
        rows += _group_rows(group, old, new, start)
    return tuple(rows)


@lru_cache(maxsize=128)
def diff_stat(diff: Diff, first_line: int | None) -> DiffStat:
    """How many lines came and went."""
    signs = [row.sign for row in diff_rows(diff, first_line)]
    return DiffStat(signs.count("+"), signs.count("-"))


Opcode = tuple[str, int, int, int, int]


def _groups(old: list[str], new: list[str]) -> list[list[Opcode]]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    if len(old) + len(new) - 2 * head > _COMPARED:
        around: Opcode = ("equal", max(0, head - _CONTEXT), head, max(0, head - _CONTEXT), head)
        return [[around, ("replace", head, len(old), head, len(new))]]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [list(group) for group in matcher.get_grouped_opcodes(_CONTEXT)]


def _group_rows(
    group: list[Opcode], old: list[str], new: list[str], start: int | None
) -> list[DiffRow]:
    rows: list[DiffRow] = []

    def take(sign: Sign, texts: list[str], offset: int) -> None:
        for index, text in enumerate(texts):
            number = None if start is None else start + offset + index
            rows.append(DiffRow(sign, text, number))

    for tag, old_from, old_to, new_from, new_to in group:
        if tag == "equal":
            take(" ", new[new_from:new_to], new_from)
        else:
            take("-", old[old_from:old_to], old_from)
            take("+", new[new_from:new_to], new_from)
    return rows


def _lines(text: str) -> list[str]:
    lines = clean_lines(text).split("\n")
    if lines[-1] == "":
        lines.pop()  # the line break at the end of a file is not an empty line
    return lines


def first_line_of(diff: Diff, locations: Iterable[str]) -> int | None:
    """The line number an agent gives for a file (`path:31-58`), if it gives one."""
    for location in locations:
        path, _, lines = location.rpartition(":")
        digits = lines.partition("-")[0]
        if path and digits.isdecimal() and (diff.path.endswith(path) or path.endswith(diff.path)):
            return int(digits)
    return None


_INKS: Final[dict[str, tuple[Piece, Ink, str]]] = {
    " ": ((" ", MUTED), MUTED, ""),
    "+": (("+", Ink("running", bold=True)), Ink(), "addbg"),
    "-": (("−", Ink("error", bold=True)), Ink(), "delbg"),
}


def diff_lines(rows: Iterable[DiffRow], frame: Frame) -> list[Line]:
    """Rows as screen lines; a changed line is tinted to the right margin."""
    rows = list(rows)
    numbered = any(row.number is not None for row in rows)
    lines: list[Line] = []
    for row in rows:
        if row.sign == "…":
            lines.append(at(frame.body, [("…".rjust(_NUMBER if numbered else 1), FAINT)]))
            continue
        sign, ink, ground = _INKS[row.sign]
        number = f"{'' if row.number is None else row.number:>{_NUMBER}} " if numbered else ""
        room = frame.room(frame.body) - len(number) - 2
        for index, part in enumerate(fold_line(row.text, room)):
            lead = number if index == 0 else " " * len(number)
            mark = sign if index == 0 else (" ", sign[1])
            pieces: list[Piece] = [(lead, FAINT), mark, (" " + part, ink)]
            lines.append(at(frame.body, _tinted(pieces, ground, frame)))
    return lines


def _tinted(pieces: list[Piece], ground: str, frame: Frame) -> list[Piece]:
    if not ground:
        return pieces
    rest = frame.room(frame.body) - width_of(pieces)
    filled = [*pieces, (" " * max(0, rest), Ink())]
    return [(text, ink.on(ground)) for text, ink in filled]


def path_line(path: str, frame: Frame) -> Line:
    """The file's name above its changes, where a tool changes several."""
    return at(frame.body, [(cut(clean(path), frame.room(frame.body)), MUTED)])
