"""One line of the board as pieces of styled text, by tokens of the look (look.md 2–4). Pure."""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from agents_view.board.columns import LEFT, RIGHT, Columns
from agents_view.board.ink import FAINT, MUTED, RULE, TEXT, Ink, Piece, cut, width_of
from agents_view.board.item import Item
from agents_view.board.model import BoardLine, BoardModel
from agents_view.board.steady import steady
from agents_view.board.welcome import MEANING, lesson
from daemon_client.roster import RosterRow
from daemon_client.status import Badge, Section, age_text, badges_of, label_of, section_of

HEADINGS: Final[dict[Section, str]] = {
    "running": "Running",
    "idle": "Idle",
    "inactive": "Inactive",
}


class Glyphs(msgspec.Struct, kw_only=True, frozen=True):
    """The marks; the ASCII set is for terminals that cannot draw ours (look.md 3)."""

    running: str = "◆"
    beat: str = "◈"
    idle: str = "●"
    inactive: str = "○"
    failed: str = "✗"
    stale: str = "◇"
    unread: str = "•"
    marked: str = "✓"
    selected: str = "▌"
    folded: str = "▸"
    open: str = "▾"
    rule: str = "─"
    heartbeat: str = "♥"
    cron: str = "◷"
    pending: str = "…"
    dot: str = "·"
    ascii: bool = False


UNICODE: Final = Glyphs()
ASCII: Final = Glyphs(
    running="R", beat="R", idle="I", inactive="-", failed="X", stale="~", unread="*", marked="+",
    selected=">", folded=">", open="v", rule="-", heartbeat="H", cron="C", pending=".", dot="-",
    ascii=True,
)  # fmt: skip


class Painting(msgspec.Struct, kw_only=True, frozen=True):
    """Everything a line's picture depends on besides the line and its row."""

    width: int
    columns: Columns
    now_ms: int
    glyphs: Glyphs = UNICODE
    mono: bool = False
    beat: bool = False
    connected: bool = True
    home: str = ""


def state_mark(row: RosterRow, glyphs: Glyphs, *, beat: bool = False) -> Piece:
    """Shape says the state, colour only whether somebody waits, works or failed."""
    section = section_of(row)
    if row.stale:
        return glyphs.stale, MUTED
    if failed(row):
        return glyphs.failed, Ink("error")
    if section == "running":
        if row.waiting is not None:
            return glyphs.running, Ink("attention")
        return (glyphs.beat if beat else glyphs.running), Ink("running")
    if row.waiting is not None:
        shape = glyphs.idle if section == "idle" else glyphs.inactive
        return shape, Ink("attention")
    return (glyphs.idle if section == "idle" else glyphs.inactive), MUTED


def failed(row: RosterRow) -> bool:
    """Whether the last that is known of it is a failure."""
    if section_of(row) == "running":
        return False
    bad_task = row.task is not None and row.task.status == "failed"
    return row.worker_state == "failed" or bad_task or bool(row.exit_cause)


_LOUD: Final = {
    "needs approval:": Ink("attention", bold=True),
    "asks:": Ink("attention", bold=True),
    "needs login:": Ink("attention", bold=True),
    "failed:": Ink("error", bold=True),
}
_CALM: Final = ("running tools:",)
_QUIET: Final = ("heartbeat", "asleep", "wakes now", "completed", "cancelled", "archived")


def label_pieces(row: RosterRow, now_ms: int) -> list[Piece]:
    """The label, its keyword emphasised: colour never covers the sentence (look.md 2)."""
    label = steady(label_of(row, now_ms), 500)
    if not label:
        return []
    if row.stale:
        return [(label, Ink("muted", italic=True))]
    for keyword, ink in _LOUD.items():
        if label.startswith(keyword):
            return [(keyword, ink), (label[len(keyword) :], TEXT)]
    for keyword in _CALM:
        if label.startswith(keyword):
            return [(keyword, MUTED), (label[len(keyword) :], TEXT)]
    if label in ("needs login", "failed"):
        return [(label, Ink("attention" if label == "needs login" else "error", bold=True))]
    if label.startswith(_QUIET):
        return [(label, MUTED)]
    return [(label, Ink("error") if row.exit_cause and failed(row) else TEXT)]


def badge_pieces(row: RosterRow, painting: Painting) -> list[list[Piece]]:
    """One group of pieces per badge, in their order (R10–R13)."""
    return [_badge(badge, painting) for badge in badges_of(row, painting.now_ms)]


