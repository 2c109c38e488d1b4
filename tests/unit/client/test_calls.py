"""Calls of the client: retries, time limits, errors and what is sent, on a transport that answers as a test says."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kb_client import AsyncClient, CallTimedOut, Client, ConnectionFailed, UnexpectedAnswer, UnusableHeader
from kb_client.errors import HttpConflict, HttpNotFound, HttpServiceUnavailable
from kb_client.problems import NotFoundError, TooManyRequestsError, ValidationProblemError

KEY = "kb_0123456789abcdef_secret7f3a"
KB_ID = "65f1c2a3b4d5e6f708192a3b"
UNUSED = {"document_count": 0, "knowledge_base_count": 0}
TAG = UNUSED | {"tag_id": "t", "name": "T"}

Answer = httpx.Response | httpx.HTTPError


@dataclass
class ScriptedServer:
    """Gives its answers in turn, the last one again and again."""

    answers: list[Answer]
    requests: list[httpx.Request] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


Serving = Callable[..., "tuple[Client, ScriptedServer]"]


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Make a client of a server with these answers; its waits take no time."""

    def serve(*answers: Answer, **options: Any) -> tuple[Client, ScriptedServer]:
        server = ScriptedServer(list(answers))
        monkeypatch.setattr("kb_client.sync_client.transport.time.sleep", server.waits.append)
        http = httpx.Client(transport=httpx.MockTransport(server))
        return Client("http://kb", organization="acme", api_key=KEY, http=http, **options), server

    return serve


def problem(status: int, slug: str, *, retry_after: str | None = None, **extra: Any) -> httpx.Response:
    body = {"type": slug, "title": "T", "status": status, "detail": "Do this.", "request_id": "r1", **extra}
    headers = {"Content-Type": "application/problem+json"}
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return httpx.Response(status, json=body, headers=headers)


OK = httpx.Response(200, json=TAG)
TAGS = httpx.Response(200, json={"tags": [], "total_count": 0})
SEARCHED: dict[str, Any] = {
    "results": [],
    "query": "q",
    "total_count": 0,
    "total_count_is_exact": True,
    "skip": 0,
    "top_k": 5,
    "omitted_count": 0,
    "total_tokens": 0,
    "spu_charged": 0,
    "query_vector_cached": None,
    "timings_ms": {"embed": 0, "vector": 0, "text": 0, "read": 0, "total": 0},
    "degraded": [],
    "kb_status": "active",
}


def test_an_error_that_may_pass_is_tried_twice_more(serving: Serving) -> None:
    client, server = serving(problem(503, "unavailable", retry_after="0"))
    with pytest.raises(HttpServiceUnavailable) as caught:
        client.tags.list()
    assert len(server.requests) == 3
    assert (caught.value.slug, caught.value.request_id) == ("unavailable", "r1")


def test_a_retry_never_comes_before_retry_after(serving: Serving) -> None:
    client, server = serving(problem(429, "too-many-requests", retry_after="7"), TAGS)
    client.tags.list()
    assert len(server.waits) == 1
    assert 7 <= server.waits[0] <= 7.25


def test_a_retry_after_beyond_the_time_of_the_call_is_left_to_the_caller(serving: Serving) -> None:
    client, server = serving(problem(429, "too-many-requests", retry_after="7"))
    with pytest.raises(TooManyRequestsError) as caught:
        client.with_options(timeout_s=5).tags.list()
    assert (len(server.requests), caught.value.retry_after_s) == (1, 7.0)


@pytest.mark.parametrize(
    "answer",
    [
        problem(402, "budget-exhausted", retry_after="1"),
        problem(404, "not-found"),
        problem(500, "internal-error"),
        problem(503, "provider-refused"),
    ],
)
def test_an_error_that_stays_is_not_repeated(serving: Serving, answer: httpx.Response) -> None:
    client, server = serving(answer)
    with pytest.raises(Exception, match="Do this"):
        client.tags.list()
    assert len(server.requests) == 1


def test_a_creating_post_is_repeated_with_the_same_idempotency_key_and_each_call_has_its_own(serving: Serving) -> None:
    client, server = serving(httpx.ReadError("cut off"), OK)
    client.tags.put("t", name="T")
    client.tags.put("t", name="T")
    keys = [request.headers["Idempotency-Key"] for request in server.requests]
    assert keys[0] == keys[1] != keys[2]


