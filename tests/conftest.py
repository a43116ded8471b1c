"""Tests run in a cleaned environment; pictures lie in the top-level `snapshots/` (spec 10.3)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.location import PyTestLocation

_MISLEADING = ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "TEXTUAL_", "AGENTS_VIEW_", "XDG_")
SNAPSHOTS = Path(__file__).parents[1] / "snapshots"


def _dirname(cls: type, *, test_location: PyTestLocation) -> str:
    return str(SNAPSHOTS / Path(test_location.filepath).stem)


SVGImageExtension.dirname = classmethod(_dirname)  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the person who runs the tests decides how they end."""
    for name in list(os.environ):
        if name.startswith(_MISLEADING) and name != "TEXTUAL_SNAPSHOT_TEMPDIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