def _badge(badge: Badge, painting: Painting) -> list[Piece]:
    glyphs, text = painting.glyphs, badge.text
    if glyphs.ascii:
        text = text.replace("♥", glyphs.heartbeat).replace("◷", glyphs.cron).replace("·", "-")
    if badge.kind == "waiting":
        return [(text, Ink("attention", bold=True))]
    if not painting.columns.countdowns:
        text = text.split(glyphs.dot)[0]
    if badge.dim:
        # in monochrome grey cannot tell paused from armed
        return [(f"{text}p" if painting.mono else text, FAINT)]
    return [(text, Ink("schedule"))]


def _fit_badges(groups: list[list[Piece]], width: int, gap: int, dot: str) -> list[Piece]:
    """Packed from the left; too wide: countdowns go first, from the right."""
    for index in range(len(groups) - 1, -1, -1):
        if _packed_width(groups, gap) <= width:
            break
        text, ink = groups[index][0]
        groups[index] = [(text.split(dot)[0] if not text.startswith("?") else text, ink)]
    pieces: list[Piece] = []
    for group in groups:
        extra = gap if pieces else 0
        if width_of(pieces) + extra + width_of(group) > width:
            break
        pieces += [(" " * extra, TEXT), *group] if extra else group
    return pieces


def _packed_width(groups: list[list[Piece]], gap: int) -> int:
    return sum(width_of(group) for group in groups) + gap * max(0, len(groups) - 1)


def paint(
    line: BoardLine, model: BoardModel, painting: Painting, *, pending: bool = False
) -> list[Piece]:
    """The whole line without the selection, exactly `painting.width` cells or less."""
    if line.kind == "heading":
        return _heading(line.section, model.counts.of(line.section), painting)
    if line.kind == "nothing":
        return _nothing(line.section, model, painting)
    if line.kind == "lesson":
        words = lesson(model.installed)[int(line.session_id)]
        return cut_line([(" " * LEFT, TEXT), *words], painting.width)
    item = model.items.get(line.session_id)
    if item is None or line.kind == "blank":
        return []
    pieces = _summary(line, item, model, painting) if line.kind == "summary" else None
    if pieces is None:
        pieces = _session(line, item, painting, pending=pending)
    return pieces if painting.connected else [(text, FAINT) for text, _ in pieces]


def _heading(section: Section, count: int, painting: Painting) -> list[Piece]:
    head: list[Piece] = [
        ("   ", TEXT),
        (HEADINGS[section], Ink(bold=True)),
        (f"  {count} ", MUTED),
    ]
    left = painting.width - width_of(head) - RIGHT
    return [*head, (painting.glyphs.rule * max(0, left), RULE)]


def _nothing(section: Section, model: BoardModel, painting: Painting) -> list[Piece]:
    """A section without rows; on an empty board it explains itself."""
    if model.items or not model.complete:
        word = "No agents" if model.complete else painting.glyphs.pending
        return [(" " * LEFT, TEXT), (word, FAINT)]
    glyphs = painting.glyphs
    mark = {
        "running": (glyphs.running, Ink("running")),
        "idle": (glyphs.idle, MUTED),
        "inactive": (glyphs.inactive, MUTED),
    }[section]
    words: list[Piece] = [("   ", TEXT), mark, (" ", TEXT), (MEANING[section], MUTED)]
    return cut_line(words, painting.width - RIGHT)


def _summary(line: BoardLine, parent: Item, model: BoardModel, painting: Painting) -> list[Piece]:
    """`▸ 2 of 5 subagents running · 1 heartbeat` (R30)."""
    row, glyphs = parent.row, painting.glyphs
    total = model.child_count(line.session_id)
    noun = "subagent" if total == 1 else "subagents"
    running = row.running_children
    text = f"{running} of {total} {noun} running" if running else f"{total} {noun}"
    beats = row.tree_heartbeats.active - row.heartbeats.active
    if beats > 0:
        text += f" {glyphs.dot} {beats} heartbeat{'' if beats == 1 else 's'}"
    shown = line.session_id in model.expanded or bool(model.filter_text)
    mark = glyphs.open if shown else glyphs.folded
    indent = LEFT + 2 * (line.depth - 1)
    room = painting.width - indent - RIGHT
    return [(" " * indent, TEXT), (cut(f"{mark} {text}", room), MUTED)]


