"""Connects to addresses that a tenant named: only to public ones, resolved and checked when a connection is opened."""

from collections.abc import Iterable
from functools import cache
from ssl import SSLContext

import httpcore
import httpx
from httpcore import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from kb_shared.providers.capped_answers import CappedTransport
from kb_shared.providers.public_addresses import NotPublic, public_addresses_of


class _NotPublicAddress(httpcore.ConnectError):
    """The name leads to a private address, or to none."""


class _PublicOnly(AsyncNetworkBackend):
    """Connects to an address that was checked, never to the name; certificates are checked against the name."""

    def __init__(self) -> None:
        self._connect = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        failure: httpcore.ConnectError = _NotPublicAddress("not a public address")
        for address in await _checked(host, port):
            try:
                return await self._connect.connect_tcp(
                    address, port, timeout=timeout, local_address=local_address, socket_options=socket_options
                )
            except httpcore.ConnectError as refused:
                failure = refused
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._connect.sleep(seconds)


async def _checked(host: str, port: int) -> list[str]:
    try:
        return await public_addresses_of(host, port)
    except NotPublic:
        return []


@cache
def tls_context() -> SSLContext:
    """Create the TLS context once for the process: reading the certificates takes 30 ms of CPU."""
    return httpx.create_ssl_context(trust_env=False)


def is_refused(error: httpx.HTTPError) -> bool:
    """Say whether a request failed because its server is not a public one, before anything was sent."""
    return isinstance(error.__cause__, _NotPublicAddress)


def transport_to_named_addresses(*, private: bool) -> httpx.AsyncBaseTransport:
    """Make a transport that can't reach our own network, to whatever a name resolves; with `private`, it can.

    It reads no more of an answer than `answers_up_to` says.
    """
    transport = httpx.AsyncHTTPTransport(trust_env=False, verify=tls_context())
    if private:
        return CappedTransport(transport)
    # httpx has no parameter for it.
    transport._pool = httpcore.AsyncConnectionPool(  # noqa: SLF001  # see above
        ssl_context=tls_context(),
        max_connections=100,
        max_keepalive_connections=20,
        keepalive_expiry=5.0,
        network_backend=_PublicOnly(),
    )
    return CappedTransport(transport)
