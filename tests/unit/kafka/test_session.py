import asyncio

from kb_local.ports import free_port
from kb_shared.kafka.positions import accept_loss
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.scheduling import Lane
from kb_shared.kafka.session import Membership, Session
from kb_shared.kafka.tenure import Work
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.unit.kafka.fakes import TOPIC, FakeDeadLetters, FakeHandler


async def test_partitions_that_come_while_a_session_ends_are_not_begun() -> None:
    membership = Membership(
        topics={TOPIC: Lane.LIVE},
        group_id="group",
        connection=KafkaConnection(f"127.0.0.1:{free_port()}"),
        session_timeout_ms=6_000,
        rebalance_timeout_ms=10_000,
        fetch_max_wait_ms=50,
        leave_group=True,
        survey_interval_s=5.0,
        on_lost=accept_loss,
    )
    work = Work(FakeHandler(), FakeDeadLetters(), max_in_flight=4, per_group=3, max_replay=10, max_held_bytes=1000)
    session, stop = Session(membership, work), asyncio.Event()
    stop.set()
    await session.run(stop)
    await session.on_partitions_assigned([TopicPartition(TOPIC, 0)])
    assert not session.was_assigned
