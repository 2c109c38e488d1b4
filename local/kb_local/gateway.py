"""One base URL for all services: `python -m kb_local.gateway --port N`, and of each service its URL: `--kb-api URL`.

It replaces the Ingress of a cluster: it routes by path and forwards requests and responses unchanged. It does not
serve /metrics, which is for operators only.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import aiohttp
import uvicorn
from multidict import CIMultiDict
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from yarl import URL

from kb_local.ports import LOOPBACK
from kb_local.serve_process import serve_until_signal
from kb_local.upstreams import UPSTREAMS, GatewayUpstream
from kb_shared.http.connection_limit import ConnectionLimit
from kb_shared.http.keep_alive import KEEP_ALIVE_S
from kb_shared.http.protocol import MAX_CONNECTIONS, MAX_HEAD_BYTES, Protocol
from kb_shared.http.security_headers import with_security_headers
from kb_shared.http.uvicorn_server import listen

SEARCH_COLLECTIONS = frozenset({"agents", "chat-models", "insights", "mcp", "prompts", "runs", "threads"})
KNOWLEDGE_COLLECTIONS = frozenset(
    {"check-ins", "entities", "graph", "knowledge", "knowledge-entries", "knowledge-sources", "mcp-servers"}
)
# Of one connection, not of the request (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
OPERATORS_PATHS = frozenset({"/metrics"})
CONSOLE = "/console/"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
RETRY_AFTER_S = 1
CLIENT_CLOSED_REQUEST = 499


def route_upstream(path: str) -> GatewayUpstream:
    """Say which service answers `path`, with or without `/v0/orgs/{organization_id}` before it."""
    if path == "/console" or path.startswith("/console/"):
        return "kb-console"
    match path.strip("/").split("/"):
        case ["v0", "orgs", _, *rest]:
            segments = rest
        case segments:
            pass
    match segments:
        case ["knowledge-bases", "search"] | ["knowledge-bases", "search", "explain"]:
            return "kb-search"
        case ["knowledge-bases", _, "search" | "tool"] | ["knowledge-bases", _, "search", "explain"]:
            return "kb-search"
        case ["knowledge:retrieve"] | ["knowledge", "search"]:
            return "kb-search"
        case [collection, *_]:
            return _route_collection(collection.partition(":")[0])
    return "kb-api"


def _route_collection(name: str) -> GatewayUpstream:
    if name in SEARCH_COLLECTIONS:
        return "kb-search"
    return "kb-knowledge" if name in KNOWLEDGE_COLLECTIONS else "kb-api"


def create_app(upstreams: Mapping[GatewayUpstream, str]) -> ASGIApp:
    """Return the gateway to the services at these base URLs."""

    async def forward(request: Request) -> Response:
        if request.scope["path"] in OPERATORS_PATHS:
            detail = "This path is served by each service on its own port, and not here."
            return _problem(request, HTTPStatus.NOT_FOUND, "not-found", detail=detail)
        if _is_browser_at_the_door(request):
            return RedirectResponse(CONSOLE, headers={"vary": "accept"})
        upstream = route_upstream(request.url.path)
        body = _RequestBody(request)
        sending = _send(request, body, client=request.state.client, base_url=upstreams[upstream])
        try:
            answer = await _send_while_connected(request, body, sending=sending)
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return _unavailable(request, upstream)
        except (aiohttp.ClientError, ConnectionError):
            return _connection_lost(request, upstream)
        return _ForwardedAnswer(answer, body)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
        async with _open_client() as client:
            yield {"client": client}

    return Starlette(routes=[Route("/{path:path}", forward, methods=METHODS)], lifespan=lifespan)


def _open_client() -> aiohttp.ClientSession:
    """Return a client that reads an answer while it still sends, as a service may refuse a body that never comes."""
    return aiohttp.ClientSession(
        # A long answer may pause for as long as it likes: agents stream. Idle connections end before uvicorn's.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=2),
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2),
        # A client keeps cookies, and would send those of one caller with the requests of all others.
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
        auto_decompress=False,
        max_line_size=MAX_HEAD_BYTES,
        max_field_size=MAX_HEAD_BYTES,
    )


def _is_browser_at_the_door(request: Request) -> bool:
    """Say whether a person has opened the address that `kb up` prints: programs do not ask for HTML."""
    reads = request.method in {"GET", "HEAD"}
    return reads and request.scope["path"] == "/" and "text/html" in request.headers.get("accept", "")


class _RequestBody:
    """The body of a forwarded request; a disconnect can be awaited only after its end."""

    def __init__(self, request: Request) -> None:
        self.has_ended = asyncio.Event()
        self._request = request

    async def chunks(self) -> AsyncIterator[bytes]:
        # Else aiohttp keeps the headers back until there is something of the body.
        yield b""
        try:
            async for chunk in self._request.stream():
                yield chunk
        finally:
            self.has_ended.set()


class _ForwardedAnswer(StreamingResponse):
    """The answer of a service, which may come before the body of the request has ended."""

    def __init__(self, answer: aiohttp.ClientResponse, body: _RequestBody) -> None:
        super().__init__(_stream_body(answer), status_code=answer.status)
        self.raw_headers = _end_to_end(answer.raw_headers)
        self._request_body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_after_body() -> Message:
            # Who looks for a disconnect would take pieces of the body, and ask a client for one that was refused.
            await self._request_body.has_ended.wait()
            return await receive()

        await super().__call__(scope, receive_after_body, send)


async def _send_while_connected(
    request: Request, body: _RequestBody, *, sending: Coroutine[Any, Any, aiohttp.ClientResponse]
) -> aiohttp.ClientResponse:
    """Forward a request until the client disconnects, so that no service works for a client that has gone.

    Raises:
        ClientDisconnect: the client has disconnected; the connection to the service is closed.
    """
    answering = asyncio.ensure_future(sending)
    disconnecting = asyncio.ensure_future(_wait_for_disconnect(request, body))
    try:
        await asyncio.wait({answering, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        for task in (answering, disconnecting):
            task.cancel()
        await asyncio.gather(answering, disconnecting, return_exceptions=True)


async def _wait_for_disconnect(request: Request, body: _RequestBody) -> None:
    await body.has_ended.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _send(
    request: Request, body: _RequestBody, *, client: aiohttp.ClientSession, base_url: str
) -> aiohttp.ClientResponse:
    has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
    if not has_body:
        body.has_ended.set()
    headers = _end_to_end(request.headers.raw)
    return await client.request(
        request.method,
        _target(request, base_url),
        headers=CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
        data=body.chunks() if has_body else None,
        allow_redirects=False,
    )


def _target(request: Request, base_url: str) -> URL:
    """Return the URL at the service, with the bytes as they came: decoding would change an escaped slash."""
    path: str = request.scope["raw_path"].decode("latin-1")
    base = URL(base_url)
    return URL.build(
        scheme=base.scheme,
        host=base.host or LOOPBACK,
        port=base.port,
        # A target that is no path, such as `@other.host`, becomes one.
        path=path if path.startswith("/") else f"/{path}",
        query_string=request.scope["query_string"].decode("latin-1"),
        encoded=True,
    )


async def _stream_body(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    finally:
        answer.close()


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in HOP_BY_HOP]


def _unavailable(request: Request, upstream: GatewayUpstream) -> Response:
    return _problem(
        request,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "service-unavailable",
        detail=f"{upstream} does not run at the moment; the request was not sent. Try again, or see `kb status`.",
        headers={"retry-after": str(RETRY_AFTER_S)},
    )


def _connection_lost(request: Request, upstream: GatewayUpstream) -> Response:
    return _problem(
        request,
        HTTPStatus.BAD_GATEWAY,
        "connection-lost",
        detail=f"{upstream} ended before it answered; whether it did what was asked is not known.",
    )


def _problem(
    request: Request, status: HTTPStatus, slug: str, *, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    request_id = request.headers.get("x-request-id") or uuid4().hex
    answer = JSONResponse(
        {"type": slug, "title": status.phrase, "status": status, "detail": detail, "request_id": request_id},
        status_code=status,
        headers={"x-request-id": request_id, **(headers or {})},
        media_type="application/problem+json",
    )
    answer.raw_headers = with_security_headers(answer.raw_headers)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kb_local.gateway", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    for name in UPSTREAMS:
        parser.add_argument(f"--{name}", required=True, help="base URL")
    options = parser.parse_args()
    # Until it serves.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        create_app({name: getattr(options, name.replace("-", "_")) for name in UPSTREAMS}),
        # What services refuse about a connection has to be refused here: they see other connections.
        http=partial(Protocol, connections=ConnectionLimit(limit=MAX_CONNECTIONS)),  # type: ignore[arg-type]  # only called
        log_level="warning",
        # Those of the services are passed on.
        date_header=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    serve_until_signal(config, listen(LOOPBACK, options.port))


if __name__ == "__main__":
    main()
