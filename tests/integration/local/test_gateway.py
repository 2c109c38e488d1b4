import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kb_local.gateway import route_upstream
from kb_local.ports import LOOPBACK, NO_TLS, free_port
from kb_local.python_server import GatewayProcess
from kb_local.upstreams import UPSTREAMS, GatewayUpstream
from tests.noisy_neighbour.connection import connected, head
from tests.waiting import DEADLINE_S, until

ORG = "/v0/orgs/acme"


@pytest.mark.parametrize(
    ("path", "upstream"),
    [
        (f"{ORG}/knowledge-bases/0123456789abcdef01234567/search", "kb-search"),
        (f"{ORG}/knowledge-bases/search", "kb-search"),
        (f"{ORG}/runs", "kb-search"),
        (f"{ORG}/runs/1", "kb-search"),
        (f"{ORG}/prompts", "kb-search"),
        (f"{ORG}/agents/a/knowledge-base-tools", "kb-search"),
        (f"{ORG}/threads", "kb-search"),
        (f"{ORG}/insights/queries", "kb-search"),
        (f"{ORG}/mcp", "kb-search"),
        ("/mcp", "kb-search"),
        ("/mcp/", "kb-search"),
        (f"{ORG}/knowledge-bases", "kb-api"),
        (f"{ORG}/knowledge-bases/0123456789abcdef01234567", "kb-api"),
        (f"{ORG}/knowledge-bases/0123456789abcdef01234567/search/more", "kb-api"),
        (f"{ORG}/knowledge-bases/0123456789abcdef01234567/documents/search", "kb-api"),
        (f"{ORG}/knowledge:retrieve", "kb-search"),
        (f"{ORG}/knowledge/search", "kb-search"),
        ("/console", "kb-console"),
        ("/console/orgs/acme/knowledge-bases", "kb-console"),
        ("/consoles", "kb-api"),
        (f"{ORG}/console", "kb-api"),
        (f"{ORG}/knowledge:import", "kb-knowledge"),
        (f"{ORG}/knowledge-entries", "kb-knowledge"),
        (f"{ORG}/knowledge-entries/les-rans.init/chunks", "kb-knowledge"),
        (f"{ORG}/entities/user:alice", "kb-knowledge"),
        (f"{ORG}/graph/nodes", "kb-knowledge"),
        (f"{ORG}/documents:batch", "kb-api"),
        (f"{ORG}/runsheets", "kb-api"),
        ("/v0/orgs/runs/tags", "kb-api"),
        ("/openapi.json", "kb-api"),
        ("/", "kb-api"),
    ],
)
def test_each_path_goes_to_the_service_that_has_it(path: str, upstream: GatewayUpstream) -> None:
    assert route_upstream(path) == upstream


