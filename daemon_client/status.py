"""Section, label and badges of a row: the rules of spec 02 (2.1–2.3), used by everybody alike."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from daemon_client.roster import RosterRow, Schedule

Section = Literal["running", "idle", "inactive"]
SECTIONS: Final[tuple[Section, ...]] = ("running", "idle", "inactive")

BadgeKind = Literal["waiting", "heartbeat", "cron"]

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


class Badge(msgspec.Struct, kw_only=True, frozen=True):
    """A mark behind the label: `text` is ready to draw, `dim` means nothing is armed (R11)."""

    kind: BadgeKind
    text: str
    dim: bool = False


def is_working(row: RosterRow) -> bool:
    """Whether the session itself does work now, descendants aside (R1.1, R33).

    Only hard signals count: no heartbeat, cron, recap, label or task is among them (R2, R5).
    """
    return bool(
        row.turn
        or row.pending_tools
        or row.shell_running
        or row.compacting
        or row.retrying
        or row.action_label
        or row.queued
    )


def section_of(row: RosterRow) -> Section:
    """Running = doing work now; Inactive = not resident; Idle = resident and quiet (R1, R8)."""
    if is_working(row) or row.running_children > 0:
        return "running"
    return "idle" if row.resident else "inactive"


def label_of(row: RosterRow, now_ms: int) -> str:
    """The one short text of a row; the first rule of 2.2 that matches wins."""
    return (
        _worker_label(row)
        or _waiting_label(row, now_ms)
        or _work_label(row, now_ms)
        or _schedule_label(row, now_ms)
        or _outcome_label(row)
    )


def _worker_label(row: RosterRow) -> str:
    if not row.resident or row.worker_state in (None, "ready"):
        return ""
    if row.worker_state == "failed" and row.exit_cause:
        return f"failed: {row.exit_cause}"
    return row.worker_state


def _waiting_label(row: RosterRow, now_ms: int) -> str:
    if row.stale:
        since = row.last_heard_at_ms
        return "last heard ?" if since is None else f"last heard {age_text(now_ms - since)} ago"
    if row.waiting is None:
        return ""
    if row.waiting.kind == "login":
        return f"needs login: {row.waiting.text}" if row.waiting.text else "needs login"
    verb = "needs approval" if row.waiting.kind == "permission" else "asks"
    return f"{verb}: {row.waiting.text}"


def _work_label(row: RosterRow, now_ms: int) -> str:
    if row.compacting:
        return "compacting"
    if row.retrying:
        return "retrying"
    if row.turn == "tools" or row.pending_tools:
        return f"running tools: {row.tool_label}" if row.tool_label else "running tools"
    if row.turn:
        if row.quiet_since_ms is None:
            return row.turn
        # silence is shown, not judged (A16)
        return f"{row.turn} · quiet {age_text(now_ms - row.quiet_since_ms)}"
    if row.shell_running:
        return "running shell"
    if row.running_children:
        plural = "" if row.running_children == 1 else "s"
        return f"{row.running_children} subagent{plural} running"
    if row.action_label:
        return row.action_label
    return f"{row.queued} queued" if row.queued else ""


def _schedule_label(row: RosterRow, now_ms: int) -> str:
    """Rules 12–14: archived, then what the session's own armed jobs will do next."""
    if row.archived:
        return "archived"
    section = section_of(row)
    if section == "idle" and row.heartbeats.active:
        next_at = row.heartbeats.next_at_ms
        if next_at is None:
            return "heartbeat"
        if next_at <= now_ms:
            return "heartbeat · due"
        return f"heartbeat · next {countdown_text(next_at - now_ms)}"
    if section == "inactive" and (row.heartbeats.active or row.crons.active):
        next_at = _soonest(row.heartbeats, row.crons)
        if next_at is None:
            return "asleep"
        if next_at <= now_ms:
            return "wakes now"
        return f"asleep · wakes in {countdown_text(next_at - now_ms)}"
    return ""


def _outcome_label(row: RosterRow) -> str:
    """Rules 15–17: how it ended, else whose move it is."""
    if row.task is not None and row.task.status in ("completed", "cancelled", "failed"):
        if row.task.status == "failed" and row.task.reason:
            return f"failed: {row.task.reason}"
        return row.task.status
    if row.exit_cause:
        return row.exit_cause
    if section_of(row) != "idle":
        return ""
    return "needs input" if row.message_count else "new"


def badges_of(row: RosterRow, now_ms: int) -> list[Badge]:
    """Badges in their order: waiting, heartbeat, cron (R10–R13)."""
    badges: list[Badge] = []
    if row.waiting is not None:
        waited = age_text(now_ms - row.waiting.since_ms)
        badges.append(Badge(kind="waiting", text=f"? {waited}"))
    if badge := _schedule_badge("heartbeat", "♥", row.tree_heartbeats, now_ms):
        badges.append(badge)
    if badge := _schedule_badge("cron", "◷", row.tree_crons, now_ms):
        badges.append(badge)
    return badges


def _schedule_badge(kind: BadgeKind, glyph: str, jobs: Schedule, now_ms: int) -> Badge | None:
    if jobs.active:
        text = f"{glyph} {jobs.active}"
        if jobs.next_at_ms is not None:
            text += f"·{countdown_text(jobs.next_at_ms - now_ms)}"
        return Badge(kind=kind, text=text)
    if jobs.paused:
        return Badge(kind=kind, text=f"{glyph} {jobs.paused}", dim=True)
    return None


def _soonest(*jobs: Schedule) -> int | None:
    times = [job.next_at_ms for job in jobs if job.active and job.next_at_ms is not None]
    return min(times, default=None)


def countdown_text(left_ms: int) -> str:
    """Time until something, rounded half up in each unit: `59s`, `5m`, `1d`; `now` when due."""
    if left_ms <= 0:
        return "now"
    seconds = max(1, _round(left_ms, _SECOND))
    if seconds < 60:
        return f"{seconds}s"
    minutes = _round(left_ms, _MINUTE)
    if minutes < 60:
        return f"{minutes}m"
    hours = _round(left_ms, _HOUR)
    return f"{hours}h" if hours < 24 else f"{_round(left_ms, _DAY)}d"


def age_text(age_ms: int) -> str:
    """Time since something, floored in each unit; never negative after a clock change."""
    age_ms = max(0, age_ms)
    if age_ms < _MINUTE:
        return f"{age_ms // _SECOND}s"
    if age_ms < _HOUR:
        return f"{age_ms // _MINUTE}m"
    return f"{age_ms // _HOUR}h" if age_ms < _DAY else f"{age_ms // _DAY}d"


def _round(value: int, unit: int) -> int:
    return (value + unit // 2) // unit
