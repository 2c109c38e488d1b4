"""Streams of runs: typed events, and what is raised when a stream ends before its run."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

import httpx
import pytest

from kb_client import AsyncClient, Client, StreamBroken
from kb_client.problems import IndexNotReadyError
from kb_client.server_sent_events import EventStreamParser
from kb_contracts.api.run_events import AnswerDeltaEvent, RunFinishedEvent, RunStartedEvent
from kb_contracts.api.runs import RunView

RUN_ID = "65f1c2a3b4d5e6f708192a42"
STARTED = ("run.started", {"run_id": RUN_ID, "model": "m"})
DELTA = ("answer.delta", {"iteration": 1, "text": "30 days"})
[EXAMPLE] = cast("dict[str, Any]", RunView.model_config["json_schema_extra"])["examples"]
FINISHED = ("run.finished", EXAMPLE | {"run_id": RUN_ID, "answer": "30 days"})
CRASHED = ("run.finished", {"status": "failed", "error": {"type": "internal-error"}})


def encoded(*events: tuple[str, Mapping[str, object]]) -> bytes:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Sends pieces of a stream, and fails at its end if a test says so."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


def client_of(stream: Pieces) -> Client:
    answer = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)
    http = httpx.Client(transport=httpx.MockTransport(lambda _: answer))
    return Client("http://kb", organization="acme", api_key="kb_0_0", http=http)


def test_a_stream_yields_typed_events_to_the_last_one() -> None:
    whole = encoded(STARTED, DELTA, FINISHED)
    # A piece may end anywhere, also within a line.
    stream = Pieces(*(whole[at : at + 7] for at in range(0, len(whole), 7)))
    with client_of(stream).runs.stream(messages=[{"role": "user", "content": "Leave?"}]) as events:
        kinds = [type(event) for event in events]
    assert kinds == [RunStartedEvent, AnswerDeltaEvent, RunFinishedEvent]
    assert events.run_id == RUN_ID
    assert events.finished is not None
    assert events.finished.answer == "30 days"
    assert stream.is_closed


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "the connection was closed"),
        (httpx.ReadError("reset"), "the connection was lost"),
        (httpx.RemoteProtocolError("cut"), "the connection was lost"),
        (httpx.ReadTimeout("silent"), "no event came in time"),
    ],
)
def test_a_stream_that_breaks_in_the_middle_names_the_run(error: Exception | None, reason: str) -> None:
    client = client_of(Pieces(encoded(STARTED, DELTA), b"event: answer.delta\ndata: {", error=error))
    seen: list[str] = []

    def follow() -> None:
        with client.runs.stream(prompt_id=RUN_ID) as events:
            for event in events:
                seen.append(event.event)  # noqa: PERF401  # what came before the error counts, too

    with pytest.raises(StreamBroken, match=reason) as caught:
        follow()
    assert seen == ["run.started", "answer.delta"]
    assert caught.value.run_id == RUN_ID


def test_a_run_that_crashes_yields_its_last_event_and_raises() -> None:
    seen: list[str] = []

    def follow() -> None:
        with client_of(Pieces(encoded(STARTED, CRASHED))).runs.stream(prompt_id=RUN_ID) as events:
            for event in events:
                seen.append(event.event)  # noqa: PERF401  # what came before the error counts, too

    with pytest.raises(StreamBroken, match="an error of the service ended it") as caught:
        follow()
    assert seen == ["run.started", "run.finished"]
    assert caught.value.run_id == RUN_ID


def test_leaving_the_block_early_closes_the_connection() -> None:
    stream = Pieces(encoded(STARTED, DELTA, FINISHED))
    with client_of(stream).runs.stream(prompt_id=RUN_ID) as events:
        for _ in events:
            break
    assert stream.is_closed


def test_an_event_of_a_later_version_is_passed_over() -> None:
    stream = Pieces(encoded(STARTED, ("model.thinking", {"text": "Hm"}), FINISHED))
    with client_of(stream).runs.stream(prompt_id=RUN_ID) as events:
        assert [event.event for event in events] == ["run.started", "run.finished"]


def test_a_run_that_is_refused_raises_the_problem_on_entering() -> None:
    refusal = {"type": "index-not-ready", "title": "T", "status": 503, "detail": "Wait.", "request_id": "r"}
    headers = {"Content-Type": "application/problem+json"}
    http = httpx.Client(
        transport=httpx.MockTransport(lambda _: httpx.Response(503, json=refusal, headers=headers)),
    )
    client = Client("http://kb", organization="acme", api_key="kb_0_0", http=http)
    with pytest.raises(IndexNotReadyError), client.runs.stream(prompt_id=RUN_ID):
        pass


async def test_the_asynchronous_stream_yields_the_same() -> None:
    answer = httpx.Response(200, stream=Pieces(encoded(STARTED, FINISHED)))
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer))
    client = AsyncClient("http://kb", organization="acme", api_key="kb_0_0", http=http)
    async with http, client.runs.stream(prompt_id=RUN_ID) as events:
        assert [event.event async for event in events] == ["run.started", "run.finished"]


def test_the_parser_joins_data_and_skips_comments() -> None:
    parser = EventStreamParser()
    lines = [": keep-alive", "", "id: 1", "data: a", "data:b", "", "event: x", "data: c", ""]
    assert [event for line in lines if (event := parser.feed(line))] == [("message", "a\nb"), ("x", "c")]
