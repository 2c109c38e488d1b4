"""Faults of topics: nothing is lost without notice, nothing is stuck, and no restart is needed."""

import asyncio
import json
from functools import partial
from typing import Final

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from kb_contracts import topics
from kb_contracts.outcomes import DocumentRejected
from kb_local.broker_contents import create_topics
from tests.chaos.quiescence import until_quiescent
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.loaded_system import LoadedSystem
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

DELETED: Final = 40


async def test_events_deleted_before_they_were_read_are_reported_and_can_be_sent_again(
    loaded: LoadedSystem, brokers: KafkaBrokers, document_events: str
) -> None:
    stack, indexers = loaded.system.stack, ("kb_indexer", "kb_indexer:2")
    async with loaded.load():
        await loaded.until_indexed_more(5)
    await until_quiescent(loaded.system)
    for name in indexers:
        await stack.stop_service(name)
    await loaded.publish(DELETED)
    everything = [TopicPartition(document_events, n, OFFSET_END) for n in range(topics.DOCUMENT_EVENTS.partitions)]
    for deleted in brokers.admin.delete_records(everything).values():
        await asyncio.wrap_future(deleted)
    for name in indexers:
        await stack.start_service(name)
    await until(lambda: _skipped(loaded) == DELETED, what="all skipped events are logged", every_s=0.5)
    await loaded.publish_all_again()
    await loaded.assert_consistent()


async def test_a_topic_that_is_deleted_under_load_and_made_again_is_worked_on_again(
    loaded: LoadedSystem, brokers: KafkaBrokers, document_events: str
) -> None:
    stack = loaded.system.stack
    async with loaded.load():
        await brokers.delete_topics([document_events])
        await loaded.until_accepted_more(3)
        await create_topics(stack.kafka_connection, prefix=stack.topic_prefix)
        await loaded.until_indexed_more(20)
    # What only the deleted topic had.
    await loaded.publish_all_again()
    await loaded.assert_consistent()


async def test_poison_as_large_as_a_topic_takes_it_holds_up_no_partition(
    loaded: LoadedSystem, brokers: KafkaBrokers
) -> None:
    async with loaded.load():
        for number in range(5):
            key = f"{loaded.system.organization_id}/poison-{number}".encode()
            malformed = b"not JSON" + bytes([number]) * 1_000_000
            loaded.oracle.malformed.append(malformed)
            await loaded.system.kafka.send(topics.DOCUMENT_EVENTS, key.ljust(40_000, b"k"), malformed)
        await loaded.until_indexed_more(40)
    await loaded.assert_consistent()


async def test_an_event_above_the_limit_of_its_topic_holds_up_no_other_and_is_sent_when_the_limit_is_raised(
    loaded: LoadedSystem, brokers: KafkaBrokers, document_events: str
) -> None:
    http = loaded.system.http
    async with loaded.load():
        refused = await http.put("/documents/refused", json=_body_of(1_100_000))
        assert refused.status_code == 413, refused.text

        # kb-api asks for the limit once a minute, so that it accepts this.
        await brokers.set_topic(document_events, {"max.message.bytes": "10000"})
        await loaded.put(loaded.next_event(paragraphs=80))
        await until(partial(_any_unsendable, loaded), what="Kafka has refused the event", every_s=0.2)
        await loaded.until_indexed_more(20)

        await brokers.set_topic(document_events, {"max.message.bytes": "1048576"})
        [message_id] = await _unsendable(loaded)
        (await http.post(f"/unsendable-messages/{message_id}/redrive")).raise_for_status()
        await loaded.until_indexed_more(5)
    await loaded.assert_consistent()


def _body_of(characters: int) -> dict[str, object]:
    """Return the body of a PUT whose text has so many."""
    text = "x" * characters
    return {"revision": 1, "document_name": "d", "tag_ids": [], "text": text, "upload_date": "2026-01-31T00:00:00Z"}


async def _unsendable(loaded: LoadedSystem) -> list[str]:
    """Return the ids of messages that Kafka refused and that were reported to the upstream."""
    answer = (await loaded.system.http.get("/unsendable-messages")).raise_for_status().json()
    announced = [json.loads(message.value or b"{}") for message in await loaded.system.kafka.read(topics.KB_EVENTS)]
    rejected = {each["data"]["document_id"] for each in announced if each["type"] == DocumentRejected.TYPE}
    return [each["message_id"] for each in answer["unsendable_messages"] if each["document_id"] in rejected]


async def _any_unsendable(loaded: LoadedSystem) -> bool:
    return bool(await _unsendable(loaded))


def _skipped(loaded: LoadedSystem) -> int:
    """Return how many offsets the indexers say that they skipped."""
    lines = [line for server in loaded.system.stack.services.values() for line in server.log.read_text().splitlines()]
    skipped = [json.loads(line) for line in lines if '"records.skipped"' in line]
    return sum(each["last_offset"] - each["first_offset"] + 1 for each in skipped)
