"""Distributes requests among the ready replicas of a service, as an Ingress and a Service of Kubernetes do."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

from kb_local.gateway import route_upstream
from kb_local.ports import LOOPBACK, NO_TLS

KEEP_ALIVE_S: Final = 60.0
"""Seconds for which the Ingress keeps an idle connection to a replica (`keepalive_timeout` of NGINX)."""
_PIECE_BYTES: Final = 65536


@dataclass(slots=True)
class ServiceEndpoints:
    """Ports of the replicas that get requests, in turn."""

    _ports: list[int] = field(default_factory=list)

    def add(self, port: int) -> None:
        self._ports.append(port)

    def remove(self, port: int) -> None:
        self._ports.remove(port)

    def choose(self) -> int:
        """Return the port that had to wait longest; raises ConnectError where there is none."""
        if not self._ports:
            raise httpx.ConnectError("no replica is ready")
        self._ports.append(self._ports.pop(0))
        return self._ports[-1]


class IngressTransport(httpx.AsyncBaseTransport):
    """Chooses a replica for each request by its path, keeps connections to replicas open, and retries nothing."""

    def __init__(self, endpoints: Mapping[str, ServiceEndpoints]) -> None:
        """Describe the Ingress; `endpoints` are those of `kb-api` and `kb-search`."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_S)
        self._replicas = httpx.AsyncHTTPTransport(verify=NO_TLS, limits=limits)
        self._endpoints = endpoints

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        port = self._endpoints[route_upstream(request.url.path)].choose()
        request.url = request.url.copy_with(host=LOOPBACK, port=port)
        return await self._replicas.handle_async_request(request)

    async def aclose(self) -> None:
        await self._replicas.aclose()


@asynccontextmanager
async def cluster_service(endpoints: ServiceEndpoints) -> AsyncIterator[str]:
    """Serve an address that chooses a replica for each connection, as a Service does; give its URL.

    A connection stays with its replica until one of both ends closes it, also when the replica is no endpoint any more.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            replica_reader, replica_writer = await asyncio.open_connection(LOOPBACK, endpoints.choose())
        except (OSError, httpx.ConnectError):
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, replica_writer), _pump(replica_reader, writer))

    async with await asyncio.start_server(connected, LOOPBACK, 0) as server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes to the end of the stream; a reset is passed on as a reset."""
    try:
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        writer.transport.abort()
    with suppress(ConnectionError):
        writer.close()
