"""Write transcripts as a worker does."""

from __future__ import annotations

from pathlib import Path

from agents_view.daemon.store.transcripts import TranscriptWriter
from daemon_client.protocol.transcript import TranscriptEntry
from tests.store.samples import NOW


async def opened(path: Path) -> TranscriptWriter:
    writer = TranscriptWriter(path)
    await writer.open()
    return writer


async def written(path: Path, *entries: TranscriptEntry) -> list[TranscriptEntry]:
    writer = await opened(path)
    kept = [writer.append(entry, NOW + number) for number, entry in enumerate(entries)]
    await writer.close()
    return kept
