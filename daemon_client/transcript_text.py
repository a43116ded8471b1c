"""Blocks as plain text, for `agents-view log` and for anybody who reads without a screen.

Everything is cleaned (spec 03.8); no colour, no width: a terminal or a pager wraps the lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

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
from daemon_client.protocol.transcript import Diff, TranscriptEntry
from daemon_client.text import clean, clean_lines
from daemon_client.transcript import fold

TOOL_MARKS: Final = {"running": "◆", "done": "✓", "failed": "✗", "cut": "·"}
PLAN_MARKS: Final = {"completed": "✓", "in_progress": "◆"}
_SOURCES: Final = {"person": "›", "agent": "›", "job": "♥"}
_ENDS: Final = {
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "refusal": "refused by the agent",
    "max_tokens": "stopped: token limit reached",
    "max_turn_requests": "stopped: too many requests in one turn",
    "error": "failed",
}


def duration_text(duration_ms: int) -> str:
    """`0.4s` below ten seconds, then `41s`, `3m 20s`, `2h 5m`."""
    if duration_ms < 9_950:
        return f"{duration_ms / 1000:.1f}s"
    seconds = duration_ms // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60}m"


def end_text(block: TurnEndBlock) -> str:
    """How a turn ended, in our words; empty for an ordinary end."""
    if block.stop_reason == "end_turn":
        return ""
    words = _ENDS.get(block.stop_reason) or f"ended: {clean(block.stop_reason, 80)}"
    if block.cause:
        words += f": {clean(block.cause)}"
    return words


def outcome_text(block: PermissionBlock) -> str:
    """What became of a permission, in our words; empty while it waits."""
    if block.by == "cancel":
        return "cancelled with its turn"
    if block.by == "expiry":
        return "expired with its agent"
    if not block.outcome and not block.by:
        return ""
    chosen = clean(block.outcome, 80).replace("_", " ")
    return f"{chosen} · by rule" if block.by == "policy" else chosen


def lines_of(block: Block, tz: tzinfo | None = None) -> list[str]:
    """One block as lines; empty for what is not worth a line. `tz` None is local time."""
    match block:
        case PromptBlock():
            head = f"{_SOURCES[block.source]} {_time(block.at_ms, tz)}  "
            return _hang(head, block.text)
        case MessageBlock():
            return _strip(clean_lines(block.text).split("\n"))
        case ThoughtBlock():
            return _hang(f"▸ thought · {duration_text(block.duration_ms)}  ", block.text)
        case ToolBlock():
            return _tool_lines(block)
        case PlanBlock():
            marks = [(PLAN_MARKS.get(item.status, "·"), item.text) for item in block.items]
            return ["plan", *(f"  {mark} {clean(text)}" for mark, text in marks)]
        case PermissionBlock():
            outcome = outcome_text(block)
            return _hang(f"? {outcome or 'needs approval'}: ", block.text)
        case TurnEndBlock():
            text = end_text(block)
            return [f"· {text}"] if text else []
        case NoticeBlock():
            return _hang("✗ " if block.level == "error" else "· ", block.text)


def render_plain(entries: Iterable[TranscriptEntry], tz: tzinfo | None = None) -> str:
    """A whole transcript: blocks with an empty line between, ending in a line break."""
    parts = ["\n".join(lines) for block in fold(entries) if (lines := lines_of(block, tz))]
    return "\n\n".join(parts) + "\n" if parts else ""


def _time(at_ms: int, tz: tzinfo | None) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz).strftime("%Y-%m-%d %H:%M")


def _hang(head: str, text: str) -> list[str]:
    first, *rest = _strip(clean_lines(text).split("\n")) or [""]
    return [head + first, *(f"  {line}".rstrip() for line in rest)]


def _strip(lines: list[str]) -> list[str]:
    """Without empty lines around."""
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return [line.rstrip() for line in lines[start:end]]


def _tool_lines(block: ToolBlock) -> list[str]:
    took = "" if block.duration_ms is None else f"  {duration_text(block.duration_ms)}"
    kind = f"{clean(block.tool_kind, 40)}  " if block.tool_kind else ""
    title = clean(block.title) or ", ".join(clean(where) for where in block.locations)
    lines = [f"{TOOL_MARKS[block.state]} {kind}{title}{took}".rstrip()]
    for diff in block.diffs:
        lines += _diff_lines(diff)
    return lines + [f"    {line}" for line in _strip(clean_lines(block.output).split("\n"))]


def _diff_lines(diff: Diff) -> list[str]:
    import difflib

    old, new = clean_lines(diff.old_text).split("\n"), clean_lines(diff.new_text).split("\n")
    changes = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    return [f"    {clean(diff.path)}", *(f"    {line}" for line in changes)]
