"""The wire (spec 07.2): whatever one connection does, no other notices, and the daemon stays up."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agents_view.daemon.store import sessions as store
from agents_view.daemon.store.database import Database
from daemon_client import DaemonClient, DaemonError, ErrorCode, connect
from daemon_client.connection import Connection
from daemon_client.framing import MAX_FRAME, Codec
from daemon_client.paths import paths_for
from daemon_client.protocol import (
    DaemonClosing,
    FromClient,
    RosterBegin,
    RosterChunk,
    RosterDelta,
    RosterEnd,
    SessionChunk,
    Welcome,
)
from daemon_client.protocol.commands import Attach, Ping, RosterSubscribe
from daemon_client.roster import RosterPosition
from tests.daemon.test_crashes import kill
from tests.store.samples import session
from tests.support import homes
from tests.support.homes import until
from tests.support.raw_peer import HELLO, RawPeer, framed, raw_peer
from tests.support.scripted import ENV, configure, new, quiet

PACKED = msgspec.msgpack.encode(HELLO)
NESTED = b"\x91" * 100_000 + b"\xc0"
DEEP_HELLO = bytes([PACKED[0] + 1]) + PACKED[1:] + b"\xa1x" + NESTED


@asynccontextmanager
async def daemon(home: Path, config: str = "") -> AsyncIterator[DaemonClient]:
    configure(home, config=config)
    async with homes.running(home) as client:
        yield client
        await homes.stop(client)


async def still_well(client: DaemonClient, home: Path) -> None:
    """The good client is served, a new one is welcome, and no log shows a traceback."""
    begun = time.monotonic()
    await client.service.ping()
    assert time.monotonic() - begun < 2
    async with raw_peer(home) as fresh:
        await fresh.greet()
    for log in (home / "state" / "logs").iterdir():
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text()


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ErrorCode.INVALID, "larger than"),
        ((MAX_FRAME + 1).to_bytes(4, "big"), ErrorCode.INVALID, "larger than"),
        (framed(b"\xff\x00garbage"), ErrorCode.INVALID, "not a message of ours"),
        (framed(b""), ErrorCode.INVALID, "not a message of ours"),
        (framed(b'{"type":"hello"}'), ErrorCode.INVALID, "not a message of ours"),
        (framed(b"\x81\xa4type\xa4what"), ErrorCode.INVALID, "not a message of ours"),
        (framed(PACKED[:-3]), ErrorCode.INVALID, "not a message of ours"),
        (framed(NESTED), ErrorCode.INVALID, "not a message of ours"),
        (framed(DEEP_HELLO), ErrorCode.INVALID, "nested too deeply"),
    ],
    ids=[
        "http",
        "oversize",
        "garbage",
        "empty",
        "json",
        "unknown type",
        "cut short",
        "nested",
        "nested in an unknown field",
    ],
)
async def test_07_2_bad_bytes_end_that_connection_with_a_reason(
    client: DaemonClient, home: Path, data: bytes, code: ErrorCode, text: str
) -> None:
    async with raw_peer(home) as peer:
        await peer.send(data)
        why = await peer.reason()
    assert why is not None and why[0] is code and text in why[1]
    async with raw_peer(home) as greeted:
        await greeted.greet()
        await greeted.send(data)
        assert await greeted.reason() == why
    await still_well(client, home)


async def test_07_2_a_message_cut_off_by_its_sender_is_nothing(
    client: DaemonClient, home: Path
) -> None:
    for size in (1, 3, 4, 9):
        async with raw_peer(home) as peer:
            await peer.send(framed(PACKED)[:size])
    await still_well(client, home)


async def test_07_2_a_request_before_hello_is_refused(client: DaemonClient, home: Path) -> None:
    async with raw_peer(home) as peer:
        await peer.ask(Ping())
        code, text = await peer.reason() or (None, "")
    assert code is ErrorCode.INVALID and "before hello" in text
    await still_well(client, home)


@pytest.mark.parametrize("version", [0, 99])
async def test_07_2_another_protocol_is_named_with_ours(
    client: DaemonClient, home: Path, version: int
) -> None:
    async with raw_peer(home) as peer:
        await peer.send(msgspec.structs.replace(HELLO, protocol=version))
        code, text = await peer.reason() or (None, "")
    assert code is ErrorCode.INCOMPATIBLE
    assert f"protocol {version}" in text and "protocol 1" in text and "daemon upgrade" in text
    await still_well(client, home)


async def test_07_2_one_version_apart_works(client: DaemonClient, home: Path) -> None:
    async with raw_peer(home) as peer:
        await peer.greet(msgspec.structs.replace(HELLO, protocol=2))


async def test_07_2_unknown_fields_are_ignored(client: DaemonClient, home: Path) -> None:
    more = bytes([PACKED[0] + 1]) + PACKED[1:] + b"\xa3new\x93\x01\x02\x03"
    async with raw_peer(home) as peer:
        await peer.send(framed(more))
        assert isinstance(await peer.read(), Welcome)


async def test_07_2_slow_loris_is_closed(home: Path) -> None:
    async with daemon(home, "[daemon]\nhello_timeout = 0.5\n") as client:
        async with raw_peer(home) as silent, raw_peer(home) as slow, raw_peer(home) as late:
            await late.greet()
            await slow.send(framed(PACKED)[:3])
            await late.send(framed(PACKED)[:7])
            async with asyncio.timeout(8):
                reasons = await asyncio.gather(*(p.reason() for p in (silent, slow, late)))
        assert [why and why[0] for why in reasons] == [ErrorCode.TIMEOUT] * 3
        await still_well(client, home)


async def test_07_2_500_random_frames(client: DaemonClient, home: Path) -> None:
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)

    def payload() -> bytes:
        if dice.random() < 0.3:
            return dice.randbytes(dice.randrange(200))
        changed = bytearray(PACKED)
        for _ in range(dice.randrange(1, 6)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed[: dice.randrange(1, len(changed) + 1)])

    async def once(data: bytes, greeted: bool) -> None:
        async with raw_peer(home) as peer:
            if greeted:
                await peer.greet()
            await peer.send(framed(data))
            # a lucky one is a hello; everything else is the end, and said so
            answer = await peer.read()
            assert answer is not None
            assert isinstance(answer, Welcome) or await peer.read() is None

    for _ in range(25):
        frames = [(payload(), dice.random() < 0.5) for _ in range(20)]
        await asyncio.gather(*(once(*frame) for frame in frames))
    await still_well(client, home)


async def test_07_2_the_257th_client_is_told_and_workers_do_not_count(home: Path) -> None:
    async with daemon(home) as client, AsyncExitStack() as stack:
        others: list[RawPeer] = []
        for _ in range(255):
            others.append(await stack.enter_async_context(raw_peer(home)))
            await others[-1].greet()
        async with raw_peer(home) as one_more:
            assert await one_more.reason() == (ErrorCode.BUSY, "256 clients at most")
        row = await new(client, "echo x", agent="shell")
        await until(client, row.session_id, quiet)
        await others[0].close()

        async def welcome() -> bool:
            async with raw_peer(home) as again:
                await again.send(HELLO)
                return isinstance(await again.read(), Welcome)

        async with asyncio.timeout(10):
            while not await welcome():
                await asyncio.sleep(0.05)


async def test_07_2_a_supervisor_that_comes_back_to_a_full_house_adopts(home: Path) -> None:
    """A worker that finds no room dials again; its turn goes on."""
    config = "[daemon]\nmax_clients = 3\n"
    async with daemon(home, config) as client, AsyncExitStack() as stack:
        row = await new(client, "sleep 2; echo survived", agent="shell")
        await until(client, row.session_id, lambda r: r.pending_tools == 1)
        (worker,) = homes.workers_of(home)
        kill(homes.supervisors_of(home))
        async with connect(home) as other:
            await other.follow()
            for _ in range(2):
                await stack.enter_async_context(raw_peer(home))
            done = await until(other, row.session_id, lambda r: quiet(r) and not r.stale)
            assert done.worker_pid == worker


async def test_07_2_a_request_that_crosses_a_goodbye_is_answered(tmp_path: Path) -> None:
    """A daemon that was stopped is not revived, so nothing may wait for it."""
    codec: Codec = Codec(FromClient)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawPeer(reader, writer)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        await peer.send(Welcome(protocol=1, product="0", pid=1, generation="g"))
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.write(codec.encode(DaemonClosing(reason="shutdown")))
        await peer.close()

    server = await asyncio.start_unix_server(serve, str(tmp_path / "s"))
    connection = Connection(tmp_path / "s")
    await connection.open()
    with pytest.raises(DaemonError, match="stopped before it answered") as caught:
        await connection.request(Ping(), timeout=10)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    await connection.close()
    server.close()
    await server.wait_closed()


async def test_07_2_a_position_gets_just_what_is_missing(client: DaemonClient, home: Path) -> None:
    rows = [await new(client, "echo x", agent="shell") for _ in range(3)]
    for row in rows:
        await until(client, row.session_id, quiet)
    await client.service.ping()
    position = client.mirror.position
    await client.sessions.rename(rows[1].session_id, "renamed")
    async with raw_peer(home) as peer:
        await peer.greet()
        await peer.ask(RosterSubscribe(position=position))
        missed = (await peer.until(RosterDelta))[-1]
        assert "renamed" in [row.name for row in missed.upserts]
        assert {row.session_id for row in missed.upserts} == {rows[1].session_id}
        assert missed.sequence > position.sequence
    for unknown in (RosterPosition(generation="another life", sequence=1), None):
        async with raw_peer(home) as peer:
            await peer.greet()
            await peer.ask(RosterSubscribe(position=unknown))
            got = await peer.until(RosterEnd)
            (begin,) = [m for m in got if isinstance(m, RosterBegin)]
            assert begin.rows == 3


async def test_07_2_a_client_that_never_reads_costs_the_others_nothing(home: Path) -> None:
    config = "[daemon]\nwrite_buffer = 65536\nroster_tick = 0.005\n"
    async with daemon(home, config) as client:
        row = await new(client, agent="shell")
        async with raw_peer(home) as deaf:
            await deaf.greet()
            await deaf.ask(RosterSubscribe())
            await deaf.until(RosterEnd)
            slowest = 0.0
            for number in range(800):
                begun = time.monotonic()
                await client.sessions.rename(row.session_id, f"{number:04} {'n' * 290}")
                slowest = max(slowest, time.monotonic() - begun)
            assert slowest < 2
            await until(client, row.session_id, lambda r: r.name.startswith("0799"))
            deltas = await deaf.until(RosterBegin)
            assert len(deltas) < 750, "its stream was never dropped"
            rest = await deaf.until(RosterEnd)
            (shown,) = [r for m in rest if isinstance(m, RosterChunk) for r in m.rows]
            assert shown.name.startswith("0799")
            await client.sessions.rename(row.session_id, "live again")
            assert (await deaf.until(RosterDelta))[-1].upserts[0].name == "live again"


async def test_07_2_a_transcript_nobody_reads_is_dropped_and_said_so(home: Path) -> None:
    async with daemon(home, "[daemon]\nwrite_buffer = 65536\n") as client:
        row = await new(client, "say x")
        await until(client, row.session_id, quiet)
        async with raw_peer(home) as deaf:
            await deaf.greet()
            await deaf.ask(Attach(session_id=row.session_id))
            await deaf.until(SessionChunk)
            steps = "; ".join(["chunk 400000", "slow 5"] * 12)
            await client.conversation.prompt(row.session_id, steps, environ=ENV)
            await until(client, row.session_id, quiet)
            chunks = [m for m in await drained(deaf) if isinstance(m, SessionChunk)]
            assert chunks[-1].lost
            texts = [getattr(e, "text", "") for c in chunks for e in c.entries]
            assert len("".join(texts)) < 12 * 400_000
            await deaf.ask(Attach(session_id=row.session_id, tail=5))
            assert (await deaf.until(SessionChunk))[-1].replay


async def drained(peer: RawPeer) -> list[msgspec.Struct]:
    """All that was sent until now: a ping goes behind it."""
    await peer.ask(Ping())
    got: list[msgspec.Struct] = []
    while not (got and type(got[-1]).__name__ == "Reply"):
        message = await peer.read()
        assert message is not None
        got.append(message)
    return got


async def test_07_2_a_snapshot_of_3000_rows_is_chunked(home: Path) -> None:
    async with daemon(home) as client:
        await client.service.ping()
    database = Database(paths_for(home).database)
    await database.open(may_migrate=False)

    def fill(t) -> None:
        for number in range(3000):
            key = f"018f0000-0000-7000-8000-{number:012}"
            store.create(t, session(key, name="n" * 300, first_message="f" * 200))

    await database.write(fill)
    await database.close()
    async with daemon(home) as client:
        assert len(client.mirror) == 3000
        async with raw_peer(home) as peer:
            await peer.greet()
            await peer.ask(RosterSubscribe())
            got = await peer.until(RosterEnd)
        chunks = [m for m in got if isinstance(m, RosterChunk)]
        assert len({row.session_id for c in chunks for row in c.rows}) == 3000
        assert len(chunks) > 1 and max(peer.sizes) < MAX_FRAME
        assert sum(peer.sizes) > MAX_FRAME, "one frame would have done"
