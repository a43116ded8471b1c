"""Growing blocks: what `TranscriptFolder` keeps per block until somebody wants to see it.

A builder takes entries in any order and forgets them; `build` makes the frozen block.
"""

from __future__ import annotations

from bisect import bisect_left
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
    ToolState,
    TurnEndBlock,
)
from daemon_client.protocol.transcript import (
    Diff,
    MessageEntry,
    NoticeEntry,
    NoticeLevel,
    PermissionEntry,
    PlanEntry,
    PromptEntry,
    PromptSource,
    ThoughtEntry,
    ToolEntry,
    TurnEndEntry,
)

_DONE: Final = frozenset({"completed", "done", "success"})
_FAILED: Final = frozenset({"failed", "error", "cancelled", "rejected"})


class Builder:
    """`key` is for life, `version` moves with every change."""

    __slots__ = ("at_ms", "built", "first", "key", "last", "version")

    def __init__(self, key: int, seq: int, at_ms: int) -> None:
        self.key = key
        self.first = self.last = seq
        self.at_ms = at_ms
        self.version = 0
        self.built: Block | None = None

    def touch(self) -> None:
        """Something changed: the block is built anew."""
        self.version += 1
        self.built = None

    def widen(self, seq: int, at_ms: int) -> bool:
        """Take an entry into the range; True if it is the newest of the block."""
        if seq < self.first:
            self.first, self.at_ms = seq, at_ms
            return False
        newest = seq >= self.last
        self.last = max(self.last, seq)
        return newest

    def block(self) -> Block:
        """The block as it stands."""
        if self.built is None:
            self.built = self.build()
        return self.built

    def build(self) -> Block:
        raise NotImplementedError


class _Run:
    """Text of consecutive entries. Only between runs can anything be missing."""

    __slots__ = ("first", "first_at", "last", "last_at", "texts")

    def __init__(self, seq: int, at_ms: int, text: str) -> None:
        self.first = self.last = seq
        self.first_at = self.last_at = at_ms
        self.texts = [text]

    def text(self) -> str:
        """All of it; joined once, so that many small pieces do not stay."""
        if len(self.texts) > 1:
            self.texts = ["".join(self.texts)]
        return self.texts[0]


