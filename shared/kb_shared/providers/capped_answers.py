"""Limits what is read of an answer, so that a server that a tenant named can't fill the memory.

Compression is not asked for. An answer that is compressed all the same is decompressed here, in small pieces: its
length after that is what counts.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeAlias

import httpx

MAX_ERROR_BYTES: Final = 65_536
"""Limit of an error answer: the rest is left out."""
_UNLESS_SAID_BYTES: Final = 1_048_576
_PIECE_BYTES: Final = 65_536
_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_UNCOMPRESSED: Final = frozenset({"", "identity", "none", "utf-8", "utf8", "iso-8859-1", "binary", "8bit"})
"""Encodings, also those of letters, that servers name here by mistake."""

_Decode: TypeAlias = Callable[[bytes], Iterator[bytes]]


class AnswerTooLarge(httpx.DecodingError):
    """The answer has more bytes than a correct one can have."""


@dataclass(slots=True)
class _ByteLimit:
    max_bytes: int
    exceeded: bool = False

    def mark_exceeded(self) -> AnswerTooLarge:
        self.exceeded = True
        return AnswerTooLarge(f"more than {self.max_bytes} bytes")


_limit: ContextVar[_ByteLimit | None] = ContextVar("answer_limit", default=None)


@contextmanager
def answers_up_to(max_bytes: int) -> Iterator[None]:
    """Limit the answers to requests that are sent in the block.

    Raises:
        AnswerTooLarge: whatever error the libraries between here and the transport made of it.
    """
    limit = _ByteLimit(max_bytes)
    token = _limit.set(limit)
    try:
        yield
    except Exception:
        if limit.exceeded:
            raise limit.mark_exceeded() from None
        raise
    finally:
        _limit.reset(token)


class CappedTransport(httpx.AsyncBaseTransport):
    """Sends requests by another transport and limits what is read of the answers."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        limit = _limit.get() or _ByteLimit(_UNLESS_SAID_BYTES)
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        decode = _decoder(response.headers.get("content-encoding", "identity"))
        # Of the bytes as they were sent.
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if name.lower() not in (b"content-encoding", b"content-length")
        ]
        stream = _Capped(response.stream, decode, None if response.is_error else limit)
        return httpx.Response(response.status_code, headers=headers, stream=stream, extensions=response.extensions)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Capped(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, decode: _Decode, limit: _ByteLimit | None) -> None:
        """Construct it; without a limit what is above `MAX_ERROR_BYTES` is left out."""
        self._stream = stream
        self._decode = decode
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = left_decoded = MAX_ERROR_BYTES if self._limit is None else self._limit.max_bytes
        async for raw in self._stream:
            left -= len(raw)
            for piece in self._decode(raw):
                left_decoded -= len(piece)
                if left_decoded < 0:
                    break
                yield piece
            if min(left, left_decoded) < 0:
                if self._limit is None:
                    return
                raise self._limit.mark_exceeded()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _refuse(_: bytes) -> Iterator[bytes]:
    # Not before a body is read: who needs the status alone gets it.
    raise httpx.DecodingError("the answer is compressed in a way that was not asked for")


def _decoder(encoding: str) -> _Decode:
    encoding = encoding.strip().lower()
    if encoding in _UNCOMPRESSED:
        return lambda raw: iter((raw,))
    if encoding not in _WINDOW_BITS:
        return _refuse
    decompressor = None

    def decode(raw: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        if decompressor is None and not raw:
            return
        if decompressor is None:
            # Some servers send what they call deflate without the header that says so; browsers read both.
            is_bare = encoding == "deflate" and raw[0] & 0x0F != zlib.DEFLATED
            decompressor = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _WINDOW_BITS[encoding])
        try:
            while piece := decompressor.decompress(raw, _PIECE_BYTES):
                yield piece
                raw = decompressor.unconsumed_tail
        except zlib.error:
            raise httpx.DecodingError("the answer can't be decompressed") from None

    return decode
