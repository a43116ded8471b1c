"""The socket: who connects, and that nobody's garbage bothers another (spec 07.2)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from agents_view.base.processes import Identity, identify
from agents_view.base.settings import DaemonSettings
from agents_view.daemon.supervisor.peer import Peer
from agents_view.daemon.wire import FromPeer, WorkerHello
from daemon_client.errors import DaemonError, ErrorCode, FrameError
from daemon_client.framing import FrameLink
from daemon_client.paths import make_private
from daemon_client.protocol import OLDEST_PROTOCOL, PROTOCOL_VERSION, Hello

log = logging.getLogger(__name__)

_SWEEP = 1.0


class Server:
    """Listens on a unix socket. `greet` is told of the first frame, `receive` of all others."""

    def __init__(
        self,
        path: Path,
        settings: DaemonSettings,
        *,
        greet: Callable[[Peer, Hello | WorkerHello], Awaitable[None]],
        receive: Callable[[Peer, FromPeer], None],
        lost: Callable[[Peer], None],
        is_worker: Callable[[Identity], bool],
    ) -> None:
        self.path = path
        self._settings = settings
        self._greet = greet
        self._receive = receive
        self._lost = lost
        self._is_worker = is_worker
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self.peers: dict[int, Peer] = {}
        self._since: dict[int, float] = {}
        self.refused = 0

    async def bind(self) -> None:
        """Take the address over; a dead socket there is removed. Call with the lock held."""
        make_private(self.path.parent)
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # never readable by others, not even between bind and chmod
        try:
            listener.bind(str(self.path))
        finally:
            os.umask(before)
        loop = asyncio.get_running_loop()
        old = self._server
        self._server = await loop.create_unix_server(self._connection, sock=listener, backlog=256)
        info = self.path.stat()
        self._inode = (info.st_dev, info.st_ino)
        if old is not None:
            old.close()

    def still_ours(self) -> bool:
        """Whether the path still leads to our socket (a sweeper of temp files may have come)."""
        try:
            info = self.path.stat()
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == self._inode

    async def watch(self) -> None:
        """Re-bind a socket that was swept away; close connections that send half a frame."""
        checked = 0.0
        while True:
            await asyncio.sleep(_SWEEP)
            self._close_slow()
            checked += _SWEEP
            if checked >= self._settings.socket_check:
                checked = 0.0
                if not self.still_ours():
                    log.warning("socket swept away path=%s: binding again", self.path)
                    await self.bind()

    async def close(self) -> None:
        """Stop listening, end every connection, remove the socket if it is still ours."""
        if self._server is not None:
            self._server.close()
        for peer in tuple(self.peers.values()):
            peer.link.close()
        if self.still_ours():
            self.path.unlink(missing_ok=True)
        # what was written just before has to leave first
        for _ in range(20):
            if not self.peers:
                break
            await asyncio.sleep(0.01)
        for peer in tuple(self.peers.values()):
            peer.link.abort()

    # one connection

    def _connection(self) -> FrameLink:
        peer: Peer | None = None

        def made(link: FrameLink) -> None:
            nonlocal peer
            peer = self._accept(link)

        def frame(payload: bytes) -> None:
            assert peer is not None
            self._frame(peer, payload)

        def lost() -> None:
            if peer is not None:
                self._forget(peer)

        def garbage(error: FrameError) -> None:
            if peer is not None:
                self.refused += 1
                log.info("connection closed peer=%d reason=%s", peer.number, error)
                peer.refuse(DaemonError(ErrorCode.INVALID, f"not a message of ours: {error}"))

        return FrameLink(frame, lost, garbage, made)

    def _accept(self, link: FrameLink) -> Peer:
        sock = link.transport.get_extra_info("socket") if link.transport else None
        pid, uid = _credentials(sock)
        peer = Peer(link, identify(pid) if pid else None)
        self.peers[peer.number] = peer
        self._since[peer.number] = asyncio.get_running_loop().time()
        if uid is not None and uid != os.getuid():
            peer.refuse(DaemonError(ErrorCode.REFUSED, f"this daemon is not for uid {uid}"))
        elif self._too_many(peer):
            most = self._settings.max_clients
            peer.refuse(DaemonError(ErrorCode.BUSY, f"{most} clients at most"))
        return peer

    def _too_many(self, newest: Peer) -> bool:
        """Workers do not count: clients must never keep out what runs the agents."""
        most = self._settings.max_clients
        if len(self.peers) <= most or self._runs_agents(newest):
            return False
        return sum(not self._runs_agents(peer) for peer in self.peers.values()) > most

    def _runs_agents(self, peer: Peer) -> bool:
        return peer.identity is not None and self._is_worker(peer.identity)

    def _forget(self, peer: Peer) -> None:
        self.peers.pop(peer.number, None)
        self._since.pop(peer.number, None)
        for task in tuple(peer.tasks):
            task.cancel()
        self._lost(peer)

    def _frame(self, peer: Peer, payload: bytes) -> None:
        message = peer.codec.decode(payload)
        if peer.greeted:
            self._receive(peer, message)
        elif isinstance(message, (Hello, WorkerHello)):
            self._hello(peer, message)
        else:
            raise FrameError(f"{type(message).__name__} before hello")

    def _hello(self, peer: Peer, hello: Hello | WorkerHello) -> None:
        if not OLDEST_PROTOCOL <= hello.protocol <= PROTOCOL_VERSION + 1:
            message = (
                f"protocol {hello.protocol} ({hello.product}) does not fit the daemon's "
                f"protocol {PROTOCOL_VERSION}: run daemon upgrade, or update agents-view"
            )
            peer.refuse(DaemonError(ErrorCode.INCOMPATIBLE, message))
            return
        peer.greeted = True
        self._since.pop(peer.number, None)
        task = asyncio.get_running_loop().create_task(
            self._greeting(peer, hello), name=f"greet-{peer.number}"
        )
        peer.tasks.add(task)
        task.add_done_callback(peer.tasks.discard)

    async def _greeting(self, peer: Peer, hello: Hello | WorkerHello) -> None:
        try:
            await self._greet(peer, hello)
        except DaemonError as error:
            peer.refuse(error)

    def _close_slow(self) -> None:
        """A connection must say hello, and finish each frame it begins, within the bound."""
        bound = self._settings.hello_timeout
        now = asyncio.get_running_loop().time()
        for number, peer in tuple(self.peers.items()):
            waited = now - self._since.get(number, now)
            if waited > bound or peer.link.partial_for() > bound:
                self.refused += 1
                peer.refuse(DaemonError(ErrorCode.TIMEOUT, f"half a message for {bound:g} s"))


def _credentials(sock: socket.socket | None) -> tuple[int | None, int | None]:
    """(pid, uid) of the process at the other end, where the platform tells."""
    if sock is None or not hasattr(socket, "SO_PEERCRED"):
        return None, None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid
