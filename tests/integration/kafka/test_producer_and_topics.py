import asyncio
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from kb_contracts.topics import TOPICS, Topic
from kb_local.broker import Broker
from kb_local.ports import free_port
from kb_shared.errors import PermanentError, TransientError
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.record import Record
from kb_shared.kafka.topic_checks import TopicsUnfit
from kb_shared.kafka.topics import check_topics, ensure_topics
from kb_shared.kafka_connection.connection import Compression, KafkaConnection
from tests.conftest import KafkaCluster
from tests.integration.kafka.support import BRIEF_SESSION, Letters, Recorder, Stream, running
from tests.waiting import until

type_of_broker = KafkaCluster | Broker


def topic(name: str, partitions: int = 2) -> Topic:
    return Topic(name, partitions=partitions, retention=timedelta(hours=1))


async def test_topics_are_created_once_however_often_they_are_asked_for(
    broker: type_of_broker, topic_prefix: str
) -> None:
    await asyncio.gather(
        *(ensure_topics(KafkaConnection(broker.bootstrap), TOPICS, prefix=topic_prefix) for _ in range(3))
    )
    await check_topics(KafkaConnection(broker.bootstrap), TOPICS, prefix=topic_prefix)


async def test_a_topic_with_another_number_of_partitions_is_refused_by_name(
    broker: type_of_broker, topic_prefix: str
) -> None:
    await ensure_topics(KafkaConnection(broker.bootstrap), [topic("jobs", 2)], prefix=topic_prefix)
    with pytest.raises(TopicsUnfit, match=f"'{topic_prefix}jobs' has 2 partitions instead of 3"):
        await ensure_topics(KafkaConnection(broker.bootstrap), [topic("jobs", 3), topic("others")], prefix=topic_prefix)


async def test_checking_names_what_is_missing_and_does_not_create_it(broker: type_of_broker, topic_prefix: str) -> None:
    for _ in range(2):
        with pytest.raises(TopicsUnfit, match=f"'{topic_prefix}nowhere' is missing"):
            await check_topics(KafkaConnection(broker.bootstrap), [topic("nowhere")], prefix=topic_prefix)


async def test_without_a_broker_topics_and_producer_say_so_at_once() -> None:
    no_broker = KafkaConnection(f"127.0.0.1:{free_port()}")
    with pytest.raises(TransientError, match="does not answer"):
        await check_topics(no_broker, [topic("jobs")])
    with pytest.raises(TransientError):
        await Producer(no_broker, idempotence=False).start()


async def test_messages_arrive_in_the_order_sent_with_headers_tombstones_and_any_bytes(stream: Stream) -> None:
    got: list[Record] = []

    class CollectingRecorder(Recorder):
        async def handle(self, record: Record) -> None:
            got.append(record)

    async with Producer(stream.connection, idempotence=stream.on_kafka) as producer:
        await producer.send_all([ProducerMessage(stream.topic, b"a/1", str(n).encode()) for n in range(200)])
        await producer.send(stream.topic, b"a/1", value=None, headers={"content-type": "text/plain", "who": "Zoë"})
        headers = [("x", b"\xfe"), ("x", None), ("traceparent", None)]
        await producer.send(stream.topic, b"a/1", value=b"\xff\x00", headers=headers)
    async with running(stream.consumer(CollectingRecorder(), Letters())):
        await until(lambda: len(got) == 202)
    assert [record.value for record in got[:200]] == [str(n).encode() for n in range(200)]
    assert got[200].value is None
    assert got[200].headers == (("content-type", b"text/plain"), ("who", "Zoë".encode()))
    assert got[201].value == b"\xff\x00"
    assert got[201].headers == (("x", b"\xfe"), ("x", None), ("traceparent", None))


async def test_a_message_with_neither_key_nor_value_arrives_as_it_is(stream: Stream) -> None:
    got: list[tuple[bytes | None, bytes | None]] = []

    class CollectingRecorder(Recorder):
        async def handle(self, record: Record) -> None:
            got.append((record.key, record.value))

    async with Producer(stream.connection, idempotence=stream.on_kafka) as producer:
        for key, value in ((None, None), (None, b""), (b"", None), (b"", b"")):
            await producer.send(stream.topic, key, value=value, headers={"x-reason": "no-value"})
    async with running(stream.consumer(CollectingRecorder(), Letters(), **BRIEF_SESSION)):
        await until(lambda: len(got) == 4)
    assert set(got) == {(None, None), (None, b""), (b"", None), (b"", b"")}


async def test_what_the_client_library_can_not_send_is_refused_and_the_next_message_is_sent(stream: Stream) -> None:
    async with Producer(stream.connection, idempotence=stream.on_kafka) as producer:
        with pytest.raises(PermanentError):
            await producer.send(stream.topic, b"k", value="no bytes")  # type: ignore[arg-type]  # as a bug would
        await producer.send(stream.topic, b"k", value=b"bytes")


async def test_messages_are_compressed_with_the_codec_that_was_set_and_all_codecs_are_read(stream: Stream) -> None:
    handler = Recorder()
    text = "the same words again and again " * 20
    for codec in get_args(Compression):
        async with Producer(stream.connection, idempotence=stream.on_kafka, compression=codec) as producer:
            await producer.send(stream.topic, b"a/1", value=f"{codec}: {text}".encode())
    async with running(stream.consumer(handler, Letters(), **BRIEF_SESSION)):
        await until(lambda: len(handler.handled) == len(get_args(Compression)))
    assert handler.handled == [f"{codec}: {text}" for codec in get_args(Compression)]


async def test_a_message_that_no_broker_acknowledged_was_not_sent(tmp_path: Path) -> None:
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    await ensure_topics(KafkaConnection(broker.bootstrap), [topic("jobs")])
    async with Producer(KafkaConnection(broker.bootstrap), idempotence=False, request_timeout_ms=500) as producer:
        await until(lambda: _is_sent(producer), what="a message that was sent")
        await broker.pause()
        with pytest.raises(TransientError, match="did not take"):
            await producer.send("jobs", b"k", value=b"secret")
        broker.resume()
    await broker.stop()


async def _is_sent(producer: Producer) -> bool:
    try:
        await producer.send("jobs", b"k", value=b"v")
    except TransientError:
        # The machine was busier than this producer has patience.
        return False
    return True


async def test_a_message_that_is_too_large_is_refused_for_good_without_quoting_it(stream: Stream) -> None:
    async with Producer(stream.connection, idempotence=stream.on_kafka, max_request_bytes=1000) as producer:
        with pytest.raises(PermanentError) as refusal:
            await producer.send(stream.topic, b"k", value=b"secret" * 1000)
        assert "secret" not in str(refusal.value)
        await producer.send(stream.topic, b"k", value=b"small")


async def test_messages_before_and_after_a_refused_one_are_delivered(stream: Stream) -> None:
    handler = Recorder()
    async with Producer(stream.connection, idempotence=stream.on_kafka, max_request_bytes=1000) as producer:
        messages = [ProducerMessage(stream.topic, b"a/1", value) for value in (b"before", b"x" * 2000, b"after")]
        with pytest.raises(PermanentError):
            await producer.send_all(messages)
    async with running(stream.consumer(handler, Letters(), **BRIEF_SESSION)):
        await until(lambda: handler.handled == ["before", "after"])
