"""One block to lines, by kind. The left edge tells the kind (look 06)."""

from __future__ import annotations

import re
from typing import Final

from agents_view.board.ink import (
    FAINT,
    MUTED,
    RULE,
    TEXT,
    Ink,
    Line,
    Piece,
    spread,
    width_of,
)
from agents_view.board.transcript.frame import (
    EXCERPT,
    Drawn,
    FoldState,
    Frame,
    at,
    head_line,
    more_line,
)
from agents_view.board.transcript.prose import PROSE_WIDTH, ProseLayout
from agents_view.board.transcript.tools import default_fold, draw_tool, has_body
from agents_view.board.transcript.wrap import wrap
from daemon_client.blocks import (
    Block,
    MessageBlock,
    NoticeBlock,
    PermissionBlock,
    PlanBlock,
    PromptBlock,
    ThoughtBlock,
    ToolBlock,
    TurnEndBlock,
)
from daemon_client.text import clean, clean_lines
from daemon_client.transcript_text import PLAN_MARKS, duration_text, end_text, outcome_text

_LONG_MESSAGE: Final = 64 << 10
_FENCES: Final = re.compile(r"^ {0,3}```", re.MULTILINE)
_REFUSALS: Final = re.compile(r"\b(?:reject|deny|denied|refuse|decline|cancel|no)", re.IGNORECASE)
_OWN: Final = "selblur"
_ATTENTION: Final = Ink("attention", bold=True)
_ERROR: Final = Ink("error", bold=True)
_THOUGHT: Final = Ink("faint", italic=True)
_PLAN_INKS: Final = {"completed": MUTED, "in_progress": Ink("running")}


def is_silent(block: Block) -> bool:
    """Whether a block draws nothing: an ordinary end, a message of blanks."""
    match block:
        case TurnEndBlock():
            return not end_text(block)
        case MessageBlock():
            return not block.text or block.text.isspace()
        case _:
            return False


def can_fold(block: Block) -> bool:
    """Whether `o` does anything here."""
    return isinstance(block, ThoughtBlock) or (isinstance(block, ToolBlock) and has_body(block))


def fold_of(block: Block) -> FoldState:
    """How a block stands until somebody folds or opens it."""
    if isinstance(block, ToolBlock):
        return default_fold(block)
    return "folded" if isinstance(block, ThoughtBlock) else "open"


def draw(block: Block, fold: FoldState, frame: Frame, prose: ProseLayout) -> Drawn:
    """The lines of a block. `prose` is this block's own, so that a growing message stays cheap."""
    if is_silent(block):
        return Drawn()
    match block:
        case MessageBlock():
            return _draw_message(block, fold, frame, prose)
        case ToolBlock():
            return draw_tool(block, fold, frame)
        case PromptBlock():
            return _draw_prompt(block, fold, frame)
        case ThoughtBlock():
            return _draw_thought(block, fold, frame)
        case PlanBlock():
            return Drawn(lines=_plan_lines(block, frame))
        case PermissionBlock():
            return Drawn(lines=_permission_lines(block, frame))
        case TurnEndBlock():
            return Drawn(lines=_end_lines(block, frame))
        case NoticeBlock():
            return Drawn(lines=_notice_lines(block, frame))


# prompts


def _draw_prompt(block: PromptBlock, fold: FoldState, frame: Frame) -> Drawn:
    if block.source == "job":
        return _draw_firing(block, fold, frame)
    who = "you" if block.source == "person" else "agent"
    right = f"{who} · {frame.clock(block.at_ms)}"
    room = frame.room(frame.text)
    width = min(PROSE_WIDTH, max(8, room - len(right) - 2))
    rows = wrap([(clean_lines(block.text).strip("\n"), TEXT)], width)
    shown, missing = _excerpt(rows, fold)
    lines: list[Line] = []
    for index, row in enumerate(shown):
        mark: Piece = ("›", Ink("accent", bold=True)) if index == 0 else (" ", TEXT)
        tail: list[Piece] = [(right, FAINT)] if index == 0 else []
        lines.append(_own_line([mark, (" ", TEXT), *spread(row, tail, room)], frame))
    if missing:
        lines.append(more_line(frame, missing, "↓"))
    return Drawn(lines=tuple(lines), hidden=missing > 0)


def _own_line(pieces: list[Piece], frame: Frame) -> Line:
    """A person's line stands on its own ground, one cell wider than the text on both sides."""
    outside = frame.edge - 1
    inner: list[Piece] = [(" ", TEXT), *pieces, (" ", TEXT)]
    return ((" " * outside, TEXT), *((text, ink.on(_OWN)) for text, ink in inner))


def _draw_firing(block: PromptBlock, fold: FoldState, frame: Frame) -> Drawn:
    armed = Ink("schedule")
    head: list[Piece] = [(f"firing · {frame.clock(block.at_ms)} ", armed)]
    rule = frame.room(frame.text) - width_of(head)
    lines = [at(frame.edge, [("♥ ", armed), *head, ("─" * max(0, rule), RULE)])]
    rows = wrap([(clean_lines(block.text).strip("\n"), MUTED)], _prose_room(frame))
    shown, missing = _excerpt(rows, fold)
    lines += [at(frame.text, row) for row in shown]
    if missing:
        lines.append(more_line(frame, missing, "↓"))
    return Drawn(lines=tuple(lines), hidden=missing > 0)


