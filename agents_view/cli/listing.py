"""Commands that look at sessions: ls, show, explain."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agents_view.board.item import item_of, title_of
from agents_view.cli.output import OK, plain, print_json, print_line, print_table, row_json, tell
from agents_view.cli.session import daemon, directory, listed, named, now_ms
from daemon_client.ids import short_id
from daemon_client.roster import RosterRow, Schedule
from daemon_client.status import (
    SECTIONS,
    age_text,
    badges_of,
    countdown_text,
    label_of,
    section_of,
)
from daemon_client.text import clean

_HEAD: Final = ("ID", "SECTION", "NAME", "AGENT", "STATE", "", "AGE", "DIRECTORY")


async def ls(args: argparse.Namespace) -> int:
    """Rows, by section; archived ones only when asked for."""
    cwd = directory(args.cwd) if args.cwd else None
    async with daemon() as client:
        rows = [row for row in client.mirror if _wanted(args, row, cwd)]
    if args.filter:
        from agents_view.board.filtering import parse_filter

        matches = parse_filter(args.filter)
        rows = [row for row in rows if matches is None or matches(row)]
    rows = in_order(rows)
    if args.json:
        now = now_ms()
        print_json([row_json(row, now) for row in rows])
    elif rows:
        _print_rows(rows)
    else:
        tell("no sessions")
    return OK


def _wanted(args: argparse.Namespace, row: RosterRow, cwd: str | None) -> bool:
    if args.archived != row.archived and not args.all:
        return False
    if args.section and section_of(row) != args.section:
        return False
    if args.agent and row.agent != args.agent:
        return False
    return cwd is None or row.cwd == cwd


def in_order(rows: list[RosterRow]) -> list[RosterRow]:
    """As the board has them: by section, and inside one by its own rule (R20, R21)."""
    items = [item_of(row) for row in rows]
    items.sort(key=lambda item: (SECTIONS.index(item.section), item.key))
    return [item.row for item in items]


def _print_rows(rows: list[RosterRow]) -> None:
    now, home = now_ms(), str(Path.home())
    cells = [_cells(row, now, home) for row in rows]
    used = [i for i in range(len(_HEAD)) if any(line[i] for line in cells)]
    table = [tuple(line[i] for i in used) for line in (_HEAD, *cells)]
    print_table(fitted(table, shutil.get_terminal_size().columns) if sys.stdout.isatty() else table)


def fitted(table: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The directory gives way to what is left of `width` cells; its end says more than its start.

    A line that wraps is harder to read than a path that is cut.
    """
    from rich.cells import cell_len

    before = sum(max(map(cell_len, column)) + 2 for column in list(zip(*table, strict=True))[:-1])
    room = max(len(_HEAD[-1]), width - before)

    def cut(path: str) -> str:
        if cell_len(path) <= room:
            return path
        end = path[1 - room :]
        while cell_len(end) >= room:
            end = end[1:]
        return "…" + end

    return [(*line[:-1], cut(line[-1])) for line in table]


def _cells(row: RosterRow, now: int, home: str) -> tuple[str, ...]:
    return (
        short_id(row.session_id),
        section_of(row),
        ("• " if row.unread else "") + clean(title_of(row), 40),
        clean(row.agent, 20),
        clean(label_of(row, now), 60),
        "  ".join(badge.text for badge in badges_of(row, now)),
        age_text(now - row.last_activity_at_ms),
        clean(_from_home(row.cwd, home), 300),
    )


def _from_home(path: str, home: str) -> str:
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path


async def show(args: argparse.Namespace) -> int:
    """All facts of one session."""
    async with daemon() as client:
        row = client.mirror.get(listed(client, args.session))
    assert row is not None, "it was resolved among these rows"
    now = now_ms()
    if args.json:
        print_json(row_json(row, now) | {"jobs": []})
        return OK
    badges = "  ".join(badge.text for badge in badges_of(row, now))
    facts = [
        ("section", section_of(row)),
        ("label", clean(label_of(row, now), 500)),
        ("badges", badges),
        *((name.removesuffix("_ms"), _fact(name, value, now)) for name, value in _facts(row)),
    ]
    print_table([fact for fact in facts if fact[1]])
    return OK


def _facts(row: RosterRow) -> list[tuple[str, Any]]:
    return [(name, getattr(row, name)) for name in row.__struct_fields__]


def _fact(name: str, value: Any, now: int) -> str:
    """One fact for people; empty if there is nothing to say."""
    if value is None or value is False or value == 0:
        return ""
    if name.endswith(("_at_ms", "since_ms")):
        return f"{_local(value)} ({age_text(now - value)} ago)"
    if isinstance(value, Schedule):
        return _schedule(value, now)
    if name == "waiting":
        return f"{value.kind} for {age_text(now - value.since_ms)}: {clean(value.text, 500)}"
    if name == "task":
        return f"{value.status} {clean(value.reason or value.step or '', 500)}  {value.task_id}"
    return "yes" if value is True else clean(str(value), 500)


def _schedule(jobs: Schedule, now: int) -> str:
    parts = [f"{n} {word}" for n, word in ((jobs.active, "armed"), (jobs.paused, "paused")) if n]
    if jobs.next_at_ms is not None:
        parts.append(f"next {_local(jobs.next_at_ms)} ({countdown_text(jobs.next_at_ms - now)})")
    return ", ".join(parts)


def _local(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def explain(args: argparse.Namespace) -> int:
    """Why this section and label."""
    async with daemon() as client:
        answer = await client.sessions.explain(named(client, args.session))
    if args.json:
        print_json(plain(answer) | {"task": None})
        return OK
    print_line(f"{answer.section} · {clean(answer.label, 300) or '(no label)'}")
    rows = [
        (
            f"  {clean(item.fact, 80)}",
            clean(item.value, 200),
            "" if item.age_ms is None else f"{age_text(item.age_ms)} old",
            item.source,
        )
        for item in answer.evidence
    ]
    print_table(rows)
    return OK