def _session(line: BoardLine, item: Item, painting: Painting, *, pending: bool) -> list[Piece]:
    row, columns, glyphs = item.row, painting.columns, painting.glyphs
    mark = (glyphs.unread, Ink("accent", bold=True)) if row.unread else (" ", TEXT)
    state = state_mark(row, glyphs, beat=painting.beat)
    guide = "  " + _ascii_guide(line.guide, glyphs) if line.depth else ""
    indent = width_of([(guide, RULE)])
    pieces: list[Piece] = [(" ", TEXT), mark, (" ", TEXT), (guide, RULE), state, (" ", TEXT)]
    if columns.narrow:
        return pieces + _narrow(item, painting, indent, pending=pending)
    room = max(4, columns.title - indent)
    pieces += _padded(_title(item, room, glyphs, pending=pending), room)
    if columns.agent:
        pieces += [("  ", TEXT), *_padded([(cut(steady(row.agent, 60), columns.agent), FAINT)], 8)]
    pieces += [("  ", TEXT), *_label_and_badges(row, painting)]
    if columns.age:
        age = cut(row_age(row, painting.now_ms), columns.age)
        pieces += [(" " * columns.before_age + age.rjust(columns.age), FAINT)]
    if columns.cwd:
        pieces += [("  ", TEXT), (_short_cwd(row.cwd, columns.cwd, painting.home), FAINT)]
    return pieces


def _ascii_guide(guide: str, glyphs: Glyphs) -> str:
    if not glyphs.ascii:
        return guide
    return guide.replace("├", "|").replace("└", "`").replace("│", "|")


def _title(item: Item, room: int, glyphs: Glyphs, *, pending: bool) -> list[Piece]:
    row = item.row
    if row.unread:
        ink = Ink(bold=True)
    else:
        ink = MUTED if item.section == "inactive" or row.stale else TEXT
    if not pending:
        return [(cut(item.title, room), ink)]
    return [(cut(item.title, room - 2), ink), (f" {glyphs.pending}", Ink("accent"))]


def _label_and_badges(row: RosterRow, painting: Painting) -> list[Piece]:
    """A row without badges lets its label run through their column."""
    columns = painting.columns
    groups = badge_pieces(row, painting)
    gap = 1 if columns.before_age == 1 else 2
    both = columns.label + 2 + columns.badges
    if not groups:
        return _padded(cut_line(label_pieces(row, painting.now_ms), both), both)
    label = cut_line(label_pieces(row, painting.now_ms), columns.label)
    badges = _fit_badges(groups, columns.badges, gap, painting.glyphs.dot)
    return [
        *_padded(label, columns.label),
        ("  ", TEXT),
        *_padded(badges, columns.badges),
    ]


def _narrow(item: Item, painting: Painting, indent: int, *, pending: bool) -> list[Piece]:
    """Below 60 columns: title, what is left for the label, badges at the right."""
    room = painting.width - LEFT - indent - RIGHT
    dot = painting.glyphs.dot
    badges = _fit_badges(badge_pieces(item.row, painting), max(0, room // 2), 1, dot)
    right = width_of(badges)
    room -= right + 2 if right else 0
    title = _title(item, room, painting.glyphs, pending=pending)
    left = room - width_of(title) - 2
    label: list[Piece] = []
    if left >= 8:
        cut_label = cut_line(label_pieces(item.row, painting.now_ms), left)
        label = [("  ", TEXT), *cut_label]
    line = _padded([*title, *label], room)
    return [*line, ("  ", TEXT), *badges] if right else line


def cut_line(pieces: list[Piece], width: int) -> list[Piece]:
    """At most `width` cells, `…` where something is missing."""
    if width_of(pieces) <= width:
        return pieces
    kept: list[Piece] = []
    left = width
    for text, ink in pieces:
        part = cut(text, left)
        if part:
            kept.append((part, ink))
        left -= width_of([(part, ink)])
        if part != text:
            break
    return kept


def _padded(pieces: list[Piece], width: int) -> list[Piece]:
    missing = width - width_of(pieces)
    return [*pieces, (" " * missing, TEXT)] if missing > 0 else pieces


def row_age(row: RosterRow, now_ms: int) -> str:
    """How long the turn lasts, else how long ago something happened."""
    since = row.turn_started_at_ms or row.last_activity_at_ms
    if row.waiting is not None:
        since = row.waiting.since_ms
    return age_text(now_ms - since) if since > 0 else ""


@functools.lru_cache(2048)
def _short_cwd(cwd: str, width: int, home: str) -> str:
    """`~` for the home directory; cut from the left: the end of a path tells most."""
    path = steady(cwd, 1000)
    if home and (path == home or path.startswith(home + "/")):
        path = "~" + path[len(home) :]
    if width_of([(path, FAINT)]) <= width:
        return path
    kept = path
    while kept and width_of([(kept, FAINT)]) > width - 1:
        kept = kept[1:]
    slash = kept.find("/")
    return "…" + (kept[slash:] if 0 <= slash < len(kept) // 2 else kept)