def _excerpt(rows: list[list[Piece]], fold: FoldState) -> tuple[list[list[Piece]], int]:
    missing = len(rows) - EXCERPT
    return (rows, 0) if fold == "all" or missing <= 1 else (rows[:EXCERPT], missing)


# the agent's own


def _draw_message(block: MessageBlock, fold: FoldState, frame: Frame, prose: ProseLayout) -> Drawn:
    """Of a message of hundreds of pages only the end is laid out until somebody asks for all."""
    start, missing, fence = 0, 0, ""
    if len(block.text) > _LONG_MESSAGE and fold != "all":
        step = _LONG_MESSAGE // 2  # in steps, so that a growing message is not laid out anew
        start = block.text.find("\n", len(block.text) // step * step - step) + 1
        missing = block.text.count("\n", 0, start)
        fence = "```\n" if len(_FENCES.findall(block.text, 0, start)) % 2 else ""
    column = frame.text
    rows = prose.update(fence + block.text[start:])
    lines: list[Line] = [at(column, list(row)) if row else () for row in rows]
    if missing:
        lines.insert(0, more_line(frame, missing, "↑"))
    return Drawn(lines=tuple(lines), hidden=missing > 0)


def _draw_thought(block: ThoughtBlock, fold: FoldState, frame: Frame) -> Drawn:
    took = max(0, frame.now_ms - block.at_ms) if block.open else block.duration_ms
    word = "thinking" if block.open else "thought"
    title = f"{word} · {took // 1000}s" if took < 60_000 else f"{word} · {duration_text(took)}"
    if fold == "folded":
        first = clean(block.text[:400].strip())
        more = "" if len(block.text) <= 400 or first.endswith("…") else "…"
        left: list[Piece] = [(f"{title}    {first}{more}", _THOUGHT)]
        room = Frame(width=min(frame.width, PROSE_WIDTH + 2 * frame.text), now_ms=frame.now_ms)
        return Drawn(lines=(head_line(room, ("▸", FAINT), left, []),), live=block.open)
    lines = [head_line(frame, ("▾", FAINT), [(title, _THOUGHT)], [])]
    text = clean_lines(block.text).strip("\n")
    rows = wrap([(text, Ink("muted", italic=True))], _prose_room(frame))
    lines += [at(frame.text, row) for row in rows]
    return Drawn(lines=tuple(lines), live=block.open)


def _plan_lines(block: PlanBlock, frame: Frame) -> tuple[Line, ...]:
    done = sum(item.status == "completed" for item in block.items)
    title: list[Piece] = [("plan", MUTED), (f"  {done} of {len(block.items)}", FAINT)]
    lines = [head_line(frame, (" ", TEXT), title, [])]
    for item in block.items:
        mark = (PLAN_MARKS.get(item.status, "·"), _PLAN_INKS.get(item.status, FAINT))
        ink = MUTED if item.status == "completed" else TEXT
        for index, row in enumerate(wrap([(clean(item.text), ink)], frame.room(frame.body))):
            lead: Piece = mark if index == 0 else (" ", TEXT)
            lines.append(at(frame.text, [lead, (" ", TEXT), *row]))
    return tuple(lines)


# what happened


def _permission_lines(block: PermissionBlock, frame: Frame) -> tuple[Line, ...]:
    outcome = outcome_text(block)
    text = clean_lines(block.text).strip("\n")
    if not outcome:
        return _sentence([("needs approval: ", _ATTENTION), (text, TEXT)], ("?", _ATTENTION), frame)
    refused = bool(_REFUSALS.search(block.outcome)) or block.by in ("cancel", "expiry")
    mark: Piece = ("✗" if refused else "✓", MUTED)
    return _sentence([(f"{outcome}: ", MUTED), (text, TEXT)], mark, frame)


def _end_lines(block: TurnEndBlock, frame: Frame) -> tuple[Line, ...]:
    words, separator, cause = end_text(block).partition(": ")
    calm = block.stop_reason == "cancelled"
    took = "" if block.duration_ms is None else f" · after {duration_text(block.duration_ms)}"
    said: list[Piece] = [(words, MUTED if calm else _ERROR)]
    if separator:
        said += [(separator, MUTED if calm else _ERROR), (cause, TEXT)]
    mark: Piece = ("·", FAINT) if calm else ("✗", Ink("error"))
    return _sentence([*said, (took, FAINT)], mark, frame)


def _notice_lines(block: NoticeBlock, frame: Frame) -> tuple[Line, ...]:
    marks: dict[str, Piece] = {
        "info": ("·", FAINT),
        "warning": ("·", Ink("attention")),
        "error": ("✗", Ink("error")),
    }
    ink = TEXT if block.level == "error" else MUTED
    return _sentence([(clean_lines(block.text).strip("\n"), ink)], marks[block.level], frame)


def _sentence(pieces: list[Piece], mark: Piece, frame: Frame) -> tuple[Line, ...]:
    rows = wrap(pieces, _prose_room(frame)) or [[]]
    first = at(frame.edge, [mark, (" ", TEXT), *rows[0]])
    return (first, *(at(frame.text, row) for row in rows[1:]))


def _prose_room(frame: Frame) -> int:
    return min(PROSE_WIDTH, frame.room(frame.text))
