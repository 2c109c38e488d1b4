"""A server of a tenant that is asked as a provider, and does what no honest one does."""

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from tests.waiting import until

Behaviour: TypeAlias = Callable[[asyncio.StreamWriter, "Asked"], Awaitable[None]]
"""Writes an answer, head and body."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(slots=True)
class HostileProvider:
    """Counts what it is asked, and how many of its answers are still waited for."""

    behaviour: Behaviour
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    waited_for: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_base(self) -> str:
        return f"{self.address}/v1"

    async def wait_for_requests(self, times: int = 1) -> None:
        """Wait until it was asked so many times."""
        await until(lambda: len(self.asked) >= times, what=f"{times} requests to the hostile provider")

    async def wait_until_disconnected(self) -> None:
        """Wait until no request waits for an answer any more, for less than a call takes to time out."""
        await until(lambda: self.waited_for == 0, what="no request waits for the hostile provider", within_s=30)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await _read(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            # Connected and said nothing.
            writer.close()
            return
        self.asked.append(asked)
        self.waited_for += 1
        answering = asyncio.ensure_future(self.behaviour(writer, asked))
        # A client that leaves closes the connection.
        ends = [answering, asyncio.ensure_future(reader.read()), asyncio.ensure_future(self.closing.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        self.waited_for -= 1
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Asked(head[0].split(" ")[1], headers, json.loads(body))


@asynccontextmanager
async def hostile_provider(behaviour: Behaviour) -> AsyncIterator[HostileProvider]:
    hostile = HostileProvider(behaviour)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        hostile.closing.set()
        await hostile.wait_until_disconnected()


def embeddings(texts: int, dimensions: int) -> bytes:
    """Make the body of an answer with vectors of ones."""
    vector = base64.b64encode(np.ones(dimensions, dtype="<f4").tobytes()).decode()
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(texts)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return json.dumps({"object": "list", "model": "m", "data": data, "usage": usage}).encode()


def head(*, length: int | None = None, kind: str = "application/json", encoding: str | None = None) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-type: {kind}", "connection: close"]
    lines += [] if length is None else [f"content-length: {length}"]
    lines += [] if encoding is None else [f"content-encoding: {encoding}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def drips(every_s: float) -> Behaviour:
    """Send a byte now and then, for ever."""

    async def behaviour(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(head(length=10**9))
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(every_s)

    return behaviour


def waits(until_set: asyncio.Event, then: Behaviour) -> Behaviour:
    """Answer nothing until it may."""

    async def behaviour(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await until_set.wait()
        await then(writer, asked)

    return behaviour


def gives(body: bytes, *, encoding: str | None = None, kind: str = "application/json") -> Behaviour:
    """Send this, whatever is asked."""

    async def behaviour(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(head(length=len(body), encoding=encoding, kind=kind) + body)
        await writer.drain()

    return behaviour


def gives_vectors(dimensions: int) -> Behaviour:
    """Answer as an honest provider of such vectors."""

    async def behaviour(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await gives(embeddings(len(asked.body["input"]), dimensions))(writer, asked)

    return behaviour


@dataclass(slots=True)
class SequentialProvider:
    """The behaviour of an honest provider that computes few texts a second, even when no client waits for them."""

    texts_per_s: float
    dimensions: int
    computed: int = 0
    answered: int = 0
    """Texts whose vectors were sent to a client that still waited for them."""
    largest: int = 0
    """Texts of the request that had most."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, writer: asyncio.StreamWriter, asked: Asked) -> None:
        texts = len(asked.body["input"])
        self.largest = max(self.largest, texts)
        # Computed to its end, also if no client waits any more.
        await asyncio.shield(asyncio.ensure_future(self._compute(texts)))
        await gives_vectors(self.dimensions)(writer, asked)
        self.answered += texts

    async def _compute(self, texts: int) -> None:
        async with self._turn:
            self.computed += texts
            await asyncio.sleep(texts / self.texts_per_s)


def gzip_bomb(size_bytes: int) -> Behaviour:
    """Send few bytes that become as many."""

    async def behaviour(writer: asyncio.StreamWriter, asked: Asked) -> None:
        # Here, because it takes a while, which each worker would spend that collects the tests.
        await gives(_bomb(size_bytes), encoding="gzip")(writer, asked)

    return behaviour


@cache
def _bomb(size_bytes: int) -> bytes:
    compressor = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return b"".join(compressor.compress(bytes(1_000_000)) for _ in range(size_bytes // 1_000_000)) + compressor.flush()


def streams_without_end(make_text: Callable[[int], str]) -> Behaviour:
    """Send pieces of a chat answer, each made of its number, until the caller leaves."""

    async def behaviour(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(head(kind="text/event-stream"))
        for number in count():
            writer.write(b"data: " + json.dumps(chat_piece(make_text(number))).encode() + b"\n\n")
            await writer.drain()

    return behaviour


def streams_fast_without_end() -> Behaviour:
    """Send a thousand pieces of a chat answer again and again, made before: little work for this process."""
    pieces = (json.dumps(chat_piece(f"word{number} ")).encode() for number in range(1_000))
    block = b"".join(b"data: " + piece + b"\n\n" for piece in pieces)

    async def behaviour(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(head(kind="text/event-stream"))
        while True:
            writer.write(block)
            await writer.drain()

    return behaviour


def chat_piece(text: str, *, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def says(text: str) -> Behaviour:
    """Answer a chat, streamed or not, as an honest provider does."""

    async def behaviour(writer: asyncio.StreamWriter, asked: Asked) -> None:
        if asked.body.get("stream"):
            pieces = [chat_piece(text), chat_piece("", finish_reason="stop")]
            lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
            await gives("".join([*lines, "data: [DONE]\n\n"]).encode(), kind="text/event-stream")(writer, asked)
            return
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        await gives(json.dumps(answer | {"usage": usage}).encode())(writer, asked)

    return behaviour
