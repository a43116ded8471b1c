"""What the store's tests run in a process of its own, to be killed or to run out of room.

`python -m tests.store.driver WHAT DIRECTORY [NUMBER]`; the outcome is one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from agents_view.daemon.store import backup, ballast, integrity, migrations, prompts, sessions
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.errors import NotRecording, StoreFull
from agents_view.daemon.store.transcripts import TranscriptWriter, read_page, transcript_path
from daemon_client.protocol.transcript import MessageEntry
from tests.store.samples import NOW, ROOT, session, tree

LATER = (
    """CREATE TABLE extra (key TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT;
    INSERT INTO extra SELECT session_id, created_at_ms FROM sessions;
    ALTER TABLE sessions ADD COLUMN later INTEGER NOT NULL DEFAULT 7;
    """,
    """CREATE INDEX extra_by_age ON extra (at_ms);
    UPDATE extra SET at_ms = at_ms + 1;
    DROP INDEX requests_by_age;
    """,
)
"""Two migrations of a future, of which the second is not idempotent by itself."""


def with_later_migrations() -> None:
    present = migrations.scripts()
    newest = present[-1][0]
    steps = [*present, (newest + 1, LATER[0]), (newest + 2, LATER[1])]
    migrations.scripts = lambda: steps


async def migrate(directory: Path, number: int) -> object:
    with_later_migrations()
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    await database.close()
    return None


async def die_open(directory: Path, number: int) -> object:
    """Commit something and die, so that a `-wal` is left."""
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    await database.write(lambda db: sessions.create(db, session()))
    os.kill(os.getpid(), signal.SIGKILL)


async def set_aside(directory: Path, number: int) -> object:
    integrity.set_aside(directory / "state.db", directory / "trees", "rot", NOW)


async def copy(directory: Path, number: int) -> object:
    return backup.make(directory / "state.db", NOW + number).name


async def hold(directory: Path, number: int) -> object:
    """Keep the store open until our input ends."""
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await database.close()


async def fill(directory: Path, number: int) -> object:
    """`number` bytes are taken by somebody else; write until there is no room, then free it."""
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    fence = await database.write(tree)
    filler = directory / "filler"
    filler.write_bytes(b"x" * number)
    written, error = 0, None
    for written in range(400):
        try:
            await accept(database, fence, written)
        except NotRecording as fault:
            error = fault
            break
    report = {
        "full": isinstance(error, StoreFull),
        "banner": database.recording,
        "probe": await database.probe(),
        "ballast": ballast.ballast_path(database.path).exists(),
        "written": written,
        "read": await database.read(lambda db: len(prompts.queued(db, ROOT))),
    }
    again = None
    with contextlib.suppress(StoreFull):
        again = await accept(database, fence, 1000)
    report["again"] = again
    report["cleanup"] = await database.write(
        lambda db: prompts.remove(db, fence, "p0", NOW), cleanup=True
    )
    report["after_cleanup"] = database.recording
    filler.unlink()
    report["room"] = (ballast.free_bytes(directory) or 0) >= ballast.RESTORE_AT
    report["resumed"] = await database.probe()
    report["ballast_back"] = ballast.ballast_path(database.path).exists()
    report["accepted"] = await accept(database, fence, 1001)
    await database.close()
    return report | {"problem": integrity.inspect(database.path)}


async def accept(database: Database, fence: prompts.Fence, number: int) -> bool:
    return await database.write(
        lambda db: prompts.accept(
            db, fence, prompt_id=f"p{number}", session_id=ROOT, source="person",
            text="x" * 20_000, now_ms=NOW,
        )
    )  # fmt: skip


async def full_transcript(directory: Path, number: int) -> object:
    """Flush until there is no room, free some, go on."""
    filler = directory / "filler"
    filler.write_bytes(b"x" * number)
    path = transcript_path(directory / "transcripts", ROOT)
    writer = TranscriptWriter(path)
    await writer.open()
    failures = 0
    for _ in range(400):
        writer.append(MessageEntry(text="m" * 9_999), NOW)
        try:
            await writer.flush()
        except OSError:
            failures += 1
            if failures == 3:
                filler.unlink()
    await writer.close()
    return {"failures": failures, "seqs": seqs_of(path)}


def seqs_of(path: Path) -> list[int]:
    found: list[int] = []
    before: int | None = None
    while True:
        page = read_page(path, before=before)
        found[:0] = [entry.seq for entry in page.entries]
        before = page.before
        if before is None:
            return found


async def limited(directory: Path, number: int) -> object:
    """No file may grow beyond `number` bytes: writes fail with an I/O error, reads do not."""
    database = Database(directory / "state.db")
    await database.open(may_migrate=True)
    fence = await database.write(tree)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, hard))
    error = ""
    for key in range(400):
        try:
            await accept(database, fence, key)
        except NotRecording as fault:
            error = fault.why
            break
    report = {
        "error": error,
        "banner": database.recording,
        "read": await database.read(lambda db: len(prompts.queued(db, ROOT))),
    }
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    report["resumed"] = await database.probe()
    report["accepted"] = await accept(database, fence, 1001)
    await database.close()
    return report


def main() -> None:
    what, directory, *rest = sys.argv[1:]
    work = globals()[what]
    print(json.dumps(asyncio.run(work(Path(directory), int(rest[0]) if rest else 0))))


if __name__ == "__main__":
    main()
