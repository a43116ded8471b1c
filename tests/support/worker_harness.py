"""A supervisor of straw that speaks the real wire, so that a worker can be tested alone.

`Bench` is a home with a store, sessions and a socket; `worker()` starts the real process on it,
`inline()` the same code as a task of the test's loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from agents_view.base import processes
from agents_view.base.clock import SystemClock
from agents_view.base.config import load_settings
from agents_view.daemon.store import prompts, sessions, workers
from agents_view.daemon.store.database import Database
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.store.transcripts import read_page, transcript_path
from agents_view.daemon.wire import (
    AnyOrder,
    Aside,
    Bye,
    Deliver,
    Event,
    Facts,
    FromPeer,
    Order,
    OrderDone,
    OrderFailed,
    SessionFacts,
    SupervisorClosing,
    Watch,
    WorkerArguments,
    WorkerHello,
    WorkerWelcome,
)
from agents_view.daemon.worker.worker import Worker
from daemon_client.framing import Codec, FrameLink
from daemon_client.ids import new_id
from daemon_client.paths import paths_for
from tests.support import homes
from tests.support.scripted import ENV, configure

T = TypeVar("T")

FAST = "[agent]\ncancel_timeout = 1\nstop_step = 1\n[daemon]\nredial_max = 0.2\n"


class Refused(Exception):
    """An order that failed; `code` and the message are the worker's."""

    def __init__(self, failed: OrderFailed) -> None:
        super().__init__(failed.error.message)
        self.code = failed.error.code


