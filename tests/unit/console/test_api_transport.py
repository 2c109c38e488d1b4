"""The connections of the console to the API: requests arrive as they were written, and errors keep their meaning."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import pytest

from kb_client import AsyncClient
from kb_client.errors import CallTimedOut, ConnectionFailed
from kb_console.api_transport import connect_to_api

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\nok"
ENDLESS: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"


class RawServer:
    """Keeps the requests as they arrived, and answers with bytes."""

    def __init__(self, *answers: bytes, closes: bool = False) -> None:
        self.requests: list[str] = []
        self.connections = 0
        self.closed = asyncio.Event()
        self._answers = iter(answers)
        self._closes = closes
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"content-length: ")), 0
                )
                self.requests.append((head + await reader.readexactly(length)).decode())
                writer.write(next(self._answers, b""))
                await writer.drain()
                if self._closes:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def serving(server: RawServer) -> AsyncIterator[httpx.AsyncClient]:
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        server.address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with connect_to_api() as http:
            yield http


def client_of(server: RawServer, http: httpx.AsyncClient, *, timeout_s: float = 5.0) -> AsyncClient:
    return AsyncClient(server.address, organization="acme", api_key="k", timeout_s=timeout_s, max_retries=0, http=http)


@pytest.mark.parametrize(
    ("document_id", "segment"), [("..", "%2E%2E"), ("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"), ("ä +", "%C3%A4%20%2B")]
)
async def test_an_id_arrives_as_one_segment_of_the_path(document_id: str, segment: str) -> None:
    server = RawServer(OK)
    async with serving(server) as http:
        with pytest.raises(Exception, match="does not understand"):
            await client_of(server, http).documents.delete(document_id)
    assert server.requests[0].startswith(f"DELETE /v0/orgs/acme/documents/{segment} HTTP/1.1\r\n")


async def test_a_request_has_the_headers_of_the_client_and_no_others() -> None:
    server = RawServer(OK, OK)
    async with serving(server) as http:
        for _ in range(2):
            await http.post(f"{server.address}/x?a=1&a=%20%2B", content=b"body", headers={"X-A": "1"})
    assert server.connections == 1
    first, second = server.requests
    assert first == second, "the cookie of the answer is not sent"
    assert first.startswith("POST /x?a=1&a=%20%2B HTTP/1.1\r\n")
    assert first.endswith("\r\n\r\nbody")
    names = [line.partition(":")[0].lower() for line in first.split("\r\n\r\n")[0].split("\r\n")[1:]]
    assert sorted(names) == sorted(
        ["host", "accept", "accept-encoding", "connection", "user-agent", "x-a", "content-length"]
    )


async def test_a_redirect_is_an_answer() -> None:
    server = RawServer(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
    async with serving(server) as http:
        answer = await http.get(f"{server.address}/x")
    assert (answer.status_code, answer.headers["location"], len(server.requests)) == (302, "/elsewhere", 1)


async def test_an_upload_is_sent_in_pieces_with_its_length() -> None:
    server = RawServer(OK)
    text = "x" * 200_000

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 64 * 1024):
            yield text[start : start + 64 * 1024].encode()

    async with serving(server) as http:
        headers = {"Content-Length": str(len(text)), "Content-Type": "text/plain"}
        await http.put(f"{server.address}/x", content=pieces(), headers=headers)
    head, _, body = server.requests[0].partition("\r\n\r\n")
    assert body == text
    assert "transfer-encoding" not in head.lower()


async def test_events_are_read_as_they_come_and_a_reader_who_leaves_closes_the_connection() -> None:
    server = RawServer(ENDLESS)
    async with serving(server) as http, http.stream("GET", f"{server.address}/x") as answer:
        assert await anext(answer.aiter_bytes()) == b"first"
        assert not server.closed.is_set()
        await answer.aclose()
        await asyncio.wait_for(server.closed.wait(), 5)


async def test_compressed_answers_are_decoded_once() -> None:
    content = gzip.compress(b"plain")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(content)
    server = RawServer(head + content)
    async with serving(server) as http:
        assert (await http.get(f"{server.address}/x")).content == b"plain"


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"no answer of HTTP\r\n\r\n"]
)
async def test_a_request_without_a_whole_answer_was_sent_and_is_not_sent_again(answer: bytes) -> None:
    server = RawServer(answer, answer, closes=True)
    async with serving(server) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.post(f"{server.address}/x", content=b"once")
        assert len(server.requests) == 1
        with pytest.raises(ConnectionFailed, match="closed the connection before its answer") as failed:
            await client_of(server, http).threads.create(title="a")
    assert failed.value.was_sent


async def test_an_address_where_nothing_listens_was_not_reached() -> None:
    server = RawServer()
    async with serving(server) as http:
        pass
    async with connect_to_api() as http:
        with pytest.raises(ConnectionFailed, match="can't be reached") as failed:
            await client_of(server, http).tags.list()
    assert not failed.value.was_sent


async def test_an_answer_that_does_not_come_in_time_is_a_timeout() -> None:
    server = RawServer()
    async with serving(server) as http:
        with pytest.raises(CallTimedOut):
            await client_of(server, http, timeout_s=0.1).tags.list()
