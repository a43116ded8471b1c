"""Tool calls as lines: `▸ ✓ read  src/a.py   0.1s`, opened to diffs and output (look 06)."""

from __future__ import annotations

from typing import Final

from agents_view.board.ink import FAINT, MUTED, TEXT, Ink, Line, Piece
from agents_view.board.transcript.diffs import (
    DiffStat,
    diff_lines,
    diff_rows,
    diff_stat,
    first_line_of,
    path_line,
)
from agents_view.board.transcript.frame import (
    EXCERPT,
    TAIL,
    Drawn,
    FoldState,
    Frame,
    head_line,
    more_line,
    plain_lines,
)
from agents_view.board.transcript.wrap import fold_line
from daemon_client.blocks import ToolBlock
from daemon_client.text import clean, clean_lines
from daemon_client.transcript_text import TOOL_MARKS, duration_text

_VERBS: Final = {
    "execute": "run",
    "think": "think",
    "switch_mode": "mode",
    "other": "tool",
    "": "tool",
}
_SAID: Final = {
    "read": ("read", "reading", "view"),
    "edit": ("edit", "editing", "write", "update"),
    "run": ("run", "running", "execute", "bash", "shell"),
    "search": ("search", "searching", "grep", "find"),
    "fetch": ("fetch", "fetching"),
    "delete": ("delete", "deleting", "remove"),
    "move": ("move", "moving", "rename"),
}
_MARK_INKS: Final = {
    "running": Ink("running"),
    "done": MUTED,
    "failed": Ink("error"),
    "cut": FAINT,
}
_TAIL_BYTES: Final = 64 << 10


def default_fold(block: ToolBlock) -> FoldState:
    """Open while it runs, if it changed files, or if it failed; else folded."""
    return "open" if block.state in ("running", "failed") or block.diffs else "folded"


def has_body(block: ToolBlock) -> bool:
    """Whether there is anything to open."""
    return bool(block.diffs or block.output.strip() or len(block.locations) > 1)


def verb_of(block: ToolBlock) -> str:
    """One plain word for what a tool does."""
    return _VERBS.get(block.tool_kind) or clean(block.tool_kind, 10)


def object_of(block: ToolBlock) -> str:
    """What it does that to: the title without the verb, else the first place."""
    title = clean(block.title).strip()
    first, _, rest = title.partition(" ")
    if rest and first.lower().rstrip(":") in _SAID.get(verb_of(block), ()):
        title = rest.strip()
    if len(title) > 2 and title[0] == title[-1] == "`" and "`" not in title[1:-1]:
        title = title[1:-1]
    if not title and block.locations:
        title = clean(block.locations[0])
    return title


def draw_tool(block: ToolBlock, fold: FoldState, frame: Frame) -> Drawn:
    """A tool call in one of its three states of folding."""
    stats = [diff_stat(diff, first_line_of(diff, block.locations)) for diff in block.diffs]
    opened = fold != "folded" and has_body(block)
    lines = [_head(block, opened, stats, frame)]
    hidden = False
    if opened:
        body, hidden = _body(block, fold, frame)
        lines += body
    return Drawn(lines=tuple(lines), live=block.duration_ms is None, hidden=hidden)


def _head(block: ToolBlock, opened: bool, stats: list[DiffStat], frame: Frame) -> Line:
    arrow = ("▾" if opened else "▸") if has_body(block) else " "
    verb = verb_of(block)
    left: list[Piece] = [
        (TOOL_MARKS[block.state], _MARK_INKS[block.state]),
        (f" {verb:<4}  ", MUTED),
        (object_of(block), TEXT),
    ]
    added = sum(stat.added for stat in stats)
    removed = sum(stat.removed for stat in stats)
    if stats:
        left += [(f"  +{added}", Ink("running")), (f" −{removed}", Ink("error"))]
    took = block.duration_ms
    elapsed = max(0, frame.now_ms - block.at_ms) if took is None else took
    right = "cut off" if block.state == "cut" else _took(elapsed, running=took is None)
    return head_line(frame, (arrow, FAINT), left, [(right, FAINT)])


def _took(elapsed_ms: int, *, running: bool) -> str:
    """Whole seconds while it counts, so that the text does not flicker."""
    return (
        f"{elapsed_ms // 1000}s" if running and elapsed_ms < 10_000 else duration_text(elapsed_ms)
    )


def _body(block: ToolBlock, fold: FoldState, frame: Frame) -> tuple[list[Line], bool]:
    lines: list[Line] = []
    if len(block.locations) > 1:
        places = "  ".join(clean(place) for place in block.locations[:6])
        lines += plain_lines(places, frame.body, FAINT, fold_line, frame)
    diffs, cut_diffs = _diffs(block, fold, frame)
    output, cut_output = _output(block, fold, frame)
    return lines + diffs + output, cut_diffs or cut_output


def _diffs(block: ToolBlock, fold: FoldState, frame: Frame) -> tuple[list[Line], bool]:
    lines: list[Line] = []
    missing = 0
    for diff in block.diffs:
        rows = diff_rows(diff, first_line_of(diff, block.locations))
        # cut before drawing: a rewritten file must not cost a frame
        room = len(rows) if fold == "all" else max(0, EXCERPT - len(lines))
        missing += max(0, len(rows) - room)
        if len(block.diffs) > 1 and room:
            lines.append(path_line(diff.path, frame))
        lines += diff_lines(rows[:room], frame)
    return [*lines, more_line(frame, missing, "↓")] if missing else lines, missing > 0


def _output(block: ToolBlock, fold: FoldState, frame: Frame) -> tuple[list[Line], bool]:
    text = block.output.strip("\n")
    if not text.strip():
        return [], False
    if fold == "all":
        return plain_lines(clean_lines(text), frame.body, MUTED, fold_line, frame), False
    # only the end is looked at: an output of megabytes must not cost a frame
    tail = clean_lines(text[-_TAIL_BYTES:]).rstrip().split("\n")[-TAIL:]
    missing = text.rstrip().count("\n") + 1 - len(tail)
    lines = plain_lines("\n".join(tail), frame.body, MUTED, fold_line, frame)
    if missing <= 0:
        return lines, False
    return [more_line(frame, missing, "↑"), *lines], True
