"""Connections that send too slowly, too much, or too many."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from kb_shared.errors import RequestError
from kb_shared.http import events
from kb_shared.http.problems import problem
from kb_shared.http.request_context import RequestContext
from tests.integration.http.serving import serving
from tests.noisy_neighbour.connection import RawConnection, connected, head
from tests.waiting import DEADLINE_S, until

TIMEOUT_S: Final = 0.2
GET: Final = head("GET", "/unread", {})
TURNS_UNTIL_REFUSED: Final = 50
"""Turns of the event loop."""


async def read(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())}")


async def unread(_: Request) -> PlainTextResponse:
    return PlainTextResponse("refused", 401)


async def slow(request: Request) -> PlainTextResponse:
    await request.app.state.go_on.wait()
    return PlainTextResponse("at last")


async def request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return problem(request, error.status, error.slug, detail=error.detail)


def application(*, body_timeout_s: float = TIMEOUT_S) -> Starlette:
    routes = [
        Route("/read", read, methods=["POST"]),
        Route("/unread", unread, methods=["GET", "POST"]),
        Route("/slow", slow, methods=["GET"]),
        Route("/refused-late", refused_late, methods=["POST"]),
    ]
    context = Middleware(RequestContext, body_timeout_s=body_timeout_s)
    app = Starlette(routes=routes, middleware=[context], exception_handlers={RequestError: request_error})
    app.state.go_on = asyncio.Event()
    return app


async def refused_late(request: Request) -> PlainTextResponse:  # what is asked does not matter
    for _ in range(TURNS_UNTIL_REFUSED):
        await asyncio.sleep(0)
    return PlainTextResponse("refused", 401)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serving(application(), http_head_timeout_s=TIMEOUT_S) as url:
        yield url


@pytest.fixture
async def patient_url() -> AsyncIterator[str]:
    """A server that waits for a body as long as the test does."""
    async with serving(application(body_timeout_s=DEADLINE_S), http_head_timeout_s=DEADLINE_S) as url:
        yield url


async def problem_of(connection: RawConnection) -> tuple[int, dict[str, Any]]:
    """The status and the problem with which a connection ends."""
    async with asyncio.timeout(DEADLINE_S):
        received = await connection.reader.read()
    start, _, body = received.partition(b"\r\n\r\n")
    assert b"connection: close" in start.lower()
    return int(start.split(b" ", 2)[1]), json.loads(body)


async def test_a_head_that_does_not_come_ends_the_connection_with_408(url: str) -> None:
    async with connected(url) as connection:
        await connection.send(GET[:-2])
        status, found = await problem_of(connection)
    assert (status, found["type"]) == (408, "request-timeout")


async def test_a_head_that_comes_a_byte_at_a_time_gets_no_more_time(url: str) -> None:
    async with connected(url) as connection:

        async def drip() -> None:
            for byte in GET[:-2]:
                await connection.send(bytes([byte]))
                await asyncio.sleep(TIMEOUT_S / 10)

        dripping = asyncio.ensure_future(drip())
        status, _ = await problem_of(connection)
        assert not dripping.done()
        dripping.cancel()
    assert status == 408


async def test_the_second_request_of_a_connection_has_the_same_deadline(url: str) -> None:
    async with connected(url) as connection:
        await connection.send(GET + GET[:10])
        assert await connection.status() == 401
        await connection.reader.readexactly(len("refused"))
        status, _ = await problem_of(connection)
    assert status == 408


async def test_a_connection_without_a_request_is_closed(url: str) -> None:
    async with connected(url) as connection, asyncio.timeout(DEADLINE_S):
        assert await connection.reader.read() == b""


async def test_an_idle_connection_is_kept_for_the_next_request(url: str) -> None:
    async with connected(url) as connection:
        for _ in range(2):
            await connection.send(GET)
            assert await connection.status() == 401
            await connection.reader.readexactly(len("refused"))
            await asyncio.sleep(2 * TIMEOUT_S)
        assert not connection.reader.at_eof()


@pytest.mark.parametrize("framing", [{"Content-Length": "10"}, {"Transfer-Encoding": "chunked"}])
async def test_a_body_that_does_not_come_is_a_408_and_ends_the_connection(url: str, framing: dict[str, str]) -> None:
    async with connected(url) as connection:
        await connection.send(head("POST", "/read", framing))
        status, found = await problem_of(connection)
    assert (status, found["type"]) == (408, "request-timeout")


async def test_two_lengths_of_one_body_are_refused_and_what_follows_is_not_answered(url: str) -> None:
    both = {"Content-Length": "5", "Transfer-Encoding": "chunked"}
    async with connected(url) as connection:
        await connection.send(head("POST", "/read", both) + b"0\r\n\r\n" + GET)
        status, found = await problem_of(connection)
    assert (status, found["type"]) == (400, "not-http")


async def test_a_body_of_very_many_pieces_is_refused(patient_url: str) -> None:
    async with connected(patient_url) as connection:
        await connection.send(head("POST", "/read", {"Transfer-Encoding": "chunked"}))
        await connection.send(b"1\r\nx\r\n" * (events.MAX_PIECES + 1))
        status, _ = await problem_of(connection)
    assert status == 400


@pytest.mark.parametrize("length", [1, 15, 300, 1_000])
async def test_a_body_of_many_pieces_arrives_whole(patient_url: str, length: int) -> None:
    pieces = 50 * events.PIECES_AT_ONCE
    async with connected(patient_url) as connection:
        await connection.send(head("POST", "/read", {"Transfer-Encoding": "chunked"}))
        await connection.send((b"%x\r\n%s\r\n" % (length, b"x" * length)) * pieces + b"0\r\n\r\n")
        assert await connection.status() == 200
        sent = str(length * pieces).encode()
        assert await connection.reader.readexactly(len(sent)) == sent


async def test_most_of_a_body_of_many_pieces_is_not_parsed_when_its_request_is_refused(
    patient_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = 0
    count_piece = events.Events._count_piece

    def count(self: events.Events) -> None:
        nonlocal parsed
        parsed += 1
        count_piece(self)

    monkeypatch.setattr(events.Events, "_count_piece", count)
    async with connected(patient_url) as connection:
        body = b"1\r\nx\r\n" * events.MAX_PIECES
        await connection.send(head("POST", "/refused-late", {"Transfer-Encoding": "chunked"}) + body)
        assert await connection.status() == 401
    assert 0 < parsed < TURNS_UNTIL_REFUSED * events.PIECES_AT_ONCE / 2


async def test_the_answer_to_a_body_that_is_not_read_arrives_and_ends_the_connection(url: str) -> None:
    length = 20_000_000
    async with connected(url) as connection, asyncio.timeout(DEADLINE_S):
        await connection.send(head("POST", "/unread", {"Content-Length": str(length)}))
        # A client must be able to send all before it reads.
        await connection.send(b"x" * length)
        received = await connection.reader.read()
    assert received.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in received.lower()
    assert received.endswith(b"refused")


async def test_a_small_body_that_is_not_read_does_not_end_the_connection(url: str) -> None:
    async with connected(url) as connection:
        for _ in range(2):
            await connection.send(head("POST", "/unread", {"Content-Length": "3"}) + b"abc")
            assert await connection.status() == 401
            await connection.reader.readexactly(len("refused"))


async def test_a_new_connection_takes_the_place_of_one_that_has_never_asked() -> None:
    async with serving(application(), http_max_connections=4) as url, AsyncExitStack() as opened:
        used = await opened.enter_async_context(connected(url))
        await used.send(GET)
        assert await used.status() == 401
        silent = [await opened.enter_async_context(connected(url)) for _ in range(3)]
        oldest_ended = asyncio.ensure_future(silent[0].ended())

        async def gives_way() -> bool:
            async with connected(url) as new:
                await new.send(GET)
                assert await new.status() == 401
            return oldest_ended.done()

        # Each has a moment to send its first request.
        await until(gives_way)
        await used.reader.readexactly(len("refused"))
        await used.send(GET)
        assert await used.status() == 401


async def test_when_all_connections_have_a_request_a_new_one_is_refused_with_503() -> None:
    app = application()
    async with serving(app, http_max_connections=2) as url, AsyncExitStack() as opened:
        busy = [await opened.enter_async_context(connected(url)) for _ in range(2)]
        for each in busy:
            await each.send(head("GET", "/slow", {}))

        async def is_refused() -> bool:
            async with connected(url) as new:
                await new.send(GET)
                return await new.status() == 503

        await until(is_refused)
        app.state.go_on.set()
        assert [await each.status() for each in busy] == [200, 200]
        async with connected(url) as new:
            await new.send(GET)
            assert await new.status() == 401
