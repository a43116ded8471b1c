"""Fold transcript entries into blocks, as they come (spec 03.2, 07.4; entries: A14).

Feeding one entry touches a bounded number of blocks, whatever the length of the transcript.
Entries may come twice, late or page by page from the end: their `seq` says where they belong.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

import msgspec

from daemon_client.blocks import Block, raw_text
from daemon_client.builders import (
    Builder,
    NoticeBuilder,
    PermissionBuilder,
    PlanBuilder,
    PromptBuilder,
    TextBuilder,
    ToolBuilder,
    TurnEndBuilder,
)
from daemon_client.protocol.transcript import (
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PlanEntry,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
    TurnEndEntry,
)

__all__ = ["FoldChange", "TranscriptFolder", "fold"]


class FoldChange(msgspec.Struct, kw_only=True, frozen=True):
    """What feeding did: `changed` keys (new ones among them); `reordered` if any but the end moved.

    Without `reordered` the order only grew at its end.
    """

    changed: frozenset[int] = frozenset()
    reordered: bool = False


class SeqSet:
    """Numbers seen, as ranges: appending is O(1) and a whole transcript is one range."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, seq: int) -> bool:
        """False if it was there already."""
        index = bisect_right(self._starts, seq) - 1
        if index >= 0 and seq <= self._ends[index]:
            return False
        after = index + 1 < len(self._starts) and self._starts[index + 1] == seq + 1
        if index >= 0 and self._ends[index] == seq - 1:
            self._ends[index] = seq
            if after:
                self._ends[index] = self._ends[index + 1]
                del self._starts[index + 1], self._ends[index + 1]
        elif after:
            self._starts[index + 1] = seq
        else:
            self._starts.insert(index + 1, seq)
            self._ends.insert(index + 1, seq)
        return True

    @property
    def last(self) -> int:
        """The highest, 0 if there is none."""
        return self._ends[-1] if self._ends else 0

    @property
    def first(self) -> int:
        """The lowest, 0 if there is none."""
        return self._starts[0] if self._starts else 0


def _first(builder: Builder) -> int:
    return builder.first


