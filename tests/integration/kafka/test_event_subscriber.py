"""A subscriber gets each event until the body of its loop has run for it, on the real broker."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiokafka import TopicPartition

from kb_client.subscriber import EventSubscriber, ReceivedEvent
from kb_contracts.cloudevents import encode
from kb_contracts.outcomes import DocumentIndexed, DocumentRemoved, KnowledgeBaseCreated
from kb_contracts.topics import KB_EVENTS
from kb_local.broker import Broker
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.clients import consumer_client, producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.conftest import KafkaCluster
from tests.integration.kafka.raw_producer import raw_producer
from tests.integration.kafka.support import ON_KAFKA
from tests.record_batches import CRC_AT, Rec, build_batch, flip, set_codec
from tests.waiting import until

KB_ID = "65f1c2a3b4d5e6f708192a3b"
SESSION_S = 6.0 if ON_KAFKA else 2.0
WITHIN_S = 60
PROGRAM = """
import asyncio, sys
from kb_client.subscriber import EventSubscriber

async def main():
    address, group_id, prefix, session_s, stuck = sys.argv[1:]
    subscriber = EventSubscriber(address, group_id=group_id, topic_prefix=prefix, session_timeout_s=float(session_s))
    async with subscriber as events:
        async for event in events:
            print(event.event_id, flush=True)
            if event.event_id == stuck:
                await asyncio.sleep(3600)

