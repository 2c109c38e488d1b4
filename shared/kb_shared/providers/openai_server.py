"""Sends requests to servers that speak OpenAI's API, and reads their answers as JSON, whole or in pieces.

Such servers differ in what LiteLLM's types refuse, and LiteLLM decides by words of an error before its status. So they
are asked here, with nothing between the answer and the code that understands it.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import httpx

from kb_shared.providers.access import OPENAI_COMPATIBLE, Access
from kb_shared.providers.capped_answers import AnswerTooLarge, answers_up_to
from kb_shared.providers.provider_errors import Failure, retry_after_s, status_of_codes
from kb_shared.providers.public_transport import transport_to_named_addresses

Json: TypeAlias = Mapping[str, Any]

_NO_TIMEOUT: Final = httpx.Timeout(None)
"""The callers limit the time."""
_MOST_WORDS: Final = 8_192
"""Characters of an error that are looked at."""
_WEB_PAGE: Final = ("<!doctype", "<html", "<?xml", "<head", "<body")
_WORDS_OF_UNKNOWN_PATHS: Final = ("invalid url", "file not found", "unknown path", "no route", "unknown request url")
_ERROR_KEYS: Final = ("error", "errors", "detail", "message", "msg", "base_resp", "error_msg")
END_OF_STREAM: Final = "[DONE]"
"""Data that a stream ends with, and the key of the piece that stands for it."""
_STREAM_FIELDS: Final = ("data", "event", "id", "retry")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server, and the key that it takes."""

    api_base: str
    api_key: str = field(repr=False)
    is_named: bool
    """True if an organization named the address: it may have to be public, and redirects are not followed."""


def server_of(route: str, *, api_base: str | None, api_key: str, access: Access | None) -> ServerAddress | None:
    """Return the server of a model; None if it is one that LiteLLM has to be asked for."""
    if not route.startswith(OPENAI_COMPATIBLE) or api_base is None:
        return None
    is_named = access is not None and access.api_base is not None
    return ServerAddress(api_base, api_key, is_named)


class ServerFailed(Exception):
    """An answer that is an error. Its words stay in `said`: they may quote what was sent."""

    def __init__(self, failure: Failure, said: str = "") -> None:
        super().__init__("the server answered with an error")
        self.failure = failure
        self.said = said


CALL_ERRORS: Final[tuple[type[Exception], ...]] = (ServerFailed, httpx.HTTPError, httpx.InvalidURL)


def failure_of_call(error: Exception) -> Failure:
    """Read one of `CALL_ERRORS`."""
    match error:
        case ServerFailed():
            return error.failure
        case httpx.TimeoutException():
            return Failure(status=408)
    return Failure()


class UnreadableAnswer(Exception):
    """An answer of status 200 that is neither JSON nor an error; `str()` says what it is, quoting nothing of it."""


