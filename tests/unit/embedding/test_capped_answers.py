import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.providers.capped_answers import MAX_ERROR_BYTES, AnswerTooLarge, CappedTransport, answers_up_to

MEGABYTE = 1_000_000


class Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        self.closed = True


class CannedServer(httpx.AsyncBaseTransport):
    """Answers each request with the same bytes."""

    def __init__(self, pieces: Iterable[bytes], *, status: int = 200, encoding: str | None = None) -> None:
        self.stream = Pieces(pieces)
        self.asked: list[httpx.Request] = []
        self._status = status
        self._headers = {} if encoding is None else {"content-encoding": encoding}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(self._status, headers=self._headers, stream=self.stream)


async def read(server: CannedServer, *, up_to: int) -> httpx.Response:
    async with httpx.AsyncClient(transport=CappedTransport(server)) as client:
        with answers_up_to(up_to):
            return await client.post("http://server.invalid/")


async def test_compression_is_not_asked_for() -> None:
    server = CannedServer([b"ok"])
    assert (await read(server, up_to=2)).content == b"ok"
    assert server.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_little_that_becomes_much_is_refused_before_it_is_in_memory(encoding: str) -> None:
    server = CannedServer([compressed(b"\0" * 100 * MEGABYTE, encoding)], encoding=encoding)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge):
            await read(server, up_to=MEGABYTE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * MEGABYTE
    assert server.stream.closed


async def test_an_answer_over_the_limit_is_recognised_behind_an_error_of_a_library() -> None:
    async with httpx.AsyncClient(transport=CappedTransport(CannedServer([b"x" * 100]))) as client:

        async def ask(up_to: int) -> None:
            with answers_up_to(up_to):
                try:
                    await client.post("http://server.invalid/")
                except httpx.HTTPError as error:
                    raise ValueError("a library failed") from error
                raise ValueError("a library failed")

        with pytest.raises(AnswerTooLarge):
            await ask(10)
        with pytest.raises(ValueError, match="a library failed"):
            await ask(1000)


async def test_an_answer_without_end_is_refused_at_the_limit() -> None:
    def endless() -> Iterable[bytes]:
        while True:
            yield b"x" * 1000

    with pytest.raises(AnswerTooLarge):
        await read(CannedServer(endless()), up_to=MEGABYTE)


async def test_bytes_that_decompress_to_nothing_count_too() -> None:
    # What follows the end of the compressed data.
    server = CannedServer([compressed(b"", "gzip"), *[b"x" * 1000] * 10], encoding="gzip")
    with pytest.raises(AnswerTooLarge):
        await read(server, up_to=5_000)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "unheard-of"])
async def test_an_encoding_that_can_not_be_decompressed_in_pieces_is_refused(encoding: str) -> None:
    with pytest.raises(httpx.DecodingError):
        await read(CannedServer([b"x"], encoding=encoding), up_to=MEGABYTE)


@pytest.mark.parametrize("encoding", ["br", "utf-8"])
async def test_the_status_of_an_answer_is_known_in_whatever_encoding_its_body_is(encoding: str) -> None:
    server = CannedServer([b"x"], encoding=encoding, status=503)
    async with (
        httpx.AsyncClient(transport=CappedTransport(server)) as client,
        client.stream("POST", "http://server.invalid/") as response,
    ):
        assert response.status_code == 503
    assert server.stream.closed


@pytest.mark.parametrize("encoding", ["UTF-8", "none", "binary"])
async def test_what_is_no_compression_is_none(encoding: str) -> None:
    assert (await read(CannedServer([b"plain"], encoding=encoding), up_to=MEGABYTE)).content == b"plain"


async def test_deflate_is_read_without_its_header_too() -> None:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bare = compressor.compress(b"plain") + compressor.flush()
    for pieces in ([bare], [b"", bare[:1], bare[1:]]):
        assert (await read(CannedServer(pieces, encoding="deflate"), up_to=MEGABYTE)).content == b"plain"


async def test_an_answer_with_a_wrong_content_encoding_is_refused() -> None:
    with pytest.raises(httpx.DecodingError):
        await read(CannedServer([b"not gzip at all"], encoding="gzip"), up_to=MEGABYTE)


async def test_the_beginning_of_an_error_is_read_and_its_status_stays() -> None:
    response = await read(CannedServer([b"x" * MEGABYTE], status=429), up_to=10 * MEGABYTE)
    assert response.status_code == 429
    assert len(response.content) <= MAX_ERROR_BYTES


@given(
    body=st.binary(max_size=3000), cuts=st.integers(1, 50), encoding=st.sampled_from(["identity", "gzip", "deflate"])
)
async def test_an_answer_within_the_limit_comes_whole(body: bytes, cuts: int, encoding: str) -> None:
    sent = compressed(body, encoding)
    pieces = [sent[start : start + cuts] for start in range(0, len(sent), cuts)]
    response = await read(CannedServer(pieces, encoding=encoding), up_to=max(len(body), len(sent)))
    assert response.content == body


def compressed(body: bytes, encoding: str) -> bytes:
    if encoding == "identity":
        return body
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))
    return compressor.compress(body) + compressor.flush()