class TextBuilder(Builder):
    """A message or a thought: adjacent pieces of one kind."""

    __slots__ = ("next_at", "next_seq", "runs", "thought")

    def __init__(self, key: int, entry: MessageEntry | ThoughtEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.thought = isinstance(entry, ThoughtEntry)
        self.runs = [_Run(entry.seq, entry.at_ms, entry.text)]
        self.next_at: int | None = None
        self.next_seq = 0

    def same_kind(self, entry: MessageEntry | ThoughtEntry) -> bool:
        return self.thought == isinstance(entry, ThoughtEntry)

    def add(self, entry: MessageEntry | ThoughtEntry) -> None:
        """Put a piece where its number says."""
        last = self.runs[-1]
        self.widen(entry.seq, entry.at_ms)
        if entry.seq == last.last + 1:
            last.texts.append(entry.text)
            last.last, last.last_at = entry.seq, entry.at_ms
        else:
            index = bisect_left(self.runs, entry.seq, key=lambda run: run.first)
            self.runs.insert(index, _Run(entry.seq, entry.at_ms, entry.text))
            self._join(index)
            self._join(index - 1)
        self.touch()

    def _join(self, index: int) -> None:
        if not 0 <= index < len(self.runs) - 1:
            return
        left, right = self.runs[index], self.runs[index + 1]
        if left.last + 1 == right.first:
            left.texts += right.texts
            left.last, left.last_at = right.last, right.last_at
            del self.runs[index + 1]

    def absorb(self, later: TextBuilder) -> None:
        """Continue with a block that turned out to be adjacent."""
        self.runs += later.runs
        self._join(len(self.runs) - len(later.runs) - 1)
        self.last = self.runs[-1].last
        self.next_at, self.next_seq = later.next_at, later.next_seq
        self.touch()

    def split(self, key: int, seq: int) -> TextBuilder | None:
        """Cut at `seq`, where something else belongs; the later half, if there is one."""
        index = bisect_left(self.runs, seq, key=lambda run: run.first)
        if index == len(self.runs):
            return None
        later = TextBuilder.__new__(TextBuilder)
        Builder.__init__(later, key, self.runs[index].first, self.runs[index].first_at)
        later.thought = self.thought
        later.runs, self.runs = self.runs[index:], self.runs[:index]
        later.last, self.last = later.runs[-1].last, self.runs[-1].last
        later.next_at, later.next_seq = self.next_at, self.next_seq
        self.next_at, self.next_seq = None, 0
        self.touch()
        return later

    def followed_by(self, seq: int, at_ms: int) -> bool:
        """Note what came next, which ends a thought; True if that is news."""
        if not self.thought or seq < self.last or (self.next_seq and self.next_seq <= seq):
            return False
        self.next_at, self.next_seq = at_ms, seq
        self.touch()
        return True

    def build(self) -> Block:
        text = "".join(run.text() for run in self.runs)
        if not self.thought:
            return MessageBlock(seq=self.first, at_ms=self.at_ms, text=text)
        end = self.runs[-1].last_at if self.next_at is None else self.next_at
        return ThoughtBlock(
            seq=self.first,
            at_ms=self.at_ms,
            text=text,
            duration_ms=max(0, end - self.at_ms),
            open=self.next_at is None,
        )


class PromptBuilder(Builder):
    __slots__ = ("parts", "prompt_id", "source")

    def __init__(self, key: int, entry: PromptEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.prompt_id = entry.prompt_id
        self.source: PromptSource = entry.source
        self.parts = {entry.part: entry.text}

    def add(self, entry: PromptEntry) -> None:
        self.widen(entry.seq, entry.at_ms)
        self.parts[entry.part] = entry.text
        self.touch()

    def build(self) -> Block:
        text = "".join(self.parts[part] for part in sorted(self.parts))
        return PromptBlock(
            seq=self.first,
            at_ms=self.at_ms,
            prompt_id=self.prompt_id,
            text=text,
            source=self.source,
        )


class ToolBuilder(Builder):
    __slots__ = (
        "cut_at", "diffs", "ended_at", "locations", "output", "status", "title", "tool_id",
        "tool_kind",
    )  # fmt: skip

    def __init__(self, key: int, entry: ToolEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.tool_id = entry.tool_id
        self.title = self.tool_kind = self.status = ""
        self.output: str | None = None
        self.diffs: tuple[Diff, ...] = ()
        self.locations: tuple[str, ...] = ()
        self.ended_at: int | None = None
        self.cut_at: int | None = None
        self.add(entry)

    def add(self, entry: ToolEntry) -> None:
        """An empty field means "as before"; an older entry only fills what is missing."""
        newest = self.widen(entry.seq, entry.at_ms)
        if newest:
            self.title = entry.title or self.title
            self.tool_kind = entry.tool_kind or self.tool_kind
            self.status = entry.status or self.status
            self.output = self.output if entry.output is None else entry.output
            self.diffs = entry.diffs or self.diffs
            self.locations = entry.locations or self.locations
        else:
            self.title = self.title or entry.title
            self.tool_kind = self.tool_kind or entry.tool_kind
            self.status = self.status or entry.status
            self.output = entry.output if self.output is None else self.output
            self.diffs = self.diffs or entry.diffs
            self.locations = self.locations or entry.locations
        if entry.status in _DONE or entry.status in _FAILED:
            self.ended_at = (
                entry.at_ms if self.ended_at is None else min(self.ended_at, entry.at_ms)
            )
        self.touch()

    @property
    def open(self) -> bool:
        return self.ended_at is None and self.cut_at is None

    def cut(self, at_ms: int) -> None:
        """The turn is over, so this cannot run any more."""
        self.cut_at = at_ms
        self.touch()

    def starts_anew(self, entry: ToolEntry) -> bool:
        """Whether an agent uses an old id for another call."""
        return not self.open and bool(entry.title) and entry.status in ("pending", "in_progress")

    def _state(self) -> ToolState:
        if self.ended_at is not None:
            return "failed" if self.status in _FAILED else "done"
        return "running" if self.cut_at is None else "cut"

    def build(self) -> Block:
        end = self.cut_at if self.ended_at is None else self.ended_at
        return ToolBlock(
            seq=self.first,
            at_ms=self.at_ms,
            tool_id=self.tool_id,
            state=self._state(),
            title=self.title,
            tool_kind=self.tool_kind,
            status=self.status,
            output=self.output or "",
            diffs=self.diffs,
            locations=self.locations,
            duration_ms=None if end is None else max(0, end - self.at_ms),
        )


class PlanBuilder(Builder):
    __slots__ = ("items",)

    def __init__(self, key: int, entry: PlanEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.items = entry.items

    def add(self, entry: PlanEntry) -> None:
        if self.widen(entry.seq, entry.at_ms):
            self.items = entry.items
        self.touch()

    def build(self) -> Block:
        return PlanBlock(seq=self.first, at_ms=self.at_ms, items=self.items)


class PermissionBuilder(Builder):
    __slots__ = ("by", "outcome", "request_id", "text")

    def __init__(self, key: int, entry: PermissionEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.request_id = entry.request_id
        self.text, self.outcome, self.by = entry.text, entry.outcome, entry.by

    def add(self, entry: PermissionEntry) -> None:
        self.widen(entry.seq, entry.at_ms)
        self.text = self.text or entry.text
        self.outcome = self.outcome or entry.outcome
        self.by = self.by or entry.by
        self.touch()

    def build(self) -> Block:
        return PermissionBlock(
            seq=self.first,
            at_ms=self.at_ms,
            request_id=self.request_id,
            text=self.text,
            outcome=self.outcome,
            by=self.by,
        )


class TurnEndBuilder(Builder):
    __slots__ = ("entry", "prompt")

    def __init__(self, key: int, entry: TurnEndEntry, prompt: PromptBuilder | None) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.entry, self.prompt = entry, prompt

    def build(self) -> Block:
        began = None if self.prompt is None else self.prompt.at_ms
        return TurnEndBlock(
            seq=self.first,
            at_ms=self.at_ms,
            prompt_id=self.entry.prompt_id,
            stop_reason=self.entry.stop_reason,
            cause=self.entry.cause,
            duration_ms=None if began is None else max(0, self.at_ms - began),
        )


class NoticeBuilder(Builder):
    __slots__ = ("level", "text")

    def __init__(self, key: int, entry: NoticeEntry) -> None:
        super().__init__(key, entry.seq, entry.at_ms)
        self.text = entry.text
        self.level: NoticeLevel = entry.level

    def build(self) -> Block:
        return NoticeBlock(seq=self.first, at_ms=self.at_ms, text=self.text, level=self.level)
