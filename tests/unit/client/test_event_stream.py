"""Streams of events: what is lost is asked for again, and nothing else."""

import json
from collections.abc import Iterator

import httpx
import pytest

from kb_client import Client
from kb_client.problems import EventsExpiredError
from tests.unit.client.test_run_stream import Pieces

DATA = {"id": "e", "type": "document.removed.v1", "source": "/kb/indexer", "time": "2026-01-31T12:00:00Z", "data": {}}


def event(position: int) -> bytes:
    data = json.dumps({**DATA, "position": position})
    return f"id: {position}\nevent: {DATA['type']}\ndata: {data}\n\n".encode()


class InterruptedServer:
    """Answers each connection with the next of its streams, and remembers where each began."""

    def __init__(self, *streams: Pieces | int) -> None:
        self.streams = iter(streams)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url.params["after"]))
        stream = next(self.streams)
        if isinstance(stream, int):
            slug = {410: "events-expired", 503: "unavailable"}[stream]
            problem = {"type": slug, "title": "t", "status": stream, "detail": "d", "request_id": "r"}
            return httpx.Response(stream, json=problem, headers={"Content-Type": "application/problem+json"})
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_client.sync_client.event_stream.time.sleep", lambda _: None)


def follow(server: InterruptedServer) -> Iterator[int]:
    http = httpx.Client(transport=httpx.MockTransport(server))
    client = Client("http://kb", organization="acme", api_key="kb_0_0", http=http, max_retries=0)
    with client.events.follow() as events:
        for each in events:
            yield each.position


def test_a_stream_that_ends_or_breaks_goes_on_behind_the_last_whole_event() -> None:
    server = InterruptedServer(
        Pieces(b"retry: 2000\nid: 4\n\n"),
        Pieces(event(5), event(6)[:20], error=httpx.ReadError("reset")),
        503,
        Pieces(event(6), b": heartbeat\nid: 9\n\n"),
        Pieces(event(10)),
        410,
    )
    positions = follow(server)
    assert [next(positions) for _ in range(3)] == [5, 6, 10]
    with pytest.raises(EventsExpiredError):
        next(positions)
    assert server.asked == ["latest", "4", "5", "5", "9", "10"]
