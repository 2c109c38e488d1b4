"""Lets the MCP library send its requests through the transport that refuses our own network.

The library has an HTTP client of its own, which is a copy of ours under another name. So requests and answers are
handed over here, and there is one guard for all that users name.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import httpx2

from kb_knowledge.sources.guarded_http import USER_AGENT
from kb_knowledge.sources.source_address import ForbiddenAddress, check_form, count_refused
from kb_shared.providers.capped_answers import answers_up_to
from kb_shared.providers.public_transport import is_refused, transport_to_named_addresses

MAX_ANSWER_BYTES: Final = 20_000_000
"""Size of one answer, also of a stream of messages."""
TIMEOUT_S: Final = 30.0


class GuardedMcpTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public servers only."""

    def __init__(self, *, allow_private: bool) -> None:
        """Construct it; with `allow_private` servers may be private and have any port."""
        self._allow_private = allow_private
        self._guarded = transport_to_named_addresses(private=allow_private)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        try:
            check_form(url, allow_private=self._allow_private)
        except ForbiddenAddress as forbidden:
            count_refused(forbidden.reason)
            raise httpx2.ConnectError("not an address of a public server") from None
        sent = httpx.Request(
            request.method,
            url,
            headers=request.headers.raw,
            content=await request.aread(),
            extensions={"timeout": httpx.Timeout(TIMEOUT_S).as_dict()},
        )
        with _errors_of_the_library(), answers_up_to(MAX_ANSWER_BYTES):
            answer = await self._guarded.handle_async_request(sent)
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=_HandedOver(answer.stream))

    async def aclose(self) -> None:
        await self._guarded.aclose()


class _HandedOver(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_the_library():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _errors_of_the_library() -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException:
        raise httpx2.ReadTimeout("the server did not answer in time") from None
    except httpx.HTTPError as error:
        if is_refused(error):
            count_refused("not_public")
        raise httpx2.ReadError(type(error).__name__) from None


def create_mcp_http(headers: dict[str, str], *, allow_private: bool) -> httpx2.AsyncClient:
    """Make a client that sends `headers` with each request; redirects of another origin are not followed."""
    return httpx2.AsyncClient(
        transport=GuardedMcpTransport(allow_private=allow_private),
        headers={"user-agent": USER_AGENT, **headers},
        timeout=TIMEOUT_S,
        follow_redirects=False,
        trust_env=False,
    )
