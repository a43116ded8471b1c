"""The lines around a transcript: header, queue, status, and what enter does now (look 06)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from agents_view.board.ink import (
    BOLD,
    FAINT,
    KEY,
    MUTED,
    RULE,
    TEXT,
    Ink,
    Line,
    Piece,
    cut,
    spread,
    width_of,
)
from agents_view.board.item import title_of
from agents_view.board.paint import UNICODE, label_pieces, state_mark
from daemon_client.protocol.replies import QueuedPrompt
from daemon_client.roster import RosterRow, SessionId
from daemon_client.status import age_text, badges_of, is_working
from daemon_client.text import clean

_BADGE_INKS: Final = {"waiting": Ink("attention", bold=True)}
_ARMED: Final = Ink("schedule")
_CHIP: Final = Ink("chipink", "chip", bold=True)


class HeaderFacts(msgspec.Struct, kw_only=True, frozen=True):
    """What the header needs beside the row. `trouble` says why the daemon cannot be reached."""

    now_ms: int
    clock: str
    home: str = ""
    others_waiting: int = 0
    trouble: str = ""


def waiting_elsewhere(rows: Iterable[RosterRow], session_id: SessionId) -> list[RosterRow]:
    """Other sessions that need a person, the one that waits longest first (R13)."""
    found = [row for row in rows if row.waiting is not None and row.session_id != session_id]
    found.sort(key=lambda row: (row.waiting.since_ms if row.waiting else 0, row.session_id))
    return found


def short_path(path: str, home: str) -> str:
    """`~` for the home directory."""
    if home and (path == home or path.startswith(home + "/")):
        path = "~" + path[len(home) :]
    return clean(path, 1000)


def header_line(row: RosterRow | None, facts: HeaderFacts, width: int) -> Line:
    """`‹ name   ◆ label  41s`, then the chip of the others, agent, directory, clock."""
    right = _header_right(row, facts, width)
    left: list[Piece] = [("‹ ", FAINT)]
    if row is not None:
        left += [(cut(title_of(row), max(12, width // 3)), BOLD), ("   ", TEXT)]
    if facts.trouble:
        left += [(facts.trouble, Ink("attention"))]
    elif row is not None:
        left += [state_mark(row, UNICODE), (" ", TEXT), *label_pieces(row, facts.now_ms)]
        if row.turn_started_at_ms is not None and is_working(row):
            left.append((f"  {age_text(facts.now_ms - row.turn_started_at_ms)}", MUTED))
    return ((" ", TEXT), *spread(left, right, width - 2), (" ", TEXT))


def _header_right(row: RosterRow | None, facts: HeaderFacts, width: int) -> list[Piece]:
    """Directory, agent, clock go in this order when there is no room."""
    right: list[Piece] = []
    if facts.others_waiting:
        plural = "s" if facts.others_waiting == 1 else ""
        words = (
            f" {facts.others_waiting} need{plural} you "
            if width >= 60
            else f" ? {facts.others_waiting} "
        )
        right.append((words, _CHIP))
    tail: list[str] = []
    if row is not None and width >= 72:
        tail.append(clean(row.agent, 20))
    if row is not None and width >= 96:
        tail.append(cut_left(short_path(row.cwd, facts.home), width // 5))
    if width >= 50:
        tail.append(facts.clock)
    if right and tail:
        right.append(("    " if width >= 96 else "  ", TEXT))
    return [*right, ("  ".join(word for word in tail if word), MUTED)]


def cut_left(path: str, width: int) -> str:
    """A path cut from the left, whole parts first: `…/deep/dir`."""
    if width_of([(path, TEXT)]) <= width:
        return path
    parts = PurePath(path).parts
    for start in range(1, len(parts)):
        short = "/".join(("…", *parts[start:]))
        if width_of([(short, TEXT)]) <= width:
            return short
    return cut(path, width)


# the queue


class Outgoing(msgspec.Struct, kw_only=True, frozen=True):
    """A prompt on its way to the daemon: shown at once, before it is confirmed."""

    prompt_id: str
    text: str


def queue_lines(
    queue: Sequence[QueuedPrompt],
    outgoing: Sequence[Outgoing],
    width: int,
    *,
    most: int = 5,
    chosen: str | None = None,
    keys: Sequence[tuple[str, str]] = (),
) -> list[Line]:
    """Heading and one line a prompt; with more than `most` the last ones, which can be edited."""
    if not queue and not outgoing:
        return []
    edge = 3 if width >= 60 else 1
    room = width - 2 * edge
    known = {prompt.prompt_id for prompt in queue}
    rows = [_queued_pieces(index, prompt) for index, prompt in enumerate(queue, 1)]
    rows += [
        [("… ", Ink("accent")), (clean(prompt.text), MUTED)]
        for prompt in outgoing
        if prompt.prompt_id not in known
    ]
    ids = [prompt.prompt_id for prompt in queue] + [""] * (len(rows) - len(queue))
    hints = _hint_pieces(keys)
    hidden = max(0, len(rows) - most)
    title = f"{len(rows)}" + (f" · first {hidden} not shown" if hidden else "")
    lines = [_heading("Queued", title, edge, room)]
    for index, (pieces, prompt_id) in enumerate(zip(rows[hidden:], ids[hidden:], strict=True)):
        filled = spread(pieces, hints if index == 0 else [], room)
        ground = "sel" if chosen is not None and prompt_id == chosen else ""
        bar: Piece = ("▌", Ink("accent")) if ground else (" ", TEXT)
        outside: list[Piece] = [(" " * (edge - 1), TEXT), bar]
        lines.append(
            (*outside, *((text, ink.on(ground) if ground else ink) for text, ink in filled))
        )
    return lines


def _queued_pieces(number: int, prompt: QueuedPrompt) -> list[Piece]:
    pieces: list[Piece] = [(f"{number} ", FAINT)]
    if prompt.source == "job":
        pieces.append(("♥ ", _ARMED))
    pieces.append((clean(prompt.text), MUTED if prompt.held else TEXT))
    if prompt.held:
        pieces.append(("  held: the agent did not start", Ink("attention")))
    return pieces


def _hint_pieces(keys: Sequence[tuple[str, str]]) -> list[Piece]:
    pieces: list[Piece] = []
    for key, word in keys:
        pieces += [("  " if pieces else "", TEXT), (key, KEY), (f" {word}", MUTED)]
    return pieces


def _heading(name: str, count: str, edge: int, room: int) -> Line:
    rule = room - len(name) - 2 - len(count) - 1
    return (
        (" " * edge, TEXT),
        (name, BOLD),
        (f"  {count} ", MUTED),
        ("─" * max(0, rule), RULE),
    )


# the status line and the composer's border


class StatusFacts(msgspec.Struct, kw_only=True, frozen=True):
    """What the status line needs beside the row; counts are lines."""

    now_ms: int
    following: bool = True
    new: int = 0
    below: int = 0
    draft: bool = False
    note: str = ""


def status_line(row: RosterRow | None, facts: StatusFacts, width: int) -> Line:
    """Mode, model, schedules; right: where the view stands, and that a draft is kept."""
    edge = 3 if width >= 60 else 1
    left: list[Piece] = []
    if row is not None:
        words = [clean(word, 40) for word in (row.mode, row.model) if word]
        for word in words:
            left += [(" · ", FAINT)] if left else []
            left.append((word, TEXT))
        for badge in badges_of(row, facts.now_ms):
            left += [("   ", TEXT)] if left else []
            ink = FAINT if badge.dim else _BADGE_INKS.get(badge.kind, _ARMED)
            left.append((badge.text, ink))
    right = [piece for part in _status_right(facts) for piece in part]
    return ((" " * edge, TEXT), *spread(left, right, width - 2 * edge))


def _status_right(facts: StatusFacts) -> list[list[Piece]]:
    parts: list[list[Piece]] = []
    if facts.note:
        parts.append([(facts.note, MUTED)])
    if facts.following:
        parts.append([("following", MUTED)])
    elif facts.new:
        parts.append([(f"↓ {facts.new} new  ", MUTED), ("G", KEY)])
    else:
        parts.append([(f"↓ {facts.below} more  ", MUTED), ("G", KEY)])
    if facts.draft:
        parts.append([("draft kept", MUTED)])
    for index in range(len(parts) - 1, 0, -1):
        parts.insert(index, [(" · ", FAINT)])
    return parts


SendMode = Literal["send", "queue", "wake", "edit", "wait"]


def send_mode(row: RosterRow | None, *, editing: bool, connected: bool) -> SendMode:
    """What enter does now."""
    if editing:
        return "edit"
    if not connected:
        return "wait"
    if row is None:
        return "send"
    if is_working(row):
        return "queue"
    return "send" if row.resident else "wake"


SEND_WORDS: Final[dict[SendMode, str]] = {
    "send": "enter sends",
    "queue": "enter queues behind this turn",
    "wake": "enter wakes the session and sends",
    "edit": "enter saves the queued prompt · empty removes it",
    "wait": "daemon not reachable · enter sends when it is back",
}


def key_line(keys: Sequence[tuple[str, str]], last: tuple[str, str], width: int) -> Line:
    """The key bar: as many whole pairs as fit, `last` always at the right end (look 5)."""
    tail = _hint_pieces([last])
    room = width - 2 - width_of(tail) - 2
    left: list[Piece] = []
    for key, word in keys:
        pair: list[Piece] = [("   " if left else "", TEXT), (key, KEY), (f" {word}", MUTED)]
        if width_of(left) + width_of(pair) > room:
            break
        left += pair
    return ((" ", TEXT), *spread(left, tail, width - 2), (" ", TEXT))
