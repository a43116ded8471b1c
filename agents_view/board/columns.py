"""Columns by the width of the board alone: nothing moves when data changes (look.md 4). Pure."""

from __future__ import annotations

import msgspec

LEFT = 5
"""Cells before the title: selection bar, mark, blank, state, blank."""
RIGHT = 1
"""Empty cells at the right edge."""


class Columns(msgspec.Struct, kw_only=True, frozen=True):
    """Widths in cells; 0 means the column is gone. `label` has whatever the others leave."""

    title: int
    agent: int
    label: int
    badges: int
    age: int
    cwd: int
    before_age: int = 2
    countdowns: bool = True
    narrow: bool = False


def columns_for(width: int) -> Columns:
    """The layout for a board of `width` cells."""
    if width >= 140:
        return _fitted(width, title=30, agent=8, badges=18, age=4, cwd=22)
    if width >= 116:
        return _fitted(width, title=24, agent=8, badges=15, age=4, cwd=16)
    if width >= 104:
        return _fitted(width, title=22, agent=8, badges=14, age=3, cwd=12)
    if width >= 96:
        return _fitted(width, title=22, agent=8, badges=14, age=3)
    if width >= 88:
        return _fitted(width, title=24, badges=14, age=3)
    if width >= 72:
        return _fitted(width, title=20, badges=13, age=3, before_age=1)
    if width >= 60:
        return _fitted(width, title=18, badges=9, countdowns=False)
    return Columns(
        title=max(1, width - LEFT - RIGHT),
        agent=0,
        label=0,
        badges=0,
        age=0,
        cwd=0,
        countdowns=False,
        narrow=True,
    )


def _fitted(
    width: int,
    *,
    title: int,
    badges: int,
    agent: int = 0,
    age: int = 0,
    cwd: int = 0,
    before_age: int = 2,
    countdowns: bool = True,
) -> Columns:
    taken = LEFT + title + 2 + badges + RIGHT + 2
    taken += agent + 2 if agent else 0
    taken += age + before_age if age else 0
    taken += cwd + 2 if cwd else 0
    return Columns(
        title=title,
        agent=agent,
        label=max(0, width - taken),
        badges=badges,
        age=age,
        cwd=cwd,
        before_age=before_age,
        countdowns=countdowns,
    )