class Echo:
    """An upstream that tells what it was sent."""

    def __init__(self) -> None:
        self.port = free_port()
        self.begin()
        routes = [
            Route("/v0/orgs/acme/events", self.stream),
            Route("/v0/orgs/acme/for-ever", self.wait_for_disconnect, methods=["GET", "POST"]),
            Route("/v0/orgs/acme/refused", self.refuse, methods=["POST"]),
            Route("/{path:path}", self.echo, methods=["GET", "POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), host=LOOPBACK, port=self.port, log_level="critical")
        self.server = uvicorn.Server(config)

    def begin(self) -> None:
        """Forget what earlier tests did."""
        self.may_finish = asyncio.Event()
        self.stream_closed = asyncio.Event()
        self.asked = asyncio.Event()
        self.caller_left = asyncio.Event()

    async def echo(self, request: Request) -> Response:
        response = JSONResponse(
            {
                "raw_path": request.scope["raw_path"].decode(),
                "query": request.scope["query_string"].decode(),
                "body_bytes": len(await request.body()),
                "headers": dict(request.headers),
            },
            status_code=418,
        )
        response.headers["x-request-id"] = request.headers.get("x-request-id", "none")
        response.headers.append("set-cookie", "a=1")
        response.headers.append("set-cookie", "b=2")
        return response

    async def wait_for_disconnect(self, request: Request) -> Response:
        self.asked.set()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.caller_left.set()
        return Response()

    async def refuse(self, _request: Request) -> Response:
        """Answer before any of the body was read, as a service refuses a wrong key."""
        return JSONResponse({"type": "unauthorized"}, status_code=401)

    async def stream(self, _request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            try:
                yield "data: first\n\n"
                await self.may_finish.wait()
                yield "data: last\n\n"
            finally:
                self.stream_closed.set()

        return StreamingResponse(events(), media_type="text/event-stream")


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[Echo]:
    upstream = Echo()
    serving = asyncio.create_task(upstream.server.serve())
    await until(lambda: upstream.server.started, what="the upstream")
    yield upstream
    upstream.server.should_exit = True
    await serving


@pytest.fixture
def echo(upstream: Echo) -> Iterator[Echo]:
    upstream.begin()
    yield upstream
    upstream.may_finish.set()


@pytest.fixture(scope="module")
async def gateway(upstream: Echo, server_logs: Path) -> AsyncIterator[GatewayProcess]:
    no_server = f"http://{LOOPBACK}:{free_port()}"
    server = GatewayProcess(
        {**dict.fromkeys(UPSTREAMS, no_server), "kb-api": f"http://{LOOPBACK}:{upstream.port}"},
        port=free_port(),
        log=server_logs / "gateway.log",
    )
    await server.start()
    yield server
    assert await server.stop() == 0


@pytest.fixture
async def client(gateway: GatewayProcess, echo: Echo) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=NO_TLS, timeout=30) as client:
        yield client


async def test_status_headers_and_request_id_come_through_unchanged(client: httpx.AsyncClient) -> None:
    answer = await client.get(
        f"{ORG}/tags/a%2Fb?name=x%20y&name=z",
        headers={"x-request-id": "r-1", "authorization": "Bearer k", "traceparent": "00-1-2-01"},
    )
    assert answer.status_code == 418
    assert answer.headers["x-request-id"] == "r-1"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert len(answer.headers.get_list("date")) == len(answer.headers.get_list("server")) == 1
    seen = answer.json()
    assert seen["raw_path"] == f"{ORG}/tags/a%2Fb"
    assert seen["query"] == "name=x%20y&name=z"
    assert seen["headers"]["authorization"] == "Bearer k"
    assert seen["headers"]["traceparent"] == "00-1-2-01"
    assert "content-length" not in seen["headers"]


async def test_a_cookie_of_one_caller_is_never_sent_for_another(
    client: httpx.AsyncClient, gateway: GatewayProcess
) -> None:
    assert (await client.get(f"{ORG}/tags")).headers.get_list("set-cookie") == ["a=1", "b=2"]
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=NO_TLS, timeout=30) as other:
        assert "cookie" not in (await other.get(f"{ORG}/tags")).json()["headers"]
        with_own = await other.get(f"{ORG}/tags", headers={"cookie": "own=1"})
    assert with_own.json()["headers"]["cookie"] == "own=1"


async def test_a_large_body_comes_through_whole(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{ORG}/documents:batch", content=b"x" * 5_000_000)
    assert answer.json()["body_bytes"] == 5_000_000


NEVER_SENT = {"Content-Length": "100"}


@pytest.mark.parametrize(
    "headers", [NEVER_SENT, {"Transfer-Encoding": "chunked"}, NEVER_SENT | {"Expect": "100-continue"}]
)
async def test_a_refusal_does_not_wait_for_a_body_that_never_comes(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("POST", f"{ORG}/refused", headers))
        assert await connection.status() == 401


async def test_a_refused_body_that_still_comes_spoils_nothing(client: httpx.AsyncClient) -> None:
    answers = [await client.post(f"{ORG}/refused", content=b"x" * 3_000_000) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert (await client.post(f"{ORG}/tags", content=b"12345")).json()["body_bytes"] == 5


async def test_a_body_for_which_a_client_wants_to_be_asked_is_asked_for_and_comes_through(
    client: httpx.AsyncClient,
) -> None:
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("POST", f"{ORG}/tags", {"Content-Length": "3", "Expect": "100-continue"}))
        assert await connection.status() == 100
        await connection.send(b"abc")
        assert await connection.status() == 418


async def test_chunks_are_one_body_and_the_connection_goes_on(client: httpx.AsyncClient) -> None:
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        for _ in range(2):
            await connection.send(head("POST", f"{ORG}/tags", {"Transfer-Encoding": "chunked"}) + b"3\r\nabc\r\n")
            await connection.send(b"2\r\nde\r\n0\r\n\r\n")
            assert await connection.status() == 418
            assert b'"body_bytes":5' in await connection.reader.readuntil(b"}}")


async def test_a_head_has_the_length_of_the_body_and_no_body(client: httpx.AsyncClient) -> None:
    answer = await client.head(f"{ORG}/tags")
    assert (answer.status_code, answer.content) == (418, b"")
    assert int(answer.headers["content-length"]) > 100
    assert (await client.get(f"{ORG}/tags")).status_code == 418


async def test_a_client_who_leaves_within_the_body_leaves_the_service_too(
    client: httpx.AsyncClient, echo: Echo
) -> None:
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("POST", f"{ORG}/for-ever", NEVER_SENT) + b"{")
        await echo.asked.wait()
    await asyncio.wait_for(echo.caller_left.wait(), timeout=DEADLINE_S)


@pytest.mark.parametrize("target", ["@other.test/", "//other.test/x", "http://other.test/x", "*"])
async def test_a_target_that_is_no_path_reaches_no_other_host(client: httpx.AsyncClient, target: str) -> None:
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("GET", target, {}))
        assert await connection.status() in {404, 418}


async def test_a_browser_at_the_base_url_is_led_to_the_console_and_a_program_is_not(client: httpx.AsyncClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for method in ("GET", "HEAD"):
        led = await client.request(method, "/", headers=browser)
        assert (led.status_code, led.headers["location"], led.headers["vary"]) == (307, "/console/", "accept")
    for accept in ("*/*", "application/json"):
        assert (await client.get("/", headers={"accept": accept})).status_code == 418
    assert (await client.post("/", headers=browser)).status_code == 418
    assert (await client.get(f"{ORG}/tags", headers=browser)).status_code == 418


async def test_events_are_passed_on_as_they_come(client: httpx.AsyncClient, echo: Echo) -> None:
    async with client.stream("GET", f"{ORG}/events") as answer:
        pieces = answer.aiter_text()
        assert await anext(pieces) == "data: first\n\n"
        echo.may_finish.set()
        assert await anext(pieces) == "data: last\n\n"


async def test_a_reader_who_leaves_ends_the_stream_upstream(client: httpx.AsyncClient, echo: Echo) -> None:
    async with client.stream("GET", f"{ORG}/events") as answer:
        await anext(answer.aiter_text())
    await asyncio.wait_for(echo.stream_closed.wait(), timeout=DEADLINE_S)


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", b"{}")])
async def test_a_caller_who_does_not_wait_for_an_answer_leaves_the_service_too(
    client: httpx.AsyncClient, echo: Echo, method: str, body: bytes | None
) -> None:
    asking = asyncio.create_task(client.request(method, f"{ORG}/for-ever", content=body))
    await asyncio.wait_for(echo.asked.wait(), timeout=DEADLINE_S)
    asking.cancel()
    await asyncio.wait_for(echo.caller_left.wait(), timeout=DEADLINE_S)


async def test_a_service_that_is_down_is_a_503_that_says_when_to_come_again(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{ORG}/knowledge-bases/search", json={}, headers={"x-request-id": "r-2"})
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "r-2"
    assert answer.json()["type"] == "service-unavailable"


async def test_a_service_that_dies_over_a_request_is_a_502_because_its_work_may_be_done(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, LOOPBACK, 0) as upstream:
        url = f"http://{LOOPBACK}:{upstream.sockets[0].getsockname()[1]}"
        server = GatewayProcess(dict.fromkeys(UPSTREAMS, url), port=free_port(), log=tmp_path / "gateway.log")
        await server.start()
        async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=30) as client:
            answer = await client.post(f"{server.url}{ORG}/tags", json={})
        await server.stop()
    assert answer.status_code == 502
    assert answer.json()["type"] == "connection-lost"


@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "/metrics?x=1"])
async def test_metrics_are_not_passed_on(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "not-found")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_two_lengths_of_one_body_are_refused_and_the_connection_ends(client: httpx.AsyncClient) -> None:
    both = {"Content-Length": "5", "Transfer-Encoding": "chunked"}
    async with connected(str(client.base_url)) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("POST", "/", both) + b"0\r\n\r\n" + head("GET", "/", {}))
        received = await connection.reader.read()
    assert received.startswith(b"HTTP/1.1 400")
    assert received.endswith(b"}")
    assert b"HTTP/1.1 418" not in received
