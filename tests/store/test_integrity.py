"""Damage is found, set aside whole, and never overwritten (spec 07.4, B9.4, T14)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from agents_view.daemon.store import backup, integrity, sessions
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import StoreBusy, StoreDamaged, StoreError, StoreReplaced
from agents_view.daemon.store.filesystems import file_system_of, refuse_network
from tests.store.processes import run, start
from tests.store.samples import NOW, OTHER, ROOT, session


async def a_store(path: Path) -> Path:
    database = Database(path)
    await database.open(may_migrate=True)
    await database.write(lambda db: sessions.create(db, session()))
    await database.close()
    return path


def spoil(path: Path, page: int) -> None:
    """64 bytes of noise in the head of a page."""
    with path.open("r+b") as file:
        file.seek(page * 4096 + (100 if page == 0 else 0))
        file.write(b"\xa5" * 64)


async def damaged(path: Path) -> StoreDamaged:
    database = Database(path)
    with pytest.raises(StoreDamaged) as caught:
        await database.open(may_migrate=True)
    await database.close()
    return caught.value


async def test_each_damaged_page_is_found_at_start(tmp_path: Path) -> None:
    """B6: a plain count does not notice a corrupt page, `quick_check` does."""
    path = await a_store(tmp_path / "state.db")
    whole = path.read_bytes()
    for page in range(len(whole) // 4096):
        path.write_bytes(whole)
        spoil(path, page)
        assert integrity.inspect(path), f"page {page}"
        await damaged(path)
    path.write_bytes(whole)
    assert integrity.inspect(path) == ""


@pytest.mark.parametrize("content", [b"not a database\n" * 100, b"\x00" * 8192, b"SQLite format 3"])
async def test_a_foreign_file_is_damage_too(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    await damaged(path)
    assert path.read_bytes() == content


async def test_set_aside_offers_the_newest_good_backup(tmp_path: Path) -> None:
    """The whole incident: backup, damage, set aside, empty store, restore."""
    path = await a_store(tmp_path / "state.db")
    good = backup.make(path, NOW)
    bad = backup.make(path, NOW + 1)
    spoil(bad, 1)
    spoil(path, 1)
    rot = path.read_bytes()
    error = await damaged(path)
    found = integrity.set_aside(path, tmp_path / "trees", str(error), NOW)
    assert found.backup == good
    assert found.reason == str(error)
    assert found.moved[0].name == "state.db.corrupt-20260101T000000Z"
    assert found.moved[0].read_bytes() == rot
    assert not path.exists()
    backup.restore(good, path)
    database = Database(path)
    await database.open(may_migrate=True)
    kept = await database.read(lambda db: sessions.get(db, ROOT))
    await database.close()
    assert kept == session()


async def test_sides_move_together_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (tmp_path / name).write_text(name)
    first = integrity.set_aside(path, tmp_path / "trees", "rot", NOW)
    assert [p.name.partition("Z")[2] for p in first.moved] == ["", "-wal", "-shm"]
    path.write_text("second")
    second = integrity.set_aside(path, tmp_path / "trees", "rot", NOW)
    assert second.moved[0].name.endswith("Z-2")
    assert first.moved[0].read_text() == "state.db"
    assert (first.backup, second.backup) == (None, None)


async def test_no_rename_while_a_tree_lock_is_held(tmp_path: Path) -> None:
    path = await a_store(tmp_path / "state.db")
    trees = tmp_path / "trees"
    trees.mkdir()
    for name in (ROOT, OTHER):
        (trees / name).touch()
    descriptor = os.open(trees / OTHER, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(StoreBusy, match=OTHER):
        integrity.set_aside(path, trees, "rot", NOW)
    assert path.exists()
    os.close(descriptor)
    assert integrity.set_aside(path, trees, "rot", NOW).moved


def test_no_rename_while_another_process_has_it_open(tmp_path: Path) -> None:
    """`store.lock` is shared by everybody who has the database open."""
    holder = start("hold", tmp_path)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        with pytest.raises(StoreBusy, match=r"store\.lock"):
            integrity.set_aside(tmp_path / "state.db", tmp_path / "trees", "rot", NOW)
        holder.communicate("", timeout=20)
    finally:
        holder.kill()
        holder.communicate()
    assert integrity.set_aside(tmp_path / "state.db", tmp_path / "trees", "rot", NOW).moved


@pytest.mark.parametrize("moved", [1, 2])
async def test_a_killed_move_is_finished(tmp_path: Path, moved: int) -> None:
    """A `-wal` left behind would be replayed into the next database."""
    path = tmp_path / "state.db"
    assert run("die_open", tmp_path)[0] == -9
    assert (tmp_path / "state.db-wal").stat().st_size > 0
    assert run("set_aside", tmp_path, failpoint=f"store.set_aside.moved:{moved}")[0] == -9
    assert not path.exists()
    database = Database(path)
    await database.open(may_migrate=True)
    assert await database.read(lambda db: sessions.get(db, ROOT)) is None
    await database.close()
    aside = tmp_path / "state.db.corrupt-20260101T000000Z"
    old = Database(aside)
    await old.open(may_migrate=False)
    assert await old.read(lambda db: sessions.get(db, ROOT)) == session()
    await old.close()


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_writer_never_writes_into_a_moved_database(tmp_path: Path, replaced: bool) -> None:
    """Writers re-check the inode, whether or not a new database took the place."""
    path = await a_store(tmp_path / "state.db")
    database = Database(path)
    await database.open(may_migrate=True)
    path.rename(tmp_path / "old.db")
    if replaced:
        await a_store_in_place(path)
    with pytest.raises(StoreReplaced):
        await database.write(lambda db: sessions.create(db, session(OTHER)))
    assert database.recording == "not recording: the store was moved away"
    assert await database.read(lambda db: sessions.get(db, OTHER)) is None
    await database.close()


async def a_store_in_place(path: Path) -> None:
    other = await a_store(path.parent / "fresh.db")
    other.rename(path)


async def test_damage_met_while_running_is_named(tmp_path: Path) -> None:
    path = await a_store(tmp_path / "state.db")
    database = Database(path)
    await database.open(may_migrate=False)
    for page in range(1, path.stat().st_size // 4096):
        spoil(path, page)
    with pytest.raises(StoreDamaged):
        await database.write(lambda db: sessions.create(db, session(OTHER)))
    with pytest.raises(StoreDamaged):
        await database.read(sessions.load_all)
    assert database.recording == "not recording: the store is damaged"
    await database.close()


MOUNTS = r"""/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
none /home/me/local\040disk btrfs rw 0 0
box /home/me/box fuse.sshfs rw 0 0
none /home/me/box tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/srv", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/local disk/x", "btrfs"),
        ("/home/me/box/y", "tmpfs"),
        ("/homework", "ext4"),
    ],
)
def test_the_nearest_and_latest_mount_counts(tmp_path: Path, where: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert file_system_of(Path(where), mounts) == kind


def test_where_nothing_tells_nothing_is_refused(tmp_path: Path) -> None:
    assert file_system_of(tmp_path, tmp_path / "none") == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "virtiofs"])
async def test_network_file_systems_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """07.4, with the reason, and before anything is created."""
    monkeypatch.setenv("AGENTS_VIEW_TEST_FILESYSTEM", kind)
    database = Database(tmp_path / "state.db")
    with pytest.raises(StoreError, match=kind):
        await database.open(may_migrate=True)
    await database.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["ext4", "tmpfs", "overlay", "fuse.gocryptfs", "fuseblk"])
def test_local_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("AGENTS_VIEW_TEST_FILESYSTEM", kind)
    refuse_network(tmp_path)