def test_a_search_is_repeated_without_an_idempotency_key(serving: Serving) -> None:
    client, server = serving(httpx.ReadError("cut off"), httpx.Response(200, json=SEARCHED))
    client.knowledge_bases.search(KB_ID, "leave")
    assert len(server.requests) == 2
    assert all("Idempotency-Key" not in request.headers for request in server.requests)


def test_a_change_with_if_match_that_may_have_been_made_is_not_repeated(serving: Serving) -> None:
    client, server = serving(httpx.ReadError("cut off"))
    with pytest.raises(ConnectionFailed):
        client.agents.update("65f1c2a3b4d5e6f708192a3b", name="n", if_match='"1"')
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["a\nX-Injected: 1", "a\r", "\x00", "ä", " a", ""])
def test_what_can_not_be_sent_as_a_header_is_refused_before_anything_is_sent(serving: Serving, value: str) -> None:
    client, server = serving(httpx.Response(200, json=TAG))
    with pytest.raises(UnusableHeader, match="If-Match") as refused:
        client.agents.update("65f1c2a3b4d5e6f708192a3b", name="n", if_match=value)
    assert "Injected" not in str(refused.value)
    with pytest.raises(UnusableHeader, match="Idempotency-Key"):
        client.with_options(idempotency_key=value or " ").threads.create()
    assert server.requests == []


def test_a_change_with_if_match_that_did_not_reach_the_server_is_repeated(serving: Serving) -> None:
    client, server = serving(httpx.ConnectError("refused"))
    with pytest.raises(ConnectionFailed):
        client.agents.update("65f1c2a3b4d5e6f708192a3b", name="n", if_match='"1"')
    assert len(server.requests) == 3


def test_a_time_limit_holds_for_the_call_and_is_told_to_the_connection(serving: Serving) -> None:
    client, server = serving(httpx.ReadTimeout("slow"))
    with pytest.raises(CallTimedOut, match="GET /tags got no answer within 2"):
        client.with_options(timeout_s=2).tags.list()
    (request,) = server.requests
    assert request.extensions["timeout"]["read"] == pytest.approx(2, abs=0.1)


def test_a_problem_is_an_error_of_its_slug_and_of_its_status(serving: Serving) -> None:
    client, _ = serving(problem(404, "not-found"))
    with pytest.raises(NotFoundError) as caught:
        client.knowledge_bases.get(KB_ID)
    assert isinstance(caught.value, HttpNotFound)
    assert str(caught.value) == "Do this. (not-found 404, request r1)"


def test_a_problem_that_this_client_does_not_know_is_an_error_of_its_status(serving: Serving) -> None:
    client, _ = serving(problem(409, "invented-later", limit=3))
    with pytest.raises(HttpConflict) as caught:
        client.knowledge_bases.get(KB_ID)
    assert (caught.value.slug, caught.value.extra) == ("invented-later", {"limit": 3})


def test_fields_that_are_not_valid_are_named(serving: Serving) -> None:
    client, _ = serving(problem(422, "validation-error", fields=[{"field": "top_k", "message": "too large"}]))
    with pytest.raises(ValidationProblemError, match="top_k: too large") as caught:
        client.knowledge_bases.search(KB_ID, "q", top_k=100)
    assert [each.field for each in caught.value.fields] == ["top_k"]


def test_an_answer_of_another_server_is_an_error_that_does_not_quote_it(serving: Serving) -> None:
    client, _ = serving(httpx.Response(200, text="<html>secret text</html>"))
    with pytest.raises(UnexpectedAnswer) as caught:
        client.tags.list()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_raw_response_has_status_headers_and_the_parsed_answer(serving: Serving) -> None:
    client, _ = serving(httpx.Response(201, json=TAG, headers={"ETag": '"7"', "X-Request-Id": "r2"}))
    raw = client.tags.put.with_raw_response("t", name="T")
    assert (raw.status_code, raw.etag, raw.request_id, raw.parsed.name) == (201, '"7"', "r2", "T")


def test_iteration_reads_all_pages(serving: Serving) -> None:
    pages = [
        httpx.Response(200, json={"tags": [TAG | {"tag_id": str(n)} for n in numbers], "total_count": 5})
        for numbers in ((0, 1), (2, 3), (4,))
    ]
    client, server = serving(*pages)
    assert [tag.tag_id for tag in client.tags.list.iterate(limit=2)] == ["0", "1", "2", "3", "4"]
    assert [request.url.params["skip"] for request in server.requests[1:]] == ["2", "4"]