class TranscriptFolder:
    """Entries in, blocks out. Not thread-safe."""

    def __init__(self) -> None:
        self._seen = SeqSet()
        self._order: list[Builder] = []
        self._by_key: dict[int, Builder] = {}
        self._prompts: dict[str, PromptBuilder] = {}
        self._turn_ends: dict[str, TurnEndBuilder] = {}
        self._tools: dict[str, ToolBuilder] = {}
        self._permissions: dict[str, PermissionBuilder] = {}
        self._plans: list[PlanBuilder] = []
        self._turn_starts: list[int] = []
        self._turn_marks: list[tuple[int, int]] = []
        self._open_tools: dict[int, ToolBuilder] = {}
        self._next_key = 0
        self._changed: set[int] = set()
        self._reordered = False

    @property
    def last_seq(self) -> int:
        """The newest entry known, 0 before the first."""
        return self._seen.last

    @property
    def first_seq(self) -> int:
        """The oldest entry known, 0 before the first."""
        return self._seen.first

    def keys(self) -> Sequence[int]:
        """The keys of all blocks, oldest first."""
        return [builder.key for builder in self._order]

    def keys_from(self, index: int) -> Sequence[int]:
        """The keys from a position on."""
        return [builder.key for builder in self._order[index:]]

    def __len__(self) -> int:
        return len(self._order)

    def block(self, key: int) -> Block:
        """The block as it stands; the same object until it changes."""
        return self._by_key[key].block()

    def version(self, key: int) -> int:
        """Moves with every change of the block."""
        return self._by_key[key].version

    def knows_prompt(self, prompt_id: str) -> bool:
        """Whether that prompt has reached the agent."""
        return prompt_id in self._prompts

    def prompts(self) -> list[str]:
        """What persons asked, oldest first."""
        found = [b for b in self._prompts.values() if b.source == "person"]
        found.sort(key=_first)
        return [raw_text(builder.block()) for builder in found]

    def blocks(self) -> list[Block]:
        """All blocks, oldest first."""
        return [builder.block() for builder in self._order]

    def feed(self, entries: Iterable[TranscriptEntry]) -> FoldChange:
        """Take entries; those seen before are ignored."""
        self._changed, self._reordered = set(), False
        batch = list(entries)
        if batch and batch[0].seq < batch[-1].seq < self._seen.first:
            batch.reverse()  # an older page: so it grows backwards, and known blocks stay the same
        for entry in batch:
            if self._seen.add(entry.seq):
                self._take(entry)
        return FoldChange(changed=frozenset(self._changed), reordered=self._reordered)

    def _take(self, entry: TranscriptEntry) -> None:
        if not isinstance(entry, ThoughtEntry):
            self._end_thought(entry)
        match entry:
            case MessageEntry() | ThoughtEntry():
                self._take_text(entry)
            case ToolEntry():
                self._take_tool(entry)
            case PromptEntry():
                self._take_prompt(entry)
            case PermissionEntry():
                self._take_permission(entry)
            case PlanEntry():
                self._take_plan(entry)
            case TurnEndEntry():
                end = TurnEndBuilder(self._new_key(), entry, self._prompts.get(entry.prompt_id))
                self._turn_ends[entry.prompt_id] = end
                self._insert(end)
                self._mark_turn(entry.seq, entry.at_ms)
            case NoticeEntry():
                self._insert(NoticeBuilder(self._new_key(), entry))
            case RawEntry():
                pass  # kept in the record, not drawn (A11)

    # kinds

    def _take_text(self, entry: MessageEntry | ThoughtEntry) -> None:
        index = self._index_of(entry.seq)
        before = self._text_at(index - 1)
        after = self._text_at(index)
        if before is not None and before.same_kind(entry):
            before.add(entry)
            self._changed.add(before.key)
            if after is not None and after.same_kind(entry):
                self._merge(before, after, index)
        elif after is not None and after.same_kind(entry) and not self._inside(before, entry.seq):
            after.add(entry)
            self._changed.add(after.key)
        else:
            self._insert(TextBuilder(self._new_key(), entry))
        if isinstance(entry, ThoughtEntry):
            self._end_late_thought(entry.seq)

    def _take_tool(self, entry: ToolEntry) -> None:
        tool = self._tools.get(entry.tool_id)
        if tool is None or (entry.seq > tool.last and tool.starts_anew(entry)):
            tool = ToolBuilder(self._new_key(), entry)
            self._tools[entry.tool_id] = tool
            self._insert(tool)
        else:
            self._moving(tool, entry.seq, lambda: tool.add(entry))
        mark = bisect_left(self._turn_marks, (tool.last, 0))
        if tool.open and mark < len(self._turn_marks):
            tool.cut(self._turn_marks[mark][1])  # an older page: its turn has ended since
        if tool.open:
            self._open_tools[tool.key] = tool
        else:
            self._open_tools.pop(tool.key, None)

    def _take_prompt(self, entry: PromptEntry) -> None:
        prompt = self._prompts.get(entry.prompt_id)
        if prompt is not None:
            self._moving(prompt, entry.seq, lambda: prompt.add(entry))
            return
        prompt = PromptBuilder(self._new_key(), entry)
        self._prompts[entry.prompt_id] = prompt
        at = bisect_left(self._turn_starts, entry.seq)
        self._turn_starts.insert(at, entry.seq)
        self._insert(prompt)
        self._mark_turn(entry.seq, entry.at_ms)
        if (end := self._turn_ends.get(entry.prompt_id)) is not None:
            end.prompt = prompt
            end.touch()
            self._changed.add(end.key)

    def _take_permission(self, entry: PermissionEntry) -> None:
        permission = self._permissions.get(entry.request_id)
        if permission is None:
            permission = PermissionBuilder(self._new_key(), entry)
            self._permissions[entry.request_id] = permission
            self._insert(permission)
        else:
            self._moving(permission, entry.seq, lambda: permission.add(entry))

    def _take_plan(self, entry: PlanEntry) -> None:
        """One block per turn: no prompt lies between the plans that share it."""
        at = bisect_left(self._plans, entry.seq, key=_first)
        for plan in self._plans[max(0, at - 1) : at + 1]:
            low, high = sorted((plan.first, entry.seq))
            if bisect_left(self._turn_starts, low) == bisect_left(self._turn_starts, high):
                self._moving(plan, entry.seq, lambda plan=plan: plan.add(entry))
                return
        plan = PlanBuilder(self._new_key(), entry)
        self._plans.insert(at, plan)
        self._insert(plan)

    def _end_thought(self, entry: TranscriptEntry) -> None:
        before = self._text_at(self._index_of(entry.seq) - 1)
        if before is not None and before.followed_by(entry.seq, entry.at_ms):
            self._changed.add(before.key)

    def _end_late_thought(self, seq: int) -> None:
        """A thought of an older page: what follows it is known already."""
        index = self._index_of(seq + 1)
        thought = self._text_at(index - 1)
        if thought is not None and index < len(self._order):
            following = self._order[index]
            thought.followed_by(following.first, following.at_ms)

    def _mark_turn(self, seq: int, at_ms: int) -> None:
        """Where a turn begins or ends nothing runs, even if an agent leaves calls open."""
        insort(self._turn_marks, (seq, at_ms))
        for key, tool in tuple(self._open_tools.items()):
            if tool.last < seq:
                tool.cut(at_ms)
                del self._open_tools[key]
                self._changed.add(key)

    # order

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _index_of(self, seq: int) -> int:
        """Where a block that begins with `seq` stands, or would stand."""
        if not self._order or self._order[-1].first < seq:
            return len(self._order)
        return bisect_left(self._order, seq, key=_first)

    def _text_at(self, index: int) -> TextBuilder | None:
        if not 0 <= index < len(self._order):
            return None
        found = self._order[index]
        return found if isinstance(found, TextBuilder) else None

    @staticmethod
    def _inside(text: TextBuilder | None, seq: int) -> bool:
        return text is not None and text.last > seq

    def _insert(self, builder: Builder) -> None:
        index = self._index_of(builder.first)
        before = self._text_at(index - 1)
        self._by_key[builder.key] = builder
        self._changed.add(builder.key)
        if index < len(self._order):
            self._reordered = True
        self._order.insert(index, builder)
        if before is not None and before.last > builder.first:
            self._split(before, builder, index)

    def _split(self, text: TextBuilder, builder: Builder, index: int) -> None:
        later = text.split(self._new_key(), builder.first)
        self._changed.add(text.key)
        if later is not None:
            self._by_key[later.key] = later
            self._order.insert(index + 1, later)
            self._changed.add(later.key)
            self._reordered = True
        text.followed_by(builder.first, builder.at_ms)

    def _merge(self, before: TextBuilder, after: TextBuilder, index: int) -> None:
        before.absorb(after)
        del self._order[index], self._by_key[after.key]
        self._changed.discard(after.key)
        self._reordered = True

    def _moving(self, builder: Builder, seq: int, add: Callable[[], None]) -> None:
        """Add an entry to a block; an older one moves the block to where it began."""
        self._changed.add(builder.key)
        if seq > builder.first:
            add()
            return
        index = self._index_of(builder.first)
        del self._order[index]
        before, after = self._text_at(index - 1), self._text_at(index)
        if before is not None and after is not None and before.thought == after.thought:
            self._merge(before, after, index)
        add()
        self._insert(builder)
        self._reordered = True


def fold(entries: Iterable[TranscriptEntry]) -> list[Block]:
    """The blocks of a whole transcript, oldest first."""
    folder = TranscriptFolder()
    folder.feed(entries)
    return folder.blocks()
