"""The sessions of the look's first picture, as rows: every state the board can show."""

from __future__ import annotations

from typing import Any

from daemon_client.roster import RosterRow, Schedule, TaskFacts, Waiting

NOW_MS = 1_790_000_000_000
"""2026-09-21 14:13:20 UTC."""

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def key(number: int) -> str:
    return f"{number:032x}"


def row(number: int, name: str, agent: str, cwd: str, ago: int, **facts: Any) -> RosterRow:
    facts.setdefault("resident", True)
    facts.setdefault("worker_state", "ready" if facts["resident"] else None)
    return RosterRow(
        session_id=key(number),
        name=name,
        agent=agent,
        cwd=f"/home/u/{cwd}",
        root_id=facts.pop("root_id", key(number)),
        message_count=4,
        created_at_ms=NOW_MS - number * MINUTE,
        last_activity_at_ms=NOW_MS - ago,
        **facts,
    )


def armed(count: int, in_ms: int) -> dict[str, Schedule]:
    schedule = Schedule(active=count, next_at_ms=NOW_MS + in_ms)
    return {"heartbeats": schedule, "tree_heartbeats": schedule}


def working(turn: str, ago: int, label: str | None = None) -> dict[str, Any]:
    return {
        "turn": turn,
        "turn_started_at_ms": NOW_MS - ago,
        "pending_tools": 1 if label else 0,
        "tool_label": label,
    }


def asked(kind: str, ago: int, text: str) -> Waiting:
    return Waiting(kind=kind, since_ms=NOW_MS - ago, text=text, request_id="r")


PAUSED = {"heartbeats": Schedule(paused=1), "tree_heartbeats": Schedule(paused=1)}

ROWS = (
    row(1, "api-review", "claude", "src/api", 3 * MINUTE, unread=True,
        waiting=asked("permission", 3 * MINUTE + SECOND, "run `make migrate`"),
        **working("tools", 4 * MINUTE, "make migrate"), **armed(1, 25 * MINUTE)),
    row(2, "fix-flaky-tests", "codex", "src/core", 41 * SECOND, running_children=1,
        **working("tools", 41 * SECOND, "pytest -q tests/net"),
        heartbeats=Schedule(active=1, next_at_ms=NOW_MS + 3 * MINUTE),
        tree_heartbeats=Schedule(active=2, next_at_ms=NOW_MS + 3 * MINUTE)),
    row(21, "bisect-regression", "codex", "src/core", 12 * SECOND, root_id=key(2),
        parent_id=key(2), depth=1, **working("thinking", 12 * SECOND)),
    row(20, "docs-check", "codex", "src/core", MINUTE, root_id=key(2), parent_id=key(2), depth=1,
        **armed(1, 18 * MINUTE)),
    row(3, "payments-refactor", "claude", "src/billing", 12 * MINUTE,
        waiting=asked("question", 12 * MINUTE, "keep the v1 webhook alive?"),
        **working("thinking", 12 * MINUTE)),
    row(4, "search-index", "gemini", "src/search", 8 * SECOND, **working("thinking", 8 * SECOND)),
    row(5, "nightly-bench", "shell", "src/bench", 5 * SECOND,
        **working("tools", 5 * SECOND, "make bench"),
        crons=Schedule(active=1, next_at_ms=NOW_MS + 14 * HOUR),
        tree_crons=Schedule(active=1, next_at_ms=NOW_MS + 14 * HOUR)),
    row(6, "edge-proxy", "opencode", "src/edge", 40 * SECOND, stale=True,
        last_heard_at_ms=NOW_MS - 40 * SECOND, **working("writing", 40 * SECOND)),
    row(7, "triage", "claude", "src/api", 2 * MINUTE, **armed(1, 5 * MINUTE)),
    row(8, "release-notes", "gemini", "src/site", 20 * MINUTE, unread=True),
    row(9, "docs-site", "opencode", "src/site", 4 * HOUR, **PAUSED),
    row(10, "deploy-watch", "shell", "ops", DAY, resident=False, **armed(1, 2 * HOUR)),
    row(11, "dependency-bumps", "codex", "src/core", DAY + HOUR, resident=False,
        crons=Schedule(active=2, next_at_ms=NOW_MS + 14 * HOUR),
        tree_crons=Schedule(active=2, next_at_ms=NOW_MS + 14 * HOUR)),
    row(12, "import-legacy", "claude", "src/api", 3 * HOUR, resident=False, unread=True,
        task=TaskFacts(task_id="t", status="failed", reason="migration 0042 timed out")),
    row(13, "old-migration", "claude", "src/api", 3 * DAY, resident=False,
        task=TaskFacts(task_id="t", status="completed")),
    row(14, "pricing-copy", "gemini", "src/site", 6 * DAY, resident=False),
)  # fmt: skip