class StubSupervisor:
    """Takes one worker at a time; keeps everything it says in the order it says it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.said: list[FromPeer] = []
        self.frames: list[int] = []
        self.facts: dict[str, SessionFacts] = {}
        self.asides: dict[str, Aside] = {}
        self.hellos: list[WorkerHello] = []
        self.welcomes = True
        self.first_orders: list[AnyOrder] = []
        self._codec: Codec[FromPeer] = Codec(FromPeer)
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._link: FrameLink | None = None
        self._orders = 0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = await loop.create_unix_server(self._accept, str(self.socket))

    async def close(self) -> None:
        """Gone without a word, like a killed one."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()
        self.socket.unlink(missing_ok=True)

    def drop(self) -> None:
        """The connection breaks."""
        if self._link is not None:
            self._link.abort()
            self._link = None

    def send_raw(self, data: bytes) -> None:
        assert self._link is not None, "no worker is connected"
        self._link.send(data)

    @property
    def connected(self) -> bool:
        return self._link is not None and self._link.transport is not None

    def say_closing(self, reason: str) -> None:
        self._send(SupervisorClosing(reason=reason))  # type: ignore[arg-type]

    async def order(self, body: AnyOrder, within: float = 20.0) -> OrderDone:
        """Have it carried out. Raises `Refused`."""
        number = self.begin(body)
        done = await self.until(lambda: self.answer(number), within)
        if isinstance(done, OrderFailed):
            raise Refused(done)
        return done

    def begin(self, body: AnyOrder) -> int:
        self._orders += 1
        self._send(Order(order_id=self._orders, body=body))
        return self._orders

    def answer(self, number: int) -> OrderDone | OrderFailed | None:
        kinds = (OrderDone, OrderFailed)
        return next((m for m in self.said if isinstance(m, kinds) and m.order_id == number), None)

    async def until(self, wanted: Callable[[], T | None], within: float = 20.0) -> T:
        """Wait for what the worker says to satisfy `wanted`."""
        try:
            async with asyncio.timeout(within):
                while not (found := wanted()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never came; last facts {self.facts}") from None
        return found

    async def seen(
        self, session_id: str, wanted: Callable[[SessionFacts], object], within: float = 20.0
    ) -> SessionFacts:
        def look() -> SessionFacts | None:
            facts = self.facts.get(session_id)
            return facts if facts is not None and wanted(facts) else None

        return await self.until(look, within)

    def _accept(self) -> FrameLink:
        return FrameLink(self._take, lambda: None, lambda error: None, self._made)

    def _made(self, link: FrameLink) -> None:
        self._link = link

    def _send(self, message: msgspec.Struct) -> None:
        assert self._link is not None, "no worker is connected"
        self._link.send(self._codec.encode(message))

    def _take(self, payload: bytes) -> None:
        message = self._codec.decode(payload)
        self.said.append(message)
        self.frames.append(len(payload))
        if isinstance(message, WorkerHello):
            self.hellos.append(message)
            self.facts.update((f.session_id, f) for f in message.facts)
            for body in self.first_orders:
                self.begin(body)
            if self.welcomes:
                self._send(WorkerWelcome(generation="stub"))
        elif isinstance(message, Facts):
            self.facts.update((f.session_id, f) for f in message.sessions)
        elif isinstance(message, Aside):
            self.asides[message.session_id] = message
        self._changed.set()

    @property
    def said_bye(self) -> bool:
        return any(isinstance(m, Bye) for m in self.said)

    def entries(self, session_id: str) -> list:
        """What was streamed of a watched session."""
        events = [m for m in self.said if isinstance(m, Event) and m.session_id == session_id]
        return [entry for event in events for entry in event.entries]


class Bench:
    """A home, its store, its stub supervisor, and whatever workers a test starts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths = paths_for(home)
        self.db = Database(self.paths.database)
        self.up = StubSupervisor(self.paths.socket)
        self.root = ""

    async def session(self, *, agent: str = "scripted", parent: str | None = None, **more) -> str:
        """A new row in the store; the first one is the root of the tree."""
        key = new_id()
        self.root = self.root or key
        row = Session(
            session_id=key,
            agent=agent,
            cwd="/tmp",
            store=str(self.paths.state_dir),
            root_id=self.root,
            parent_id=parent or (self.root if key != self.root else None),
            depth=0 if key == self.root else 1,
            created_at_ms=1,
            last_activity_at_ms=1,
        )
        row = msgspec.structs.replace(row, **more)
        await self.db.write(lambda t: sessions.create(t, row))
        return key

    async def epoch(self) -> int:
        return await self.db.write(lambda t: workers.begin(t, self.root, 1))

    def arguments(self, epoch: int, *, tied: bool = False) -> WorkerArguments:
        return WorkerArguments(
            state=str(self.paths.state_dir),
            socket=str(self.paths.socket),
            config=str(self.paths.config_file),
            root_id=self.root,
            epoch=epoch,
            tied=tied,
        )

    @asynccontextmanager
    async def worker(self, *, tied: bool = False, **environ: str) -> AsyncIterator[Process]:
        """The real process, connected; killed at the end if it still runs."""
        async with self.process(tied=tied, **environ) as process:
            greeted = len(self.up.hellos)
            await self.up.until(lambda: len(self.up.hellos) > greeted)
            yield process

    @asynccontextmanager
    async def process(self, *, tied: bool = False, **environ: str) -> AsyncIterator[Process]:
        """The same without waiting for it to register."""
        found = await Process.start(self, self.arguments(await self.epoch(), tied=tied), environ)
        try:
            yield found
        finally:
            await found.kill()

    @asynccontextmanager
    async def inline(self, *, code: int = 0) -> AsyncIterator[Worker]:
        """The worker as a task of this loop, ended as its supervisor would; its exit code."""
        settings = load_settings(self.paths.config_file).settings
        worker = Worker(self.arguments(await self.epoch()), settings, SystemClock())
        greeted = len(self.up.hellos)
        task = asyncio.create_task(worker.run())
        try:
            await self.up.until(lambda: len(self.up.hellos) > greeted)
            yield worker
        finally:
            worker.request_stop("the test is over")
            assert await asyncio.wait_for(task, 20) == code

    async def deliver(self, session_id: str, text: str, **more) -> str:
        """Have a prompt accepted; its id."""
        key = more.pop("prompt_id", None) or new_id()
        more = {"environ": ENV} | more
        await self.up.order(Deliver(session_id=session_id, prompt_id=key, text=text, **more))
        return key

    async def idle(self, session_id: str, within: float = 20.0) -> SessionFacts:
        """Nothing under way, nothing queued, and it has worked."""
        return await self.up.seen(
            session_id,
            lambda f: f.worker_state == "ready" and f.turn is None and not f.queued
            and f.message_count,
            within,
        )  # fmt: skip

    async def prompts(self, session_id: str) -> list[tuple[str, str]]:
        """(text, state) in order."""

        def rows(t) -> list[tuple[str, str]]:
            query = "SELECT text, state FROM prompts WHERE session_id = ? ORDER BY position"
            return [(row[0], row[1]) for row in t.execute(query, (session_id,))]

        return await self.db.read(rows)

    async def queue(self, session_id: str, text: str) -> None:
        """A prompt that an earlier worker accepted."""
        fence = prompts.Fence(root_id=self.root, epoch=await self.epoch())
        await self.db.write(
            lambda t: prompts.accept(
                t,
                fence,
                prompt_id=new_id(),
                session_id=session_id,
                source="person",
                text=text,
                now_ms=1,
            )
        )

    async def transcript(self, session_id: str) -> list:
        """What is in the file, once the worker has written all it has."""
        await self.up.order(Watch(session_id=session_id, on=False))
        return await asyncio.to_thread(self.written, session_id)

    def written(self, session_id: str) -> list:
        """What is in the file now."""
        path = transcript_path(self.paths.transcripts, session_id)
        return list(read_page(path, limit=5000, max_bytes=64 << 20).entries)


class Process:
    """A worker process of the bench."""

    def __init__(self, identity: processes.Identity, bench: Bench) -> None:
        self.identity = identity
        self._bench = bench
        self._ended = asyncio.ensure_future(processes.wait_exit(identity))

    @classmethod
    async def start(cls, bench: Bench, given: WorkerArguments, environ: dict[str, str]) -> Process:
        words = ["-m", "agents_view.daemon.worker", "--state", given.state]
        words += ["--socket", given.socket, "--config", given.config]
        words += ["--root", given.root_id, "--epoch", str(given.epoch)]
        identity = await asyncio.to_thread(
            processes.spawn_detached,
            [homes.PYTHON, *words, *(["--tied"] if given.tied else [])],
            homes.environment(bench.home, PYTHONPATH=ENV["PYTHONPATH"], **environ),
            bench.paths.logs / "worker.err",
            "/",
        )
        return cls(identity, bench)

    async def ends(self, within: float = 20.0) -> int | None:
        """Its exit code."""
        return await asyncio.wait_for(asyncio.shield(self._ended), within)

    def signal(self, number: int) -> None:
        os.kill(self.identity.pid, number)

    async def kill(self) -> None:
        """kill -9, if it has not ended."""
        processes.signal(self.identity, signal.SIGKILL)
        await self.ends()


@asynccontextmanager
async def bench(*words: str, config: str = FAST, entry: str = "") -> AsyncIterator[Bench]:
    """A bench whose catalogue has the scripted agent; nothing of it is left at the end."""
    with homes.new_home() as home:
        configure(home, *words, config=config, entry=entry)
        made = Bench(home)
        for directory in (made.paths.tree_locks, made.paths.logs):
            directory.mkdir(mode=0o700, parents=True)
        await made.db.open(may_migrate=True)
        await made.up.open()
        try:
            yield made
        finally:
            await made.up.close()
            await made.db.close()


async def nothing_left(made: Bench) -> None:
    """No process of the home runs, agents and what they started included."""
    await homes.eventually(lambda: not homes.processes_of(made.home))
