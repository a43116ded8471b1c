"""A worker's line to its supervisor: which refusals are for good (07.1, 07.2)."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agents_view.base.clock import SystemClock
from agents_view.base.settings import DaemonSettings
from agents_view.daemon.wire import Order, WorkerHello, WorkerWelcome
from agents_view.daemon.worker.link import Link
from daemon_client.errors import ErrorCode
from daemon_client.framing import Codec
from daemon_client.protocol import PROTOCOL_VERSION, Closing, WireError


class Owner:
    """A worker as its line sees it."""

    def __init__(self) -> None:
        self.welcome = asyncio.Event()
        self.reasons: list[str] = []
        self.refusal = asyncio.Event()

    def hello(self) -> WorkerHello:
        return WorkerHello(
            protocol=PROTOCOL_VERSION,
            product="0",
            root_id="root",
            epoch=1,
            pid=os.getpid(),
            start=1,
            boot_id="boot",
            facts=(),
        )

    def welcomed(self) -> None:
        self.welcome.set()

    def ordered(self, order: Order) -> None:
        raise AssertionError("nothing was ordered")

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)
        self.refusal.set()


async def serve(path: Path, answers: list) -> tuple[asyncio.Server, list[float]]:
    """A supervisor that gives one of these to each dial, and closes unless it was a welcome."""
    codec: Codec = Codec(WorkerHello)
    dialled: list[float] = []
    given = iter(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append(asyncio.get_running_loop().time())
        message = next(given)
        writer.write(codec.encode(message))
        if isinstance(message, WorkerWelcome):
            await reader.read()
        writer.close()

    return await asyncio.start_unix_server(answer, str(path)), dialled


async def dial(
    path: Path, answers: list, until: Callable[[Owner], Awaitable[object]]
) -> tuple[Owner, list[float]]:
    server, dialled = await serve(path, answers)
    owner = Owner()

    async def revive() -> None:
        raise AssertionError("it is there")

    link = Link(path, DaemonSettings(), SystemClock(), owner, revive)
    running = asyncio.create_task(link.run())
    try:
        async with asyncio.timeout(10):
            await until(owner)
    finally:
        running.cancel()
        await link.close()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        await server.wait_closed()
    return owner, dialled


def refusal(code: ErrorCode) -> Closing:
    return Closing(error=WireError(code=code, message=f"because {code}"))


@pytest.mark.parametrize("code", [ErrorCode.BUSY, ErrorCode.TIMEOUT])
async def test_07_2_a_full_house_is_dialled_again_and_not_in_a_spin(
    tmp_path: Path, code: ErrorCode
) -> None:
    """A worker that gave up would end the turns of its tree."""
    answers = [refusal(code)] * 3 + [WorkerWelcome(generation="g")]
    owner, dialled = await dial(tmp_path / "s", answers, lambda o: o.welcome.wait())
    assert owner.reasons == [] and len(dialled) == 4
    pauses = [after - before for before, after in itertools.pairwise(dialled)]
    assert min(pauses) > 0.03 and pauses[-1] > pauses[0]


@pytest.mark.parametrize("code", [ErrorCode.REFUSED, ErrorCode.CONFLICT, ErrorCode.INCOMPATIBLE])
async def test_s3_a_supervisor_that_has_another_worker_is_believed(
    tmp_path: Path, code: ErrorCode
) -> None:
    answers = [refusal(code)] * 5
    owner, _ = await dial(tmp_path / "s", answers, lambda o: o.refusal.wait())
    assert owner.reasons[0] == f"because {code}"
