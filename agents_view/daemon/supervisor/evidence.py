"""The facts behind a section and a label, one by one (R1, R5, R7)."""

from __future__ import annotations

from daemon_client.protocol.replies import Evidence
from daemon_client.roster import RosterRow


def evidence_of(row: RosterRow, now_ms: int) -> tuple[Evidence, ...]:
    """What holds first, then what does not, then what never counts."""
    heard = None if row.last_heard_at_ms is None else max(0, now_ms - row.last_heard_at_ms)
    signals: list[tuple[str, object]] = [
        ("turn", row.turn),
        ("pending_tools", row.pending_tools),
        ("shell_running", row.shell_running),
        ("compacting", row.compacting),
        ("retrying", row.retrying),
        ("action", row.action_label),
        ("queued", row.queued),
        ("running_children", row.running_children),
    ]
    since = row.turn_started_at_ms
    turn_age = None if since is None else max(0, now_ms - since)
    evidence = [
        Evidence(
            fact=fact,
            value=str(value) if value else "no",
            age_ms=turn_age if fact == "turn" and value else heard,
            source="worker" if fact != "running_children" else "roster",
        )
        for fact, value in sorted(signals, key=lambda signal: not signal[1])
    ]
    resident_for = None if row.resident_since_ms is None else now_ms - row.resident_since_ms
    evidence.append(_fact("resident", _yes(row.resident), resident_for, "worker"))
    evidence.append(_fact("worker", row.worker_state or "none", heard, "supervisor"))
    if row.waiting is not None:
        waited = now_ms - row.waiting.since_ms
        asked = f"{row.waiting.kind}: {row.waiting.text}"
        evidence.append(_fact("waiting", asked, waited, "agent"))
    if row.stale:
        evidence.append(_fact("stale", "yes", heard, "supervisor"))
    if row.exit_cause:
        evidence.append(_fact("exit_cause", row.exit_cause, None, "worker"))
    armed = row.tree_heartbeats.active + row.tree_crons.active
    evidence.append(_fact("armed jobs", f"{armed} (never count)", None, "store"))
    return tuple(evidence)


def _fact(fact: str, value: str, age_ms: int | None, source: str) -> Evidence:
    age = None if age_ms is None else max(0, age_ms)
    return Evidence(fact=fact, value=value, age_ms=age, source=source)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
