"""Cut an agent's prose into segments that can be laid out one by one.

A message grows by chunks; only its last segment changes then, so that a frame costs the same
however long the message is. Segments are bounded: paragraphs by characters, code by lines.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

SegmentKind = Literal["prose", "code", "plain"]

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_LINES: Final = 50
_PROSE_LINES: Final = 120
_LONGEST: Final = 8_192


class Segment(NamedTuple):
    """`start` is an offset into the source, `fence` the fence that is open there.

    `prose` is Markdown, `code` the inside of a fence, `plain` too long to be parsed. `head`: an
    empty line comes before it (not so where something was only cut for its length).
    """

    kind: SegmentKind
    start: int
    text: str
    fence: str = ""
    head: bool = True


def split_segments(source: str, restart: Segment | None = None) -> list[Segment]:
    """All segments, or those from a former one on if the source has only grown since."""
    return _Splitter(source, restart).run()


class _Splitter:
    def __init__(self, source: str, restart: Segment | None) -> None:
        self.source = source
        self.position = restart.start if restart else 0
        self.fence = restart.fence if restart else ""
        self.head = restart.head if restart else True
        self.begin = self.position
        self.lines: list[str] = []
        self.size = 0
        self.found: list[Segment] = []

    def run(self) -> list[Segment]:
        end = len(self.source)
        while self.position < end:
            stop = self.source.find("\n", self.position)
            stop = end if stop < 0 else stop
            line = self.source[self.position : stop]
            if self.fence:
                self._code(line)
            else:
                self._prose(line)
            self.position = stop + 1
        self._flush()
        return self.found

    def _prose(self, line: str) -> None:
        opened = _FENCE.match(line)
        if not line.strip():
            if self.lines:
                self._keep(line)
            return
        after_gap = bool(self.lines) and not self.lines[-1].strip()
        if opened or (after_gap and not line.startswith((" ", "\t"))):
            self._flush()
        if opened:
            self.fence, self.head = opened[1], True
            return
        self._keep(line)
        if self.size > _LONGEST or len(self.lines) > _PROSE_LINES:
            self._flush(head_next=False)

    def _code(self, line: str) -> None:
        bare = line.strip()
        if bare.startswith(self.fence) and not bare.strip(self.fence[0]):
            self._flush()
            self.fence, self.head = "", True
            return
        self._keep(line)
        if len(self.lines) >= _CODE_LINES or self.size > _LONGEST:
            self._flush(head_next=False)

    def _keep(self, line: str) -> None:
        if not self.lines:
            self.begin = self.position
        self.lines.append(line)
        self.size += len(line)

    def _flush(self, head_next: bool = True) -> None:
        if self.lines:
            kind: SegmentKind = "code" if self.fence else "prose"
            if kind == "prose" and self.size > _LONGEST:
                kind = "plain"
            text = "\n".join(self.lines)
            self.found.append(Segment(kind, self.begin, text, self.fence, self.head))
            self.head = head_next
        self.lines, self.size = [], 0
