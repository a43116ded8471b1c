"""Disk full: reads go on, the banner says so, writes resume by themselves (spec 07.4, T12)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents_view.daemon.store import ballast
from agents_view.daemon.store.database import Database
from tests.store.processes import can_mount, on_small_disk, run

KIB = 1 << 10
LEVELS = [(400 + number * 180) * KIB for number in range(10)]
"""Taken by others of the 4 MiB, until they free it; low ones leave no room for a new ballast."""

small_disk = pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small disk")


def check_full(report: dict) -> None:
    assert report["full"] and report["banner"] == report["probe"] == "not recording: disk full"
    assert not report["ballast"], "given up for the clean-up"
    assert report["read"] == report["written"] > 0, "reads go on, and hold what was accepted"
    assert report["again"] is None, "what the ballast gave up is not for ordinary writes"
    assert report["cleanup"] is True
    assert report["after_cleanup"] == "not recording: disk full"
    assert report["resumed"] == "" and report["accepted"]
    assert report["ballast_back"] == report["room"]
    assert report["problem"] == ""


@small_disk
@pytest.mark.parametrize("taken", [LEVELS[1], LEVELS[8]])
def test_full_cleaned_up_and_resumed(tmp_path: Path, taken: int) -> None:
    report = on_small_disk("fill", tmp_path, taken)
    check_full(report)
    assert report["room"] == (taken == LEVELS[8])


@small_disk
@pytest.mark.reliability
@pytest.mark.parametrize("taken", LEVELS)
def test_full_at_each_level(tmp_path: Path, taken: int) -> None:
    check_full(on_small_disk("fill", tmp_path, taken))


@small_disk
@pytest.mark.parametrize("taken", [LEVELS[4], LEVELS[8] + 1234])
def test_a_transcript_survives_a_full_disk(tmp_path: Path, taken: int) -> None:
    """Nothing lost, repeated or torn: the buffer waits and goes on in the middle of a line."""
    report = on_small_disk("full_transcript", tmp_path, taken)
    assert report["failures"] >= 3
    entries = len(report["seqs"])
    assert report["seqs"] == list(range(1, entries + 1))


def test_an_io_error_is_a_banner_and_no_end(tmp_path: Path) -> None:
    """Works on any machine: a limit on the size of files stands for a failing disk."""
    code, said = run("limited", tmp_path, 400 * KIB)
    report = json.loads(said)
    assert (code, report["error"]) == (0, "disk error")
    assert report["banner"] == "not recording: disk error"
    assert report["read"] > 0
    assert (report["resumed"], report["accepted"]) == ("", True)


async def test_a_nearly_full_disk_is_full_for_ordinary_writes(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard by itself: without a ballast, room of its size is the clean-up's."""
    ballast.release(ballast.ballast_path(store.path))
    monkeypatch.setattr(ballast, "free_bytes", lambda _: ballast.RESUME_AT - 1)
    with pytest.raises(Exception, match="no room left"):
        await store.write(lambda db: None)
    assert store.recording == "not recording: disk full"
    assert await store.write(lambda db: 1, cleanup=True) == 1
    assert await store.probe() == "not recording: disk full"
    monkeypatch.setattr(ballast, "free_bytes", lambda _: ballast.RESUME_AT)
    assert await store.probe() == ""
    assert not ballast.ballast_path(store.path).exists(), "not yet: it would take all the room"
    assert await store.write(lambda db: 2) == 2


def test_ballast_of_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ballast.os, "fsync", fails)
    assert not ballast.ensure(tmp_path / "ballast")
    assert list(tmp_path.iterdir()) == []


def test_unknown_room_is_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ballast.free_bytes(tmp_path / "missing") is None
    monkeypatch.setattr(ballast, "free_bytes", lambda _: None)
    assert not ballast.exhausted(tmp_path / "ballast")
    assert ballast.ensure(tmp_path / "ballast")
