import pytest

from kb_local.broker import Broker
from kb_local.ports import free_port
from kb_shared.kafka import group_watch
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.kafka.topics import check_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.conftest import KafkaCluster
from tests.integration.kafka.support import BRIEF_SESSION, EVENTS, Letters, Recorder, Stream, running
from tests.integration.kafka.test_replaced_topics import delete_topic
from tests.waiting import until


def watch(stream: Stream) -> KafkaWatch:
    return KafkaWatch(
        stream.connection,
        check_topics=lambda: check_topics(stream.connection, [EVENTS], prefix=stream.prefix),
        groups={stream.group: [stream.topic]},
    )


async def test_partitions_without_a_consumer_are_a_reason_until_a_consumer_has_them(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "OWNERLESS_FOR_S", 0.0)
    watched = watch(stream)
    await watched.check()
    assert "had no consumer" in str(await watched.why_not_ready())
    async with running(stream.consumer(Recorder(), Letters(), **BRIEF_SESSION)):

        async def nothing_is_wrong() -> bool:
            await watched.check()
            return await watched.why_not_ready() is None

        await until(nothing_is_wrong, every_s=0.1)
    await watched._disconnect()


async def test_a_topic_that_is_missing_is_named_until_it_is_there(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "TOPICS_INTERVAL_S", 0.0)
    watched = watch(stream)
    await watched.check()
    assert await watched.why_not_ready() is None
    await delete_topic(stream)
    await watched.check()
    assert stream.topic in str(await watched.why_not_ready())
    await stream.create()
    await watched.check()
    assert await watched.why_not_ready() is None
    await watched._disconnect()


async def test_a_broker_that_does_not_answer_is_a_reason(broker: KafkaCluster | Broker) -> None:
    no_broker = KafkaConnection(f"127.0.0.1:{free_port()}")
    watched = KafkaWatch(no_broker, check_topics=lambda: check_topics(no_broker, [EVENTS]), groups={})
    assert await watched.why_not_ready() == "Kafka has not answered yet"
    await watched.check()
    assert "does not answer" in str(await watched.why_not_ready())