class OpenAIServers:
    """Asks servers. One for a process."""

    def __init__(self, *, private_addresses: bool) -> None:
        """Construct it; `private_addresses` says whether organizations may name addresses that are not public."""
        self._named = httpx.AsyncClient(
            transport=transport_to_named_addresses(private=private_addresses),
            timeout=_NO_TIMEOUT,
            follow_redirects=False,
        )
        self._own: httpx.AsyncClient | None = None

    async def ask(self, path: str, body: Json, *, server: ServerAddress, max_bytes: int) -> list[Json]:
        """Send a request and return the answer: one object, or its pieces if the server streams it unasked.

        Raises:
            ServerFailed: the answer is an error.
            UnreadableAnswer: it is no JSON.
            AnswerTooLarge: it has more than `max_bytes`.
            httpx.HTTPError: no answer.
        """
        return [piece async for piece in self.stream(path, body, server=server, max_bytes=max_bytes)]

    async def read(self, path: str, *, server: ServerAddress, max_bytes: int) -> Json:
        """Send a GET request and return the answer, one object. Raises as `ask`."""
        pieces = [piece async for piece in self.stream(path, None, server=server, max_bytes=max_bytes)]
        return pieces[0]

    async def stream(
        self, path: str, body: Json | None, *, server: ServerAddress, max_bytes: int
    ) -> AsyncGenerator[Json]:
        """Send a request and yield the pieces of the answer as they come; a whole answer is one piece.

        Yields an empty piece for each comment, which says no more than that the server is still there, and one with the
        key `END_OF_STREAM` where the server marks the end.

        Raises:
            ServerFailed, UnreadableAnswer, AnswerTooLarge, httpx.HTTPError: as `ask`.
        """
        with answers_up_to(max_bytes):
            response = await self._send(path, body, server)
        try:
            if not response.is_success:
                raise _failure_of_status(response, await _read_words(response))
            kind = response.headers.get("content-type", "")
            async for piece in read_pieces(response.aiter_bytes(), kind=kind, max_bytes=max_bytes):
                yield piece
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._named.aclose()
        if self._own is not None:
            await self._own.aclose()

    async def _send(self, path: str, body: Json | None, server: ServerAddress) -> httpx.Response:
        headers = {
            "authorization": f"Bearer {server.api_key}",
            "content-type": "application/json",
            "accept-encoding": "identity",
        }
        content = (
            None
            if body is None
            else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        )
        address = server.api_base.rstrip("/")
        url = address if address.endswith(path) else address + path
        client = self._client(server)
        method = "GET" if body is None else "POST"
        return await client.send(client.build_request(method, url, content=content, headers=headers), stream=True)

    def _client(self, server: ServerAddress) -> httpx.AsyncClient:
        if server.is_named:
            return self._named
        if self._own is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
            self._own = httpx.AsyncClient(timeout=_NO_TIMEOUT, follow_redirects=True, limits=limits)
        return self._own


async def _read_words(response: httpx.Response) -> str:
    """Return the beginning of an error's body."""
    words = b""
    try:
        async for piece in response.aiter_bytes():
            words += piece
            if len(words) > _MOST_WORDS:
                break
    except httpx.HTTPError:
        # The status has said what matters.
        pass
    return words[:_MOST_WORDS].decode("utf-8", "replace")


async def _lines(pieces: AsyncIterator[bytes], *, max_bytes: int) -> AsyncIterator[str]:
    """Yield lines, which end as those of event streams: httpx's own also end within a text of JSON (U+2028)."""
    size, rest, after_return = 0, bytearray(), False
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise AnswerTooLarge(f"more than {max_bytes} bytes")
        new = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r")
        *whole, last = new.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            rest += line
            yield rest.decode("utf-8", "replace")
            rest.clear()
        rest += last
    if rest:
        yield rest.decode("utf-8", "replace")


async def read_pieces(body: AsyncIterator[bytes], *, kind: str, max_bytes: int) -> AsyncIterator[Json]:
    """Yield the pieces of an answer. Its first line tells a stream from a whole one, whatever its content type says."""
    whole: list[str] = []
    event = _ServerSentEvent()
    is_stream: bool | None = None
    async for read in _lines(body, max_bytes=max_bytes):
        line = read
        if is_stream is None:
            line = read.removeprefix("\ufeff")
            if not line.strip():
                continue
            is_stream = line.startswith(":") or line.partition(":")[0] in _STREAM_FIELDS
        if not is_stream:
            whole.append(line)
            continue
        for piece in event.feed(line):
            yield piece
    for piece in event.feed("") if is_stream else _objects("\n".join(whole), kind=kind):
        yield piece