def test_iteration_follows_cursors_where_a_list_has_them(serving: Serving) -> None:
    pages = [
        httpx.Response(200, json={"documents": [], "total_count": 9, "next_cursor": cursor})
        for cursor in ("one", "two", None)
    ]
    client, server = serving(*pages)
    assert list(client.documents.list.iterate(skip=3)) == []
    sent = [{name: request.url.params.get(name) for name in ("skip", "cursor")} for request in server.requests]
    assert sent == [
        {"skip": "3", "cursor": None},
        {"skip": None, "cursor": "one"},
        {"skip": None, "cursor": "two"},
    ]


def test_iteration_ends_when_items_disappear_meanwhile(serving: Serving) -> None:
    one = httpx.Response(200, json={"tags": [TAG], "total_count": 3})
    client, server = serving(one, httpx.Response(200, json={"tags": [], "total_count": 3}))
    assert len(list(client.tags.list.iterate())) == 1
    assert len(server.requests) == 2
    assert server.requests[0].url.params["limit"] == "100"


def test_times_are_sent_with_their_offset_and_in_metadata_as_dates(serving: Serving) -> None:
    client, server = serving(httpx.Response(202, json={"document_id": "d", "revision": 1, "changed": True}))
    time = datetime(2026, 1, 31, 12, tzinfo=UTC)
    client.documents.put("d", document_name="n", tag_ids=("t",), upload_date=time, text="x", metadata={"signed": time})
    assert server.requests[0].content == (
        b'{"document_name":"n","tag_ids":["t"],"upload_date":"2026-01-31T12:00:00+00:00","text":"x",'
        b'"metadata":{"signed":{"$date":"2026-01-31T12:00:00+00:00"}}}'
    )
    with pytest.raises(ValueError, match="offset"):
        client.documents.put("d", document_name="n", tag_ids=[], upload_date=datetime(2026, 1, 31), text="x")  # noqa: DTZ001  # what is refused


def test_an_id_stays_one_segment_of_the_path(serving: Serving) -> None:
    client, server = serving(problem(404, "not-found"))
    for identifier in ("../../orgs/victim", "..", "a?b#c", "%2F"):
        with pytest.raises(NotFoundError):
            client.documents.get(identifier)
    assert [request.url.raw_path for request in server.requests] == [
        b"/v0/orgs/acme/documents/..%2F..%2Forgs%2Fvictim",
        b"/v0/orgs/acme/documents/%2E%2E",
        b"/v0/orgs/acme/documents/a%3Fb%23c",
        b"/v0/orgs/acme/documents/%252F",
    ]
    with pytest.raises(ValueError, match="empty"):
        client.documents.get("")


def test_a_long_text_is_stored_in_pieces_with_its_progress(serving: Serving) -> None:
    stored = httpx.Response(200, json={"text_ref": "ref"})
    client, server = serving(stored, httpx.Response(202, json={"document_id": "d", "revision": 1, "changed": True}))
    progress: list[tuple[int, int]] = []
    text = "ä" * 300_000
    client.documents.upload(
        "d", text, document_name="n", tag_ids=["t"], on_progress=lambda sent, total: progress.append((sent, total))
    )
    assert server.requests[0].content.decode() == text
    assert server.requests[0].headers["Content-Length"] == "600000"
    assert "Transfer-Encoding" not in server.requests[0].headers
    assert b'"text_ref":"ref"' in server.requests[1].content
    assert progress[-1] == (600_000, 600_000)
    assert progress == sorted(progress)
    assert len(progress) == 10


@contextmanager
def collected_logs() -> Iterator[list[str]]:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]  # of this handler only
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def test_the_key_is_in_no_repr_log_or_exception(serving: Serving) -> None:
    client, server = serving(httpx.ReadError("cut off"), problem(404, "not-found"))
    with collected_logs() as lines, pytest.raises(NotFoundError) as caught:
        client.tags.list()
    shown = [repr(client), repr(caught.value), str(caught.value), repr(client._transport.configuration), *lines]
    assert lines
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert not [text for text in shown if "secret7f3a" in text]


async def test_the_asynchronous_client_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer([problem(503, "unavailable", retry_after="0"), TAGS])

    async def sleep(wait_s: float) -> None:
        server.waits.append(wait_s)

    monkeypatch.setattr("kb_client.async_client.transport.asyncio.sleep", sleep)
    http = httpx.AsyncClient(transport=httpx.MockTransport(server))
    async with http, AsyncClient("http://kb", organization="acme", api_key=KEY, http=http) as client:
        assert [tag async for tag in client.tags.list.iterate()] == []
    assert len(server.waits) == 1
