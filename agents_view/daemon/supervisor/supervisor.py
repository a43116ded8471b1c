"""The supervisor: wiring only (spec 07.1). It never runs an agent and never fires a job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os

import msgspec

from agents_view.base.clock import Clock
from agents_view.base.failpoints import reach
from agents_view.base.settings import Settings
from agents_view.daemon.policy.access import PERSON
from agents_view.daemon.store.database import Database
from agents_view.daemon.supervisor import boot, upkeep
from agents_view.daemon.supervisor.context import Call, Daemon, StopRequest
from agents_view.daemon.supervisor.environments import Environments
from agents_view.daemon.supervisor.handlers.conversation import leave
from agents_view.daemon.supervisor.hearing import Hearing
from agents_view.daemon.supervisor.identify import caller_of
from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.supervisor.requests import Requests
from agents_view.daemon.supervisor.roster import Roster
from agents_view.daemon.supervisor.server import Server
from agents_view.daemon.supervisor.singleton import Lock
from agents_view.daemon.supervisor.storage import open_store
from agents_view.daemon.supervisor.streams import RosterStream, SessionStreams, closing
from agents_view.daemon.supervisor.tree import Launcher
from agents_view.daemon.supervisor.workers import WorkerPool
from agents_view.daemon.wire import FromPeer, WorkerHello
from daemon_client.connection import product_version
from daemon_client.errors import DaemonError
from daemon_client.ids import new_id
from daemon_client.paths import Paths, make_private
from daemon_client.protocol import PROTOCOL_VERSION, Hello, Request, Welcome
from daemon_client.protocol.commands import Detach

log = logging.getLogger(__name__)


class AlreadyRunning(Exception):
    """Another supervisor holds this state directory: attach to it."""


class Supervisor:
    """One per state directory. `run` returns when it was asked to end."""

    def __init__(
        self,
        paths: Paths,
        settings: Settings,
        clock: Clock,
        launcher: Launcher,
        *,
        embedded: bool = False,
    ) -> None:
        self._paths = paths
        self._lock = Lock(paths.daemon_lock)
        self._stop: asyncio.Future[StopRequest] | None = None
        self._wanted: StopRequest | None = None
        self.ready = asyncio.Event()
        generation = new_id()
        limits = settings.daemon
        db = Database(paths.database)
        roster = Roster(generation)
        self._server = Server(
            paths.socket,
            limits,
            greet=self._greet,
            receive=self._receive,
            lost=self._lost,
            is_worker=lambda identity: self._daemon.workers.worker_root(identity) is not None,
        )
        self._daemon = Daemon(
            paths=paths,
            settings=settings,
            clock=clock,
            generation=generation,
            embedded=embedded,
            started_at_ms=clock.now_ms(),
            db=db,
            roster=roster,
            roster_stream=RosterStream(roster, limits.write_buffer, limits.roster_tick),
            session_streams=SessionStreams(limits.write_buffer),
            workers=WorkerPool(db, paths, limits, clock, launcher, generation, tied=embedded),
            environments=Environments(),
            client_count=self._client_count,
            request_stop=self.request_stop,
            broadcast=self._broadcast,
        )
        self._hearing = Hearing(self._daemon)
        self._daemon.workers.events = self._hearing
        self._requests = Requests(self._daemon)

    # life

    async def run(self) -> StopRequest:
        """Serve until asked to stop. Raises `AlreadyRunning`, `StoreError`, `DaemonError`."""
        self._stop = asyncio.get_running_loop().create_future()
        if self._wanted is not None:
            self._stop.set_result(self._wanted)
        for directory in (self._paths.state_dir, self._paths.logs, self._paths.transcripts):
            make_private(directory)
        if not self._lock.acquire():
            raise AlreadyRunning
        try:
            self._lock.note(f"{os.getpid()}\n{self._paths.socket}\n")
            self._daemon.notice = await open_store(
                self._daemon.db,
                self._paths,
                self._daemon.settings.agent.stop_step,
                self._daemon.clock.now_ms(),
            )
            await boot.load_roster(self._daemon)
            await self._server.bind()
            log.info("supervisor up pid=%d version=%s", os.getpid(), product_version())
            self.ready.set()
            return await self._serve(self._stop)
        finally:
            await self._daemon.db.close()
            self._lock.release()

    async def _serve(self, stop: asyncio.Future[StopRequest]) -> StopRequest:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self._begin(), name="boot"),
                tasks.create_task(self._server.watch(), name="socket"),
                tasks.create_task(upkeep.run(self._daemon), name="upkeep"),
            ]
            request = await stop
            for helper in helpers:
                helper.cancel()
        await self._end(request)
        return request

    async def _begin(self) -> None:
        """Adopt, then let the first roster out, then deliver what waits."""
        await boot.adopt(self._daemon)
        await self._daemon.workers.all_dialled(self._daemon.settings.daemon.boot_pass)
        self._daemon.roster_stream.ready.set()
        reach("supervisor.booted")
        await boot.deliver_waiting(self._daemon)

    async def _end(self, request: StopRequest) -> None:
        """Goodbye to everybody; for good means that no process of ours is left (S50)."""
        reason = "restart" if request.restart else "shutdown"
        self._broadcast(closing(reason))
        self._daemon.workers.say_closing(reason)
        if not request.restart:
            bound = self._daemon.settings.daemon.stop_timeout
            await self._daemon.workers.stop_all("daemon stopped", bound)
        await self._daemon.workers.close()
        await self._server.close()
        log.info("supervisor down reason=%s", reason)

    def request_stop(self, request: StopRequest) -> None:
        """Ask it to end. Safe to repeat; the first one counts."""
        self._wanted = self._wanted or request
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(request)

    # connections

    async def _greet(self, peer: Peer, hello: Hello | WorkerHello) -> None:
        if isinstance(hello, WorkerHello):
            await self._daemon.workers.greet(peer, hello)
            return
        peer.client_id = hello.client_id
        peer.caller = PERSON
        peer.caller = caller_of(
            peer.identity, hello.session_id, self._daemon.roster, self._daemon.workers
        )
        peer.send(
            Welcome(
                protocol=PROTOCOL_VERSION,
                product=product_version(),
                pid=os.getpid(),
                generation=self._daemon.generation,
                embedded=self._daemon.embedded,
                recording=self._daemon.banner,
            )
        )

    def _receive(self, peer: Peer, message: FromPeer) -> None:
        if peer.worker_root is not None:
            self._daemon.workers.receive(peer, message)
        elif isinstance(message, Request):
            self._requests.receive(peer, message)

    def _lost(self, peer: Peer) -> None:
        if peer.worker_root is not None:
            self._daemon.workers.lost(peer)
            return
        self._daemon.roster_stream.drop(peer)
        for session_id in self._daemon.session_streams.sessions_of(peer):
            call = Call(
                request_id="",
                command=Detach(session_id=session_id),
                caller=peer.caller,
                peer=peer,
            )
            self._hearing.own(self._leave(call, session_id))

    async def _leave(self, call: Call, session_id: str) -> None:
        with contextlib.suppress(DaemonError):  # its worker went away as well: nothing to tell
            await leave(self._daemon, call, session_id)

    def _broadcast(self, message: msgspec.Struct) -> None:
        """To every client."""
        for peer in tuple(self._server.peers.values()):
            if peer.greeted and peer.worker_root is None:
                peer.send(message)

    def _client_count(self) -> int:
        return sum(1 for p in self._server.peers.values() if p.greeted and p.worker_root is None)
