"""What comes over a connection before it is a request of an application."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kb_shared.http.protocol import MAX_HEAD_BYTES
from tests.integration.http.serving import HOST, serving
from tests.waiting import DEADLINE_S

POST = b"POST /length HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
H2C_OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
WEBSOCKET_OFFER = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
ASKING = b"Expect: 100-continue\r\n\r\n"
"""At the end of a piece: the next is sent once this one was read."""
ENDS = (b"bytes", b"own", b"none", b"}")
"""Endings of answers."""
MUCH = b"a" * (MAX_HEAD_BYTES + 1)


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


async def authorization(request: Request) -> PlainTextResponse:
    await request.body()
    return PlainTextResponse(request.headers.get("Authorization", "none"))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = Starlette(
        routes=[
            Route("/length", length, methods=["GET", "POST"]),
            Route("/authorization", authorization, methods=["GET", "POST"]),
        ]
    )
    async with serving(app) as url:
        yield int(url.rpartition(":")[2])


async def answer(port: int, *pieces: bytes, requests: int = 1) -> str:
    """Send the pieces one after the other, and return what comes back for so many requests."""
    reader, writer = await asyncio.open_connection(HOST, port)
    received = b""
    try:
        async with asyncio.timeout(DEADLINE_S):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if piece.endswith(ASKING):
                    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            while received.count(b"\r\n\r\n") < requests or not received.endswith(ENDS):
                more = await reader.read(65_536)
                if not more:
                    break
                received += more
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return received.decode()


def in_pieces(request: bytes, *, of: int) -> Sequence[bytes]:
    return [request[start : start + of] for start in range(0, len(request), of)]


@pytest.mark.parametrize("offer", [H2C_OFFER, WEBSOCKET_OFFER])
@pytest.mark.parametrize("of", [40, 10_000])
async def test_an_offer_of_another_protocol_is_ignored_and_the_body_arrives(port: int, offer: bytes, of: int) -> None:
    request = POST + offer + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000
    got = await answer(port, *in_pieces(request, of=of))
    assert got.startswith("HTTP/1.1 200"), got
    assert got.endswith("1000 bytes")


async def test_requests_that_follow_an_offer_on_the_same_connection_are_answered(port: int) -> None:
    offering = POST + H2C_OFFER + b"Content-Length: 3\r\n\r\nabc"
    got = await answer(port, (offering + POST + b"Content-Length: 2\r\n\r\nab") * 3, requests=6)
    assert [got.count("3 bytes"), got.count("2 bytes")] == [3, 3]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET /length?" + MUCH], id="address"),
        pytest.param([POST + b"X: " + MUCH], id="header"),
        pytest.param([POST + b"X: a\r\n" * (len(MUCH) // 6)], id="headers"),
        pytest.param([CHUNKED[:-2] + ASKING, b"5;x=" + MUCH], id="chunk-extension"),
        pytest.param([CHUNKED[:-2] + ASKING, b"5\r\nhel", b"lo\r\n0\r\n", b"X: " + MUCH], id="trailer"),
    ],
)
async def test_an_endless_head_or_trailer_is_refused_before_it_fills_the_memory(
    port: int, pieces: Sequence[bytes]
) -> None:
    head, _, body = (await answer(port, *pieces)).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400")
    problem = json.loads(body)
    assert (problem["type"], problem["status"]) == ("not-http", 400)
    assert str(MAX_HEAD_BYTES) in problem["detail"]
    assert f"x-request-id: {problem['request_id']}" in head.lower()


async def test_trailers_of_a_body_are_not_headers_of_its_request(port: int) -> None:
    body = b"5\r\nhello\r\n0\r\nAuthorization: Bearer stolen\r\n\r\n"
    assert (await answer(port, CHUNKED, body)).endswith("5 bytes")
    assert (await answer(port, b"GET /authorization HTTP/1.1\r\nHost: a\r\nAuthorization: own\r\n\r\n")).endswith("own")
    asking = CHUNKED.replace(b"/length", b"/authorization")
    assert (await answer(port, asking, body)).endswith("none")


async def test_malformed_bytes_after_a_request_do_not_cut_into_its_answer(port: int) -> None:
    # It has come before the application begins to answer.
    got = await answer(port, b"GET /length HTTP/1.1\r\nHost: a\r\n\r\nmalformed\r\n\r\n", requests=2)
    first, _, rest = got.partition("0 bytes")
    assert first.startswith("HTTP/1.1 200")
    assert rest.startswith("HTTP/1.1 400")


async def test_the_limit_of_a_head_does_not_apply_to_a_long_body_in_small_pieces(port: int) -> None:
    pieces = in_pieces(b"1\r\nx\r\n" * 15_000, of=30_000)
    assert (await answer(port, CHUNKED, *pieces, b"0\r\n\r\n")).endswith("15000 bytes")
    whole = POST + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000
    assert (await answer(port, *in_pieces(whole, of=30_000))).endswith("200000 bytes")


async def test_a_connection_may_bring_any_number_of_requests(port: int) -> None:
    one = b"GET /length HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 10_000 + b"\r\n\r\n"
    got = await answer(port, *[one] * 10, requests=10)
    assert got.count("HTTP/1.1 200") == 10


@pytest.mark.parametrize(
    "malformed",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
        POST + b"X : a\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ],
)
async def test_bytes_that_are_not_http_are_answered_with_a_problem(port: int, malformed: bytes) -> None:
    head, _, body = (await answer(port, malformed)).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400")
    assert "content-type: application/problem+json" in head
    assert json.loads(body)["type"] == "not-http"
