"""Sends the requests of the API's client with aiohttp, whose parser costs half as much CPU as httpx's own: ADR 0047."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import aiohttp
import httpx
from yarl import URL

_MAX_CONNECTIONS: Final = 200
_KEEPALIVE_S: Final = 2.0
"""Idle connections are closed before the services close them."""
_ADDED_BY_AIOHTTP: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_ERRORS: Final = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ClientOSError, httpx.ReadError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ClientError, httpx.RemoteProtocolError),
)
"""Errors of httpx for those of aiohttp, of which the first that fits is taken."""


def connect_to_api() -> httpx.AsyncClient:
    """Return the connections of all readers, which keep nothing of one of them. They have to be closed."""
    without_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    # It calls the API of this system, which is at a private address.
    # nosemgrep: provider-called-without-guard  # noqa: ERA001  # is no code
    return httpx.AsyncClient(transport=AiohttpTransport(), cookies=without_cookies, trust_env=False)


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests over connections that stay open. It has to be created in the event loop that uses it."""

    def __init__(self) -> None:
        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS,
            keepalive_timeout=_KEEPALIVE_S,
            # The certificates that httpx trusts.
            ssl=httpx.create_ssl_context(trust_env=False),
        )
        # nosemgrep: provider-called-without-guard  # noqa: ERA001  # as above
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # httpx does it.
            auto_decompress=False,
            skip_auto_headers=_ADDED_BY_AIOHTTP,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        limits = request.extensions.get("timeout", {})
        with _errors_of_httpx(request):
            response = await self._session.request(
                request.method,
                # An encoded dot or slash in an id must arrive as it is: decoded, it would lead to another resource.
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=_body_of(request),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
                ),
            )
        return httpx.Response(
            response.status,
            headers=response.raw_headers,
            stream=_ResponseStream(response, request),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": (response.reason or "").encode()},
        )

    async def aclose(self) -> None:
        await self._session.close()


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx(self._request):
            async for piece in self._response.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        # After the end of the answer, the connection has been given back, and stays open.
        self._response.close()


def _body_of(request: httpx.Request) -> bytes | httpx.AsyncByteStream | None:
    """Return the body; the stream of an upload, which the client sends with its length."""
    try:
        return request.content or None
    except httpx.RequestNotRead:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        return request.stream


@contextmanager
def _errors_of_httpx(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientError as error:
        kind = next(kind for cause, kind in _ERRORS if isinstance(error, cause))
        raise kind(str(error), request=request) from error
