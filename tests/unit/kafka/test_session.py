import asyncio
from dataclasses import replace
from uuid import UUID

import pytest
from aiokafka.errors import KafkaError

from kb_local.ports import free_port
from kb_shared.kafka import consumer as consumers
from kb_shared.kafka import session as sessions
from kb_shared.kafka.partition_assignment import RecordWork
from kb_shared.kafka.positions import accept_loss
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.scheduling import Lane
from kb_shared.kafka.session import ConsumerGroupConfig, ConsumerSession
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.kafka_connection.fetched_batches import UnreadableRecords
from tests.unit.kafka.fakes import TOPIC, FakeBroker, FakeDeadLetters, FakeHandler, record

ZERO = TopicPartition(TOPIC, 0)


@pytest.fixture
async def session() -> ConsumerSession:
    config = ConsumerGroupConfig(
        topics={TOPIC: Lane.LIVE},
        group_id="group",
        connection=KafkaConnection(f"127.0.0.1:{free_port()}"),
        session_timeout_ms=6_000,
        rebalance_timeout_ms=10_000,
        fetch_max_wait_ms=50,
        leave_group=True,
        unreadable_tries=3,
        position_check_interval_s=5.0,
        on_lost=accept_loss,
    )
    work = RecordWork(
        FakeHandler(), FakeDeadLetters(), max_in_flight=4, per_group=3, max_replay=10, max_held_bytes=1000
    )
    return ConsumerSession(config, work, topic_ids={})


@pytest.fixture
def stop() -> asyncio.Event:
    stop = asyncio.Event()
    stop.set()
    return stop


async def test_partitions_that_come_while_a_session_ends_are_not_begun(
    session: ConsumerSession, stop: asyncio.Event
) -> None:
    await session.run(stop)
    await session.on_partitions_assigned([TopicPartition(TOPIC, 0)])
    assert not session.was_assigned


async def test_a_client_that_can_not_be_stopped_ends_its_session_and_not_the_process(
    session: ConsumerSession, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections wait for what was cancelled when it did not stop in time."""
    network = session._client._client
    connection: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_for_the_connection() -> None:
        await asyncio.gather(connection)

    monkeypatch.setattr(sessions, "LEAVE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(session._client, "stop", wait_for_the_connection)
    monkeypatch.setattr(network, "close", wait_for_the_connection)
    await session.run(stop)
    assert connection.cancelled()
    monkeypatch.undo()
    await session._client.stop()


async def test_reading_goes_on_behind_bytes_that_can_not_be_read_whatever_is_paused_before_the_next_poll(
    session: ConsumerSession, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions: list[int] = []

    async def find_nothing(_: object) -> None:
        pass

    monkeypatch.setattr(session, "_find_positions", find_nothing)
    monkeypatch.setattr(session._commits, "commit", FakeBroker().commit)
    monkeypatch.setattr(session._client, "pause", lambda _: None)
    monkeypatch.setattr(session._client, "seek", lambda _, offset: positions.append(offset))
    await session.on_partitions_assigned([ZERO])
    positions.clear()
    unreadable = replace(record(1), unreadable=UnreadableRecords("", last_offset=10))
    session._admit(ZERO, [record(0), unreadable, record(11)])
    assert positions == [], "the client library goes on behind the last record itself"
    session._admit(ZERO, [record(12), replace(unreadable, offset=13, unreadable=UnreadableRecords("", last_offset=20))])
    assert positions == [21]
    await session.run(stop)


async def test_the_ids_of_topics_outlive_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, seen = asyncio.Event(), list[int]()

    class BrokenSession:
        was_assigned, polled_at = True, None

        def __init__(self, *_: object, topic_ids: dict[str, UUID]) -> None:
            seen.append(len(topic_ids))
            topic_ids[TOPIC] = UUID(int=1)

        async def run(self, stop: asyncio.Event) -> None:
            if len(seen) > 1:
                stop.set()
            raise KafkaError

    monkeypatch.setattr(consumers, "ConsumerSession", BrokenSession)
    monkeypatch.setattr(consumers, "pause_s", lambda _: 0)
    consumer = consumers.Consumer(
        FakeHandler(), FakeDeadLetters(), topics=[TOPIC], group_id="group", connection=KafkaConnection("no-broker:1")
    )
    await consumer.run(stop)
    assert seen == [0, 1]
