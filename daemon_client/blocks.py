"""A transcript as people read it: blocks, folded from its entries (`daemon_client.transcript`).

`seq` and `at_ms` are those of the first entry of a block. Texts are foreign and not cleaned yet:
whoever draws them does that (spec 03.8).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from daemon_client.protocol.transcript import Diff, NoticeLevel, PlanItem, PromptSource

ToolState = Literal["running", "done", "failed", "cut"]
"""`cut`: its turn ended before the tool did."""


class Base(msgspec.Struct, kw_only=True, frozen=True):
    """What every block has."""

    seq: int
    at_ms: int


class PromptBlock(Base, kw_only=True, frozen=True):
    """What was asked, all parts joined."""

    prompt_id: str
    text: str
    source: PromptSource = "person"


class MessageBlock(Base, kw_only=True, frozen=True):
    """One answer of the agent, Markdown."""

    text: str


class ThoughtBlock(Base, kw_only=True, frozen=True):
    """One train of thought; `duration_ms` runs to whatever came next."""

    text: str
    duration_ms: int = 0
    open: bool = False


class ToolBlock(Base, kw_only=True, frozen=True):
    """One tool call as it stands now; `duration_ms` is None while it runs."""

    tool_id: str
    state: ToolState
    title: str = ""
    tool_kind: str = ""
    status: str = ""
    output: str = ""
    diffs: tuple[Diff, ...] = ()
    locations: tuple[str, ...] = ()
    duration_ms: int | None = None


class PlanBlock(Base, kw_only=True, frozen=True):
    """The latest plan of a turn."""

    items: tuple[PlanItem, ...] = ()


class PermissionBlock(Base, kw_only=True, frozen=True):
    """A permission; `outcome` and `by` are empty while it waits."""

    request_id: str
    text: str = ""
    outcome: str = ""
    by: str = ""


class TurnEndBlock(Base, kw_only=True, frozen=True):
    """A turn ended; `duration_ms` is None if its prompt is not known here."""

    prompt_id: str
    stop_reason: str
    cause: str = ""
    duration_ms: int | None = None


class NoticeBlock(Base, kw_only=True, frozen=True):
    """Something that happened to the session."""

    text: str
    level: NoticeLevel = "info"


Block = (
    PromptBlock
    | MessageBlock
    | ThoughtBlock
    | ToolBlock
    | PlanBlock
    | PermissionBlock
    | TurnEndBlock
    | NoticeBlock
)


def raw_text(block: Block) -> str:
    """What copying a block gives: its own text, nothing of ours around it."""
    match block:
        case PromptBlock() | MessageBlock() | ThoughtBlock() | NoticeBlock() | PermissionBlock():
            return block.text
        case ToolBlock():
            return block.output or "\n".join(diff.new_text for diff in block.diffs) or block.title
        case PlanBlock():
            return "\n".join(item.text for item in block.items)
        case TurnEndBlock():
            return block.cause or block.stop_reason