asyncio.run(main())
"""


class OutcomeTopic:
    """An empty `kb-events`."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.group_id = f"{prefix}upstream-{uuid4().hex[:8]}"

    async def publish(self, *event_ids: str, organization_id: str = "acme") -> None:
        client = producer_client(KafkaConnection(self.bootstrap), acks="all")
        await client.start()
        try:
            for event_id in event_ids:
                outcome = DocumentRemoved(organization_id=organization_id, kb_id=KB_ID, document_id="d")
                value = encode(outcome, source="/tests", event_id=event_id)
                await client.send_and_wait(self.prefix + KB_EVENTS.name, key=b"acme", value=value)
        finally:
            await client.stop()

    async def publish_raw(self, value: bytes) -> None:
        client = producer_client(KafkaConnection(self.bootstrap), acks="all")
        await client.start()
        try:
            await client.send_and_wait(self.prefix + KB_EVENTS.name, key=b"acme", value=value)
        finally:
            await client.stop()

    async def committed(self) -> set[int]:
        """Return the offsets that the group has committed."""
        client = consumer_client(KafkaConnection(self.bootstrap), group_id=self.group_id, enable_auto_commit=False)
        await client.start()
        try:
            partitions = [TopicPartition(self.prefix + KB_EVENTS.name, each) for each in range(KB_EVENTS.partitions)]
            return {await client.committed(partition) for partition in partitions}
        finally:
            await client.stop()

    def subscriber(self, **options: str) -> EventSubscriber:
        return EventSubscriber(
            self.bootstrap,
            group_id=self.group_id,
            topic_prefix=self.prefix,
            session_timeout_s=SESSION_S,
            **options,  # type: ignore[arg-type]  # of several types
        )

    @asynccontextmanager
    async def process(self, *, stuck_at: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a subscriber in a process of its own, which does not leave the body for one event."""
        arguments = (self.bootstrap, self.group_id, self.prefix, str(SESSION_S), stuck_at)
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, *arguments, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield started
        finally:
            if started.returncode is None:
                os.kill(started.pid, signal.SIGKILL)
            await started.wait()


@pytest.fixture
async def topic(broker: KafkaCluster | Broker, topic_prefix: str) -> OutcomeTopic:
    await ensure_topics(KafkaConnection(broker.bootstrap), [KB_EVENTS], prefix=topic_prefix)
    return OutcomeTopic(broker.bootstrap, topic_prefix)


async def read(subscriber: EventSubscriber, count: int) -> list[ReceivedEvent]:
    """Run the body for `count` events, and come back for the next one."""
    found: list[ReceivedEvent] = []
    async with asyncio.timeout(WITHIN_S), subscriber as events:
        async for event in events:
            if len(found) == count:
                break
            found.append(event)
    return found


async def test_an_event_in_whose_body_a_process_is_killed_comes_again_and_earlier_ones_do_not(
    topic: OutcomeTopic,
) -> None:
    await topic.publish("1", "2")
    async with asyncio.timeout(WITHIN_S), topic.process(stuck_at="3") as process:
        assert process.stdout is not None
        assert [await process.stdout.readline(), await process.stdout.readline()] == [b"1\n", b"2\n"]
        # The first two are acknowledged while nothing else comes.
        await until_acknowledged(topic, 2)
        await topic.publish("3")
        assert await process.stdout.readline() == b"3\n"
        process.kill()
    await topic.publish("4", "5")
    assert [event.event_id for event in await read(topic.subscriber(), 2)] == ["3", "4"]


async def until_acknowledged(topic: OutcomeTopic, count: int) -> None:
    client = consumer_client(KafkaConnection(topic.bootstrap), group_id=topic.group_id, enable_auto_commit=False)
    partitions = [TopicPartition(topic.prefix + KB_EVENTS.name, number) for number in range(KB_EVENTS.partitions)]
    await client.start()
    try:

        async def all_acknowledged() -> bool:
            return sum([await client.committed(partition) or 0 for partition in partitions]) == count

        await until(all_acknowledged, within_s=WITHIN_S)
    finally:
        await client.stop()


async def test_an_event_whose_body_fails_comes_again(topic: OutcomeTopic) -> None:
    await topic.publish("1", "2")

    async def fail_at_the_second() -> None:
        async with topic.subscriber() as events:
            async for event in events:
                if event.event_id == "2":
                    raise RuntimeError("the handler failed")

    with pytest.raises(RuntimeError, match="the handler failed"):
        await fail_at_the_second()
    await topic.publish("3")
    assert [event.event_id for event in await read(topic.subscriber(), 1)] == ["2"]


async def test_events_are_typed_and_those_of_other_organizations_and_of_later_versions_are_passed_over(
    topic: OutcomeTopic,
) -> None:
    await topic.publish("of another", organization_id="other")
    await topic.publish_raw(b"not an event")
    indexed = DocumentIndexed(organization_id="acme", kb_id=KB_ID, document_id="d", revision=1, chunk_count=3)
    await topic.publish_raw(encode(indexed, source="/tests", event_id="1"))
    created = KnowledgeBaseCreated(organization_id="acme", kb_id=KB_ID)
    await topic.publish_raw(encode(created, source="/tests", event_id="2"))
    (event,) = await read(topic.subscriber(organization_id="acme"), 1)
    assert event.outcome == indexed


async def test_bytes_that_can_not_be_read_are_passed_over_once_and_the_events_behind_them_come(
    topic: OutcomeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic.prefix + KB_EVENTS.name
    async with raw_producer(KafkaConnection(topic.bootstrap)) as raw:
        for partition in range(KB_EVENTS.partitions):
            await raw.write(name, partition, build_batch([Rec(headers=[("traceparent", None)])], codec="lz4"))
            await raw.write(name, partition, set_codec(build_batch([Rec()] * 3), 4))
            await raw.write(name, partition, flip(build_batch([Rec()] * 3), CRC_AT))
    await topic.publish("1", "2")
    assert [event.event_id for event in await read(topic.subscriber(), 1)] == ["1"]
    messages = [each.message for each in caplog.records if each.name == "kb_client"]
    passed_over = [message for message in messages if "can't be read and are passed over" in message]
    # Apache Kafka refuses them.
    assert ON_KAFKA or len(passed_over) == KB_EVENTS.partitions * 2
    # One and twice three records in each partition, and an event in one of them.
    assert ON_KAFKA or await topic.committed() == {7, 8}
    caplog.clear()
    await topic.publish("3")
    assert [event.event_id for event in await read(topic.subscriber(), 1)] == ["2"]
    assert not [each for each in caplog.records if "can't be read" in each.message]
