"""HTTP as services serve it: in their own loop, on a real socket."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from kb_local.ports import NO_TLS, free_port
from kb_shared.http import server
from kb_shared.http.health import serve_health
from kb_shared.settings import CommonSettings
from tests.waiting import DEADLINE_S, until

HOST = "127.0.0.1"


@asynccontextmanager
async def serving(
    serve: Callable[[CommonSettings, asyncio.Event], Awaitable[None]],
) -> AsyncIterator[httpx.AsyncClient]:
    """Run a server until the block ends, which also waits for its clean stop."""
    settings = CommonSettings(http_host=HOST, http_port=free_port())
    stop = asyncio.Event()
    running = asyncio.ensure_future(serve(settings, stop))
    base_url = f"http://{HOST}:{settings.http_port}"
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, verify=NO_TLS, timeout=60) as client:

        async def answers() -> bool:
            try:
                return (await client.get("/healthz")).status_code < 500
            except httpx.ConnectError:
                return False

        await until(answers)
        yield client
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await running


async def test_a_service_without_routes_answers_for_its_health() -> None:
    reason: str | None = "joining"

    async def ready() -> str | None:
        return reason

    async with serving(lambda settings, stop: serve_health(settings, ready, stop)) as client:
        assert (await client.get("/readyz")).json() == {"status": "not ready", "reason": "joining"}
        reason = None
        assert (await client.get("/readyz")).status_code == 200
        assert "python_info" in (await client.get("/metrics")).text


async def test_a_readiness_check_that_fails_counts_as_not_ready_and_its_text_stays_inside() -> None:
    async def ready() -> str | None:
        raise ConnectionError("mongodb://user:password@host")

    async with serving(lambda settings, stop: serve_health(settings, ready, stop)) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "ConnectionError")


async def test_a_request_that_has_begun_is_answered_before_the_server_stops() -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> PlainTextResponse:
        arrived.set()
        await go_on.wait()
        return PlainTextResponse("done")

    app: ASGIApp = Starlette(routes=[Route("/slow", slow)])
    async with serving(lambda settings, stop: server.run(app, settings, stop)) as client:
        answer = asyncio.ensure_future(client.get("/slow"))
        await arrived.wait()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert (await answer).text == "done"


async def test_a_server_without_requests_sleeps_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0
    tick = uvicorn.Server.on_tick

    async def count(serving: uvicorn.Server, counter: int) -> bool:
        nonlocal ticks
        ticks += 1
        return await tick(serving, counter)

    monkeypatch.setattr(uvicorn.Server, "on_tick", count)
    async with serving(lambda settings, stop: server.run(Starlette(), settings, stop)):
        ticks = 0
        await asyncio.sleep(0.6)
        assert ticks <= 1


async def test_a_request_that_arrives_while_the_server_stops_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    stop_server = uvicorn.Server.shutdown

    async def answer(_: Request) -> PlainTextResponse:
        return PlainTextResponse("done")

    async def send_and_stop(stopping: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        # It is in the socket of the server, which closes its connections before it reads again.
        writer.write(request)
        await stop_server(stopping, sockets)

    monkeypatch.setattr(uvicorn.Server, "shutdown", send_and_stop)
    app: ASGIApp = Starlette(routes=[Route("/", answer)])
    async with serving(lambda settings, stop: server.run(app, settings, stop)) as client:
        reader, writer = await asyncio.open_connection(HOST, client.base_url.port)
        writer.write(request)
        assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")
    assert (await reader.read()).endswith(b"done")
    writer.close()


async def test_a_request_that_takes_longer_than_the_grace_is_cut_off() -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> PlainTextResponse:
        arrived.set()
        await go_on.wait()
        return PlainTextResponse("done")

    app: ASGIApp = Starlette(routes=[Route("/slow", slow)])
    async with serving(lambda settings, stop: server.run(app, settings, stop, grace_s=0)) as client:
        answer = asyncio.ensure_future(client.get("/slow"))
        await arrived.wait()
        # With the grace of ten seconds it would be answered.
        asyncio.get_running_loop().call_later(5, go_on.set)
    with pytest.raises(httpx.HTTPError):
        (await answer).raise_for_status()


async def test_signals_stay_with_the_service() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def ready() -> str | None:
        return None

    async with serving(lambda settings, stop: serve_health(settings, ready, stop)):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_an_address_in_use_is_an_error_and_not_an_exit() -> None:
    with socket.create_server((HOST, 0)) as taken:
        settings = CommonSettings(http_host=HOST, http_port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await server.run(Starlette(), settings, asyncio.Event())
