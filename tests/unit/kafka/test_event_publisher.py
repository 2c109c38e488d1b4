"""An upstream can trust its publisher: a client that broke is replaced, and each failure says what to do."""

import asyncio

import pytest
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)

from kb_client import events as module
from kb_client.events import EventPublisher, EventRefused, EventTooLarge, PublishingFailed
from kb_contracts.cloudevents import MAX_EVENT_BYTES, encode
from kb_contracts.documents import DocumentDeleted, MetadataChanged
from tests.unit.kafka.scripted_clients import Clients, ScriptedClient
from tests.waiting import until


def publisher() -> EventPublisher:
    return EventPublisher("nowhere:1", source="/tests")


def deleted(*document_ids: str) -> list[DocumentDeleted]:
    return [DocumentDeleted(organization_id="o", document_id=each, revision=1) for each in document_ids]


async def was_given(client: ScriptedClient, count: int) -> list[str]:
    await until(lambda: len(client.waiting) == count, what=f"a client that was given {count} events")
    return list(client.waiting)


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumber(), ProducerFenced()], ids=lambda each: type(each).__name__)
async def test_a_publisher_goes_on_after_an_error_that_its_client_can_not_recover_from(
    clients: Clients, error: KafkaError
) -> None:
    async with publisher() as events:
        publishing = asyncio.create_task(events.publish_all(deleted("a", "b")))
        sent = await was_given(clients.made[0], 2)
        clients.made[0].fail(error, *sent)
        second = await clients.next(2)
        assert await was_given(second, 2) == sent
        second.acknowledge_all()
        await publishing
        later = asyncio.create_task(events.publish(*deleted("c")))
        await was_given(second, 1)
        second.acknowledge_all()
        await later


async def test_publishing_raises_when_kafka_did_not_acknowledge(clients: Clients) -> None:
    async with publisher() as events:
        publishing = asyncio.create_task(events.publish(*deleted("a")))
        sent = await was_given(clients.made[0], 1)
        clients.made[0].fail(KafkaTimeoutError(), *sent)
        with pytest.raises(PublishingFailed, match="KafkaTimeoutError") as failure:
            await publishing
    assert isinstance(failure.value, KafkaError)  # as callers of earlier versions expect


async def test_an_event_that_kafka_refuses_is_named_and_not_to_be_published_again(clients: Clients) -> None:
    refused, accepted = deleted("a", "b")
    async with publisher() as events:
        publishing = asyncio.create_task(events.publish_all([accepted, refused]))
        first, second = await was_given(clients.made[0], 2)
        clients.made[0].acknowledge(first)
        clients.made[0].fail(MessageSizeTooLargeError(), second)
        with pytest.raises(EventRefused, match=r"document\.deleted\.v1 of o/a: .*too large") as failure:
            await publishing
    assert (failure.value.event, failure.value.reason) == (refused, "too-large")
    assert not isinstance(failure.value, KafkaError)  # who tries again after one would do so for ever


async def test_nothing_is_sent_when_one_of_many_events_is_too_large(clients: Clients) -> None:
    too_large = MetadataChanged(
        organization_id="o", document_id="d", revision=1, metadata={f"k{n}": "ü" * 8_000 for n in range(63)}
    )
    async with publisher() as events:
        with pytest.raises(EventTooLarge, match=f"at most {MAX_EVENT_BYTES}"):
            await events.publish_all([*deleted("a"), too_large])
    assert clients.made[0].waiting == {}


async def test_more_than_goes_out_in_a_minute_is_handed_over_part_by_part(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = deleted(*(f"d{n}" for n in range(7)))
    monkeypatch.setattr(module, "AT_ONCE_BYTES", 3 * len(encode(many[0], source="/tests")))
    async with publisher() as events:
        publishing = asyncio.create_task(events.publish_all(many))
        for count in (3, 3, 1):
            await was_given(clients.made[0], count)
            clients.made[0].acknowledge_all()
        await publishing
    assert [n for n in range(7) if f'"d{n}"' in clients.log[n]] == list(range(7))


async def test_leaving_ends_what_is_still_being_published(clients: Clients) -> None:
    events = publisher()
    async with events:
        assert events._producer is not None
        events._producer._stop_timeout_s = 0.1
        publishing = asyncio.create_task(events.publish(*deleted("a")))
        await was_given(clients.made[0], 1)
    assert clients.made[0].stopped
    with pytest.raises(PublishingFailed, match="ProducerClosed"):
        await publishing
    with pytest.raises(RuntimeError, match="async with"):
        await events.publish(*deleted("b"))


async def test_entering_says_when_no_broker_answers(clients: Clients) -> None:
    clients.prepare = lambda client: setattr(client, "fails_to_start", 1)
    with pytest.raises(PublishingFailed, match="nowhere:1 does not answer"):
        await publisher().__aenter__()
    assert clients.made[0].stopped