class _ServerSentEvent:
    """The event of a stream that is being read."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._name = ""

    def feed(self, line: str) -> Iterator[Json]:
        """Take a line; yield what it completes."""
        if line.startswith(":"):
            yield {}
            return
        if not line.strip():
            yield from self._end()
            return
        name, _, value = line.partition(":")
        # Some proxies put a stream into another one.
        value = value.removeprefix(" ").removeprefix("data: ")
        if name == "event":
            self._name = value.strip()
        elif name == "data":
            # Some servers leave out the empty line between two events.
            if self._data and _is_json("\n".join(self._data)):
                yield from self._end()
            self._data.append(value)
        elif not self._data and line.lstrip().startswith("{"):
            self._data.append(line)

    def _end(self) -> Iterator[Json]:
        data, name = "\n".join(self._data).strip(), self._name
        self._data, self._name = [], ""
        if not data:
            return
        if data.upper() == END_OF_STREAM:
            yield {END_OF_STREAM: True}
            return
        yield _checked(_parsed(data), is_error=name == "error")


def _objects(text: str, *, kind: str) -> Iterator[Json]:
    """Yield the objects of a whole answer: one, or one a line."""
    if text.lstrip().lower().startswith(_WEB_PAGE) or ("html" in kind and not _is_json(text)):
        raise ServerFailed(Failure(status=200, incompatible="it answers with a web page"))
    if not text.strip():
        raise UnreadableAnswer("it is empty")
    # Some servers stream objects, one a line.
    for each in [text] if _is_json(text) else text.strip().split("\n"):
        if each.strip():
            yield _checked(_parsed(each))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text.strip().upper() == END_OF_STREAM
    return True


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableAnswer("it is not JSON") from None


def _checked(value: object, *, is_error: bool = False) -> Json:
    """Return a piece of an answer. Raises ServerFailed if it says that there is an error."""
    if isinstance(value, list):
        # A list of embeddings, without the object around it.
        return {"data": value}
    if not isinstance(value, dict):
        raise UnreadableAnswer("it is no JSON object")
    # vLLM puts no object around an error, and MiniMax one that every answer has.
    status = value.get("base_resp")
    is_error |= isinstance(status, dict) and bool(status.get("status_code"))
    is_error |= "error" in (value.get("object"), value.get("type"))
    if is_error or describes_error(value.get("error")):
        raise failure_of_body(value)
    return value


def describes_error(error: object) -> bool:
    """Return whether the field `error` of an answer says that there is one: some servers always send the field."""
    return bool(error.get("message") or error.get("code")) if isinstance(error, dict) else bool(error)


def failure_of_body(body: Json) -> ServerFailed:
    """Return the failure that a body with the status 200 describes."""
    error = body.get("error")
    described = error if isinstance(error, dict) else body
    words = json.dumps(body, ensure_ascii=False)[:_MOST_WORDS]
    return ServerFailed(Failure(status=status_of_codes(described) or 200, code=_code_of(body)), words)


def failure_of_other_body(body: Json, *, expected: str) -> Failure:
    """Return what it means that an object came without the field that an answer has."""
    # The `message` of an answer of Ollama's own API is an object.
    if (
        any(body.get(key) and (key != "message" or isinstance(body[key], str)) for key in _ERROR_KEYS)
        or body.get("success") is False
    ):
        return failure_of_body(body).failure
    return Failure(status=200, incompatible=f"its answer has no `{expected}`")


def _failure_of_status(response: httpx.Response, words: str) -> ServerFailed:
    status = response.status_code
    try:
        body = json.loads(words)
    except (ValueError, RecursionError):
        body = None
    incompatible = _incompatibility(status, body, words)
    failure = Failure(
        status=status,
        code=_code_of(body),
        retry_after_s=retry_after_s(response.headers),
        incompatible=incompatible,
    )
    return ServerFailed(failure, words)


def _incompatibility(status: int, body: object, words: str) -> str | None:
    """Return why an error is that of a server, or a path, which is no API of OpenAI's kind; None if it may be one."""
    if 300 <= status < 400:
        return f"it redirects to another address ({status})"
    is_page = words.lstrip().lower().startswith(_WEB_PAGE)
    if status in (400, 406, 415) and is_page:
        return f"it answers with a web page ({status})"
    if status not in (404, 405):
        return None
    error = body.get("error") if isinstance(body, dict) else None
    is_error = bool(error) or (isinstance(body, dict) and body.get("object") == "error")
    if is_error and not any(each in words.lower() for each in _WORDS_OF_UNKNOWN_PATHS):
        return None
    return f"it has no such path ({status})"


def _code_of(body: object) -> str | None:
    if isinstance(body, list) and len(body) == 1:
        # Google puts errors into a list.
        body = body[0]
    described = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(described, dict):
        return None
    details = described.get("details")
    reasons = [each.get("reason") for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    found = [*(described.get(place) for place in ("code", "type")), *reasons]
    return next((code for code in found if isinstance(code, str) and not code.isdecimal()), None)
