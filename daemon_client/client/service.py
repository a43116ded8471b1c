"""Commands about the daemon itself."""

from __future__ import annotations

from daemon_client.client.expect import expect
from daemon_client.connection import Connection
from daemon_client.protocol.commands import AgentsList, Ping, Shutdown, Status
from daemon_client.protocol.replies import AgentsFound, DaemonStatus, Done


class Service:
    """Every method raises `DaemonError`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ping(self) -> None:
        """Return when the control plane has answered."""
        expect(Done, await self._connection.request(Ping()))

    async def status(self) -> DaemonStatus:
        """Process, workers, clients and counters."""
        return expect(DaemonStatus, await self._connection.request(Status()))

    async def agents(self, *, probe: bool = False) -> AgentsFound:
        """The catalogue, found or not; `probe` asks each for its version."""
        return expect(AgentsFound, await self._connection.request(AgentsList(probe=probe)))

    async def shutdown(self, *, force: bool = False, restart: bool = False) -> None:
        """End the daemon (S50), or only the supervisor (`restart`, 05.7).

        Returns when everything is done; `busy` names the running turns unless `force`.
        """
        command = Shutdown(force=force, restart=restart)
        expect(Done, await self._connection.request(command, timeout=90.0))
