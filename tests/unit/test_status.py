"""Sections, labels and badges against the golden cases (spec 02.1–2.3)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from daemon_client.roster import RosterRow
from daemon_client.status import badges_of, label_of, section_of

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "roster.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden_row(case: dict) -> None:
    row = msgspec.convert(case["row"], RosterRow)
    assert section_of(row) == case["section"]
    assert label_of(row, case["now_ms"]) == case["label"]
    assert [msgspec.to_builtins(b) for b in badges_of(row, case["now_ms"])] == case["badges"]


def test_a16_silence_inside_a_turn_is_shown() -> None:
    row = RosterRow(session_id="s", resident=True, turn="thinking", quiet_since_ms=10_000)
    assert label_of(row, 60_000) == "thinking · quiet 50s"
    assert section_of(row) == "running"
