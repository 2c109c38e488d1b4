"""The search node as a whole: the listener, the catalogue, and their ends."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pymongo import AsyncMongoClient

from kb_local.search_node.catalogue import Catalogue
from kb_local.search_node.commands import SearchCommands
from kb_local.search_node.hello import rewrite_hello
from kb_local.search_node.proxy import ClientConnection
from kb_local.search_node.refresh import Delays

Address = tuple[str, int]

BACKLOG = 1024
MONGOD_TIMEOUT_MS = 2000
# Longer than any read of the node takes; a primary that is frozen would hold one for ever, also after an election.
SOCKET_TIMEOUT_MS = 10_000


class SearchNode:
    """A running node. `failed` gets an exception if it can't keep its indexes current any more."""

    def __init__(self, server: asyncio.Server, catalogue: Catalogue, *, failed: asyncio.Future[None]) -> None:
        host, port = server.sockets[0].getsockname()[:2]
        self.address: Address = (host, port)
        self.failed = failed
        self._catalogue = catalogue

    @property
    def uri(self) -> str:
        return f"mongodb://{self.address[0]}:{self.address[1]}/"

    async def wait_ready(self) -> None:
        """Return once the stored definitions are loaded. Commands are accepted before, and wait."""
        await self._catalogue.loaded.wait()


@contextlib.asynccontextmanager
async def serve(
    listen: Address, mongod: Address, *, siblings: Mapping[str, str] | None = None, delays: Delays | None = None
) -> AsyncIterator[SearchNode]:
    """Serve in front of one member of a replica set, until left.

    mongod may still be starting, and may be restarted.

    Args:
        listen: a loopback address; port 0 stands for any free one.
        mongod: the member that gets the bytes of clients. Without siblings it is the only one, and the primary.
        siblings: `host:port` of the nodes in front of all other members, by that of their members. Indexes follow
            whichever member is the primary.
        delays: how late this node is on purpose.

    Raises:
        ValueError: `listen` is not a loopback address.
        OSError: the port is taken.
    """
    siblings = siblings or {}
    if not ipaddress.ip_address(listen[0]).is_loopback:
        raise ValueError("the search node has no authentication and no TLS: it listens on loopback only")
    async with AsyncMongoClient[dict[str, Any]](
        ["{}:{}".format(*mongod), *siblings],
        directConnection=not siblings,
        serverSelectionTimeoutMS=MONGOD_TIMEOUT_MS,
        socketTimeoutMS=SOCKET_TIMEOUT_MS,
        datetime_conversion="DATETIME_MS",
        unicode_decode_error_handler="replace",
        appname="search-node",
    ) as client:
        catalogue = Catalogue(client, delays=delays or Delays(), shared=bool(siblings))
        commands = SearchCommands(catalogue)
        connections: set[ClientConnection] = set()
        address = ""

        def rewritten(reply: dict[str, Any]) -> dict[str, Any]:
            return rewrite_hello(reply, listen=address, siblings=siblings)

        def accept() -> ClientConnection:
            return ClientConnection(mongod, handle=commands.answer, rewrite_hello=rewritten, connections=connections)

        server = await asyncio.get_running_loop().create_server(accept, *listen, backlog=BACKLOG)
        running = asyncio.create_task(catalogue.run())
        node = SearchNode(server, catalogue, failed=running)
        address = "{}:{}".format(*node.address)
        try:
            yield node
        finally:
            server.close()
            for connection in list(connections):
                connection.abort()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await catalogue.close()
