"""Clients of other languages publish the same events, and the documents are as they must be."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kb_contracts import topics
from tests.chaos.oracle import read_json
from tests.chaos.quiescence import until_quiescent
from tests.e2e.system import SystemUnderTest, until
from tests.producers.batches import end_offsets, written_since
from tests.producers.clients import CLIENTS, CODECS, READERS, PublishingClient, execute
from tests.producers.state import differences, until_handled
from tests.producers.table import INDEXED, EventsOfRun

pytestmark = pytest.mark.producers


@dataclass(frozen=True, slots=True)
class PublisherRun:
    client: PublishingClient
    codec: str
    binary: bool = False
    transactional: bool = False

    def __str__(self) -> str:
        how = ["binary"] if self.binary else []
        return "-".join([self.client.name, self.codec, *how, *(["transactional"] if self.transactional else [])])

    def events(self, organization_id: str) -> EventsOfRun:
        return EventsOfRun(organization_id, f"{self}.", self.transactional)

    def described(self, bootstrap: str, topic: str, events: EventsOfRun) -> dict[str, Any]:
        """Return what the program gets."""
        return {
            "bootstrap": bootstrap,
            "topic": topic,
            "codec": self.codec,
            "mode": "binary" if self.binary else "structured",
            "transactional_id": f"{self}-{uuid4().hex}" if self.transactional else None,
            "aborted": events.aborted(),
            "events": events.published(),
        }


RUNS = [
    PublisherRun(client, codec, binary, transactional)
    for client in CLIENTS
    for codec in CODECS
    for binary in ((False, True) if client.binary else (False,))
    for transactional in (False, True)
]


@pytest.mark.parametrize("run", RUNS, ids=str)
async def test_documents_are_as_the_events_of_a_client_say(
    run: PublisherRun, receiver: SystemUnderTest, document_events: str, tmp_path: Path
) -> None:
    events = run.events(receiver.organization_id)
    begins = await end_offsets(receiver.stack.kafka, document_events)
    described = run.described(receiver.stack.kafka, document_events, events)

    await asyncio.to_thread(run.client.publish, described, tmp_path)

    await until_handled(receiver, events)
    found = [
        difference
        for document_id, expected in events.expected_documents().items()
        for difference in await differences(receiver.http, document_id, expected)
    ]
    assert found == []
    written = await written_since(receiver.stack.kafka, begins)
    assert len(written.records) == len(events.published()) + len(events.aborted() if run.transactional else [])
    assert written.violations() == []
    # Most clients leave a small batch as it is if that is shorter.
    assert run.codec in {CODECS[batch.codec] for batch in written.batches} <= {run.codec, "none"}
    assert all(batch.producer_id >= 0 for batch in written.batches)
    assert {batch.is_transactional for batch in written.batches} == {run.transactional}


async def test_a_batch_that_is_thirty_times_as_large_when_it_is_decompressed_is_read(
    receiver: SystemUnderTest, document_events: str, tmp_path: Path
) -> None:
    """A client such as kafkajs puts all that one call sends to a partition into one batch, however large it is."""
    run = PublisherRun(next(client for client in CLIENTS if client.name == "kafkajs"), "zstd")
    events = EventsOfRun(receiver.organization_id, "batch.")
    largest = max(events.published(), key=lambda record: len(json.dumps(record)))
    revisions = [json.loads(json.dumps(largest)) for _ in range(30)]
    for revision, record in enumerate(revisions, start=1):
        record["event"] |= {"id": f"batch.{revision}", "data": record["event"]["data"] | {"revision": revision}}
    begins = await end_offsets(receiver.stack.kafka, document_events)
    described = run.described(receiver.stack.kafka, document_events, events)

    await asyncio.to_thread(run.client.publish, described | {"events": revisions}, tmp_path)

    async def last_is_handled() -> bool:
        answer = await receiver.http.get("/documents/batch.large")
        return answer.status_code == 200 and answer.json()["text_revision"] == 30

    await until(last_is_handled, what="the last of 30 events", every_s=0.2)
    written = await written_since(receiver.stack.kafka, begins)
    assert [CODECS[batch.codec] for batch in written.batches] == ["zstd"]
    assert len(written.records) == 30


async def test_two_clients_read_the_same_outcomes(
    receiver: SystemUnderTest, document_events: str, tmp_path: Path
) -> None:
    client = CLIENTS[1]
    run = PublisherRun(client, "none")
    events = EventsOfRun(receiver.organization_id, f"outcomes-{uuid4().hex[:6]}.")
    described = run.described(receiver.stack.kafka, document_events, events)
    refused = events.published()[0]
    refused["event"]["id"] = f"{events.prefix}refused"
    refused["event"]["data"]["revision"] = "1"
    await asyncio.to_thread(client.publish, described | {"events": [*events.published(), refused]}, tmp_path)
    await until_handled(receiver, events)
    indexed = {
        ("document.indexed.v1", document_id, document.text.revision)
        for document_id, document in events.expected_documents().items()
        if document.text is not None and INDEXED in document.tag_ids
    }
    expected = indexed | {("document.rejected.v1", f"{events.prefix}offer", refused["event"]["id"])}
    assert len(expected) == 6

    async def all_are_announced() -> bool:
        messages = await receiver.kafka.read(topics.KB_EVENTS)
        return expected <= {_summary(read_json(message)) for message in messages}

    await until(all_are_announced, what="all outcomes", every_s=0.5)
    topic = receiver.stack.topic_prefix + topics.KB_EVENTS.name
    for name, command in READERS.items():
        printed = await asyncio.to_thread(execute, [*command(), receiver.stack.kafka, topic])
        read = [json.loads(line) for line in printed.splitlines()]
        assert expected <= {_summary(each["event"]) for each in read}, name
        assert {each["key"].split("/")[0] for each in read} == {receiver.organization_id}


async def test_transactions_leave_nothing_that_waits(receiver: SystemUnderTest) -> None:
    """A marker at the end of a partition is no record, so that a group which has read all has no lag."""
    await until_quiescent(receiver)
    letters = await receiver.kafka.read(topics.DEAD_LETTERS)
    assert {letter.headers["x-reason"] for letter in letters} <= {"bad-data"}


def _summary(event: Mapping[str, Any]) -> tuple[str, str | None, Any]:
    data = event["data"]
    return event["type"], data.get("document_id"), data.get("event_id", data.get("revision"))
