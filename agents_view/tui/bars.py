"""What header and key bar say, as pieces for a width (look.md 4, 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from agents_view.board.ink import FAINT, KEY, MUTED, TEXT, Ink, Piece, cut, cut_pieces, width_of
from agents_view.board.model import Counts
from agents_view.board.paint import Glyphs
from agents_view.board.upcoming import Firing
from agents_view.tui.actions import key_name
from daemon_client.connection import Link, LinkState
from daemon_client.status import age_text, countdown_text

_NEXT_NAME = 24
CHIP = Ink("chipink", bg="chip", bold=True)


class Header(msgspec.Struct, kw_only=True, frozen=True):
    """The facts of the board's first line."""

    counts: Counts
    link: LinkState
    glyphs: Glyphs
    now_ms: int
    last_seen_ms: int | None = None
    embedded: bool = False
    host: str = "local"
    recording: str = ""
    soonest: Firing | None = None
    soonest_title: str = ""


def header_pieces(header: Header, width: int) -> list[Piece]:
    """Name, chip, counts (or how the link stands); at the right what fires next, host, clock."""
    counts, glyphs = header.counts, header.glyphs
    left: list[Piece] = [(" ", TEXT)]
    if width >= 60:
        left.append(("agents-view", Ink(bold=True)))
        if header.embedded:
            left.append((" embedded", FAINT))
        left.append(("   ", TEXT))
    if counts.need_you:
        text = f" {counts.need_you} need{'s' if counts.need_you == 1 else ''} you "
        left += [(text if width >= 60 else f" ? {counts.need_you} ", CHIP), ("  ", TEXT)]
    if header.link.link is Link.UP:
        left += _counts(counts, glyphs, words=width >= 72)
    else:
        left += _disconnected(header)
    if header.recording:
        left += [("   ", TEXT), (header.recording, Ink("error", bold=True))]
    for right in _rights(header):
        room = width - width_of(right) - 1
        if width_of(left) + (2 if right else 0) <= room or not right:
            left = cut_pieces(left, room)
            gap = room - width_of(left)
            return [*left, (" " * gap, TEXT), *right, (" ", TEXT)]
    return left


def _rights(header: Header) -> Iterator[list[Piece]]:
    """The right end, ever shorter: without host, name of the next, the next, the clock."""
    at = datetime.fromtimestamp(header.now_ms / 1000)
    clock: list[Piece] = [(at.strftime("%H:%M"), MUTED)]
    gap: Piece = ("   ", TEXT)
    if header.soonest is not None and header.link.link is Link.UP:
        yield [*_next(header, name=True), gap, (header.host, MUTED), ("  ", TEXT), *clock]
        yield [*_next(header, name=True), gap, *clock]
        yield [*_next(header, name=False), gap, *clock]
    else:
        yield [(header.host, MUTED), ("  ", TEXT), *clock]
    yield clock
    yield []


def _next(header: Header, *, name: bool) -> list[Piece]:
    assert header.soonest is not None
    glyphs = header.glyphs
    mark = glyphs.heartbeat if header.soonest.kind == "heartbeat" else glyphs.cron
    left = countdown_text(header.soonest.at_ms - header.now_ms)
    title = f"{cut(header.soonest_title, _NEXT_NAME)} " if name else ""
    return [("next ", MUTED), (f"{mark} ", Ink("schedule")), (f"{title}{left}", TEXT)]


def _counts(counts: Counts, glyphs: Glyphs, *, words: bool) -> list[Piece]:
    """The counts; this is also the legend of the shapes. A zero is faint."""
    parts = [
        (glyphs.running, Ink("running"), counts.running, "running"),
        (glyphs.idle, MUTED, counts.idle, "idle"),
        (glyphs.inactive, MUTED, counts.inactive, "inactive"),
    ]
    if counts.unread:
        parts.append((glyphs.unread, Ink("accent", bold=True), counts.unread, "new"))
    pieces: list[Piece] = []
    for mark, ink, count, word in parts:
        number = TEXT if count else FAINT
        pieces += [(mark, ink if count else FAINT), (f" {count}", number)]
        pieces += [(f" {word}  " if words else "  ", MUTED if count else FAINT)]
    return pieces


def _disconnected(header: Header) -> list[Piece]:
    """In place of the counts: what is the matter, and how old the rows are."""
    words = {Link.CONNECTING: "connecting…", Link.RESTARTING: "daemon restarting…"}
    text = words.get(header.link.link, "not connected")
    if header.link.reason and header.link.link is Link.CONNECTING:
        text = header.link.reason
    pieces: list[Piece] = [(text, Ink("attention"))]
    if header.last_seen_ms is not None:
        age = age_text(header.now_ms - header.last_seen_ms)
        pieces += [("  ", TEXT), (f"as of {age} ago", MUTED)]
    return pieces


def key_bar_pieces(
    hints: Sequence[tuple[str, str]], help_key: str, width: int, note: str = ""
) -> list[Piece]:
    """`key word   key word`, as many as fit whole; help, if any, always at the right end."""
    right: list[Piece] = [(help_key, KEY), (" help ", MUTED)] if help_key else []
    room = width - width_of(right) - 1
    pieces: list[Piece] = [(" ", TEXT)]
    if note:
        pieces += [(note, MUTED), ("   ", TEXT)]
    for key, word in hints:
        part: list[Piece] = [(key_name(key), KEY), (f" {word}", MUTED)]
        gap = 3 if len(pieces) > 1 else 0
        if width_of(pieces) + gap + width_of(part) + 2 > room:
            break
        pieces += [(" " * gap, TEXT), *part] if gap else part
    pieces = cut_pieces(pieces, room)
    return [*pieces, (" " * (width - width_of(pieces) - width_of(right)), TEXT), *right]
