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
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from uuid import uuid4

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from kb_local.ports import LOOPBACK
from kb_local.serve_process import serve_until_signal
from kb_local.upstreams import UPSTREAMS, GatewayUpstream
from kb_shared.http.connection_limit import ConnectionLimit
from kb_shared.http.keep_alive import KEEP_ALIVE_S
from kb_shared.http.protocol import MAX_CONNECTIONS, Protocol
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
    # A long answer may pause for as long as it likes: agents stream. Idle connections go before uvicorn closes them.
    client = httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=2),
        # A client keeps cookies, and would send those of one caller with the requests of all others.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=2),
        trust_env=False,
    )

    async def forward(request: Request) -> Response:
        if request.scope["path"] in OPERATORS_PATHS:
            detail = "This path is served by each service on its own port, and not here."
            return _problem(request, HTTPStatus.NOT_FOUND, "not-found", detail=detail)
        upstream = route_upstream(request.url.path)
        body = _RequestBody(request)
        outgoing = _build_outgoing(request, body, client=client, base_url=upstreams[upstream])
        try:
            answer = await _send_while_connected(request, body, sending=client.send(outgoing, stream=True))
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return _unavailable(request, upstream)
        except httpx.RequestError:
            return _connection_lost(request, upstream)
        response = StreamingResponse(_stream_body(answer), status_code=answer.status_code)
        response.raw_headers = _end_to_end(answer.headers.raw)
        return response

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(routes=[Route("/{path:path}", forward, methods=METHODS)], lifespan=lifespan)


class _RequestBody:
    """The body of a forwarded request; a disconnect can be awaited only after its end."""

    def __init__(self, request: Request) -> None:
        self.has_ended = asyncio.Event()
        self._request = request

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._request.stream():
            yield chunk
        self.has_ended.set()


async def _send_while_connected(
    request: Request, body: _RequestBody, *, sending: Coroutine[Any, Any, httpx.Response]
) -> httpx.Response:
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


def _build_outgoing(request: Request, body: _RequestBody, *, client: httpx.AsyncClient, base_url: str) -> httpx.Request:
    # The bytes as they came: decoding and encoding again would change an escaped slash.
    raw_path: bytes = request.scope["raw_path"]
    if query := request.scope["query_string"]:
        raw_path += b"?" + query
    has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
    if not has_body:
        body.has_ended.set()
    return client.build_request(
        request.method,
        httpx.URL(base_url).copy_with(raw_path=raw_path),
        headers=httpx.Headers(_end_to_end(request.headers.raw)),
        content=body.chunks() if has_body else None,
    )


async def _stream_body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()


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
