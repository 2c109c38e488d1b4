"""What a consumer of real Kafka must survive: deleted records and topics, aborted transactions, freezes, rebalances."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as ClientTopicPartition
from confluent_kafka import TopicPartition
from structlog.testing import capture_logs

from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.observability.metrics import CONSUMER_SKIPPED_RECORDS
from tests.integration.kafka.support import EVENTS, Letters, Recorder, Stream, running
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

OPTIONS = {"session_timeout_ms": 6_000, "leave_group": True}


@pytest.fixture
async def stream(brokers: KafkaBrokers) -> Stream:
    stream = Stream(brokers.bootstrap(), f"test-{uuid4().hex[:16]}.")
    await stream.create()
    await brokers.until_in_sync()
    return stream


def make_records(word: str, count: int) -> list[tuple[str, str]]:
    return [(f"a/{n}", f"{word} {n}") for n in range(count)]


async def delete_records(brokers: KafkaBrokers, stream: Stream) -> None:
    """Delete all that there is, as retention does."""
    partitions = [TopicPartition(stream.topic, n, -1) for n in range(EVENTS.partitions)]
    for future in brokers.admin.delete_records(partitions).values():
        await asyncio.wrap_future(future)


def skipped(stream: Stream) -> float:
    return float(CONSUMER_SKIPPED_RECORDS.labels(topic=stream.topic, group=stream.group)._value.get())


async def test_events_that_were_deleted_before_they_were_read_are_counted_and_logged(
    brokers: KafkaBrokers, stream: Stream
) -> None:
    await stream.publish(make_records("before", 20))
    first, second = Recorder(), Recorder()
    async with running(stream.consumer(first, Letters(), **OPTIONS)):
        await until(lambda: len(first.handled) == 20)
    assert await stream.committed() == 20
    await stream.publish(make_records("lost", 80))
    await delete_records(brokers, stream)
    await stream.publish(make_records("after", 10))
    with capture_logs() as logs:
        async with running(stream.consumer(second, Letters(), **OPTIONS)):
            await until(lambda: len(second.handled) == 10)
            await stream.until_committed(110)
    ranges = [line for line in logs if line["event"] == "records.skipped"]
    assert skipped(stream) == sum(line["last_offset"] - line["first_offset"] + 1 for line in ranges) == 80
    assert all(value.startswith("after") for value in second.handled)


async def test_events_deleted_while_the_consumer_lags_behind_are_counted_and_it_goes_on(
    brokers: KafkaBrokers, stream: Stream
) -> None:
    gate = asyncio.Event()

    class Slow(Recorder):
        async def effect(self, value: str) -> None:
            await gate.wait()

    handler = Slow()
    consumer = stream.consumer(handler, Letters(), max_in_flight=2, **OPTIONS)
    async with running(consumer):
        await stream.publish(make_records("before", 4_000))
        await until(lambda: bool(handler.tried))
        session = consumer._session
        assert session is not None
        await until(lambda: len(session._client.paused()) == EVENTS.partitions)
        await delete_records(brokers, stream)
        await stream.publish(make_records("after", 10))
        gate.set()
        await until(lambda: sum(value.startswith("after") for value in handler.handled) == 10)
        await stream.until_committed(4_010)
    assert skipped(stream) == 4_000 - sum(value.startswith("before") for value in set(handler.handled))


async def test_records_of_an_aborted_transaction_are_not_handled_and_its_markers_are_no_lag(stream: Stream) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=stream.bootstrap, transactional_id=stream.prefix, acks="all")
    await producer.start()
    for word, commit in (("kept", True), ("aborted", False), ("kept too", True)):
        await producer.begin_transaction()
        for key, value in make_records(word, 8):
            await producer.send_and_wait(stream.topic, value.encode(), key=key.encode())
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    await producer.stop()
    handler = Recorder()
    consumer = stream.consumer(handler, Letters(), position_check_interval_s=0.2, **OPTIONS)
    async with running(consumer):
        await until(lambda: len(handler.handled) >= 16)
        await until(lambda: bool(consumer.lag()) and sum(consumer.lag().values()) == 0)
    assert not any(value.startswith("aborted") for value in handler.handled)
    assert skipped(stream) == 0


async def test_a_topic_that_is_made_again_and_longer_than_before_loses_nothing(
    brokers: KafkaBrokers, stream: Stream
) -> None:
    await stream.publish(make_records("before", 20))
    handler, after = Recorder(), make_records("after", 80)
    async with running(stream.consumer(handler, Letters(), **OPTIONS)):
        await until(lambda: len(handler.handled) == 20)
        await stream.until_committed(20)
        await recreate_topic(brokers, stream, after)
        await until(lambda: {value for _, value in after} <= set(handler.handled))
        await stream.until_committed(80)


async def test_offsets_of_the_old_topic_that_are_committed_again_for_the_new_one_lose_nothing(
    brokers: KafkaBrokers, stream: Stream
) -> None:
    await stream.publish(make_records("before", 20))
    before, handler, after = Recorder(), Recorder(), make_records("after", 80)
    async with running(stream.consumer(before, Letters(), **OPTIONS)):
        await until(lambda: len(before.handled) == 20)
    # The broker forgets the offsets of a topic that goes; a member that did not notice commits its own again.
    late = consumer_client(stream.connection, group_id=stream.group, enable_auto_commit=False)
    await late.start()
    partitions = [ClientTopicPartition(stream.topic, n) for n in range(EVENTS.partitions)]
    committed = await late._coordinator.fetch_committed_offsets(partitions)
    await recreate_topic(brokers, stream, after)
    late.assign(partitions)
    await late.commit({each: (offset.offset, offset.metadata) for each, offset in committed.items()})
    await late.stop()
    async with running(stream.consumer(handler, Letters(), **OPTIONS)):
        await until(lambda: {value for _, value in after} == set(handler.handled))
        await stream.until_committed(80)


async def recreate_topic(brokers: KafkaBrokers, stream: Stream, messages: list[tuple[str, str]]) -> None:
    await brokers.delete_topics([stream.topic])
    await stream.create()
    await stream.publish(messages)


async def test_work_goes_on_within_30_s_after_a_topic_that_was_deleted_is_back(
    brokers: KafkaBrokers, stream: Stream
) -> None:
    await stream.publish(make_records("before", 20))
    handler = Recorder()
    async with running(stream.consumer(handler, Letters(), **OPTIONS)):
        await until(lambda: len(handler.handled) == 20)
        with capture_logs() as logs:
            await brokers.delete_topics([stream.topic])
            await until(lambda: any(line.get("partitions") == 0 for line in logs), what="an empty assignment")
            await stream.create()
            await stream.publish(make_records("after", 40))
            await until(lambda: sum(value.startswith("after") for value in set(handler.handled)) == 40, within_s=30)
    causes = Counter(line["event"] for line in logs if line["log_level"] in ("warning", "error"))
    assert max(causes.values(), default=0) <= 2, causes


@asynccontextmanager
async def worker(stream: Stream, folder: Path) -> AsyncIterator[Process]:
    """A consumer in a process of its own, which notes its work in `journal` and logs into `log`."""
    program = Path(__file__).parents[1] / "integration" / "kafka" / "worker.py"
    arguments = [stream.bootstrap, stream.topic, stream.group, str(folder / "journal"), "kafka"]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(sys.executable, str(program), *arguments, stderr=log)
    yield process
    process.send_signal(signal.SIGCONT)
    process.kill()
    await process.wait()


def noted(folder: Path) -> list[str]:
    return (folder / "journal").read_text().splitlines() if (folder / "journal").exists() else []


async def test_a_process_whose_topic_disappears_writes_each_line_once_a_minute(
    brokers: KafkaBrokers, stream: Stream, tmp_path: Path
) -> None:
    await stream.publish([(f"a/{n}", "1") for n in range(20)])
    async with worker(stream, tmp_path) as process:
        await until(lambda: len(noted(tmp_path)) == 20)
        await brokers.delete_topics([stream.topic])
        await until(lambda: '"partitions": 0' in (tmp_path / "log").read_text(), what="an empty assignment")
        await stream.create()
        await stream.publish([(f"b/{n}", "1") for n in range(20)])
        await until(lambda: sum('"b/' in line for line in noted(tmp_path)) >= 20, within_s=30)
        assert process.returncode is None
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    causes = Counter(line["event"] for line in lines if line["level"] in ("warning", "error"))
    assert max(causes.values(), default=0) <= 2, causes


async def test_a_process_frozen_longer_than_its_session_takes_no_offset_back(stream: Stream, tmp_path: Path) -> None:
    await stream.publish([(f"a/{n}", "1") for n in range(400)])
    async with worker(stream, tmp_path) as frozen:
        await until(lambda: len(noted(tmp_path)) >= 40)
        frozen.send_signal(signal.SIGSTOP)
        handler = Recorder()
        # It reads all that is left and goes: the group is empty when the frozen one wakes up.
        async with running(stream.consumer(handler, Letters(), **OPTIONS)):
            await stream.until_committed(400)
        assert handler.handled
        frozen.send_signal(signal.SIGCONT)
        committed = []
        for _ in range(20):
            committed.append(await stream.committed())
            await asyncio.sleep(0.25)  # no event announces what must not happen
        assert set(committed) == {400}
        await stream.publish([("b/1", "1")])
        await until(lambda: '"b/1"' in noted(tmp_path)[-1])
        await stream.until_committed(401)
