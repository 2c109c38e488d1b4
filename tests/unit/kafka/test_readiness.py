import asyncio
import time

import pytest
from prometheus_client import REGISTRY

from kb_shared.kafka.consumer import Consumer, create_membership_check
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.unit.kafka.fakes import TOPIC, FakeDeadLetters, FakeHandler
from tests.waiting import until


def consumer_that_polled(monkeypatch: pytest.MonkeyPatch, *, seconds_ago: float | None) -> Consumer:
    polled_at = None if seconds_ago is None else time.monotonic() - seconds_ago
    monkeypatch.setattr(Consumer, "polled_at", property(lambda _: polled_at))
    return Consumer(
        FakeHandler(), FakeDeadLetters(), topics=[TOPIC], group_id="group", connection=KafkaConnection("no-broker:1")
    )


@pytest.mark.parametrize(
    ("seconds_ago", "reason"), [(None, "does not read"), (30, None), (61, "has not read")], ids=["never", "30", "61"]
)
async def test_the_first_probe_after_a_long_time_finds_a_member_that_rebalances_ready(
    monkeypatch: pytest.MonkeyPatch, seconds_ago: float | None, reason: str | None
) -> None:
    fault = await create_membership_check(consumer_that_polled(monkeypatch, seconds_ago=seconds_ago))()
    assert fault is None if reason is None else reason in str(fault)


async def test_a_consumer_that_can_not_read_a_codec_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    fault = await create_membership_check(consumer_that_polled(monkeypatch, seconds_ago=1))()
    assert fault is not None
    assert "records compressed with snappy, lz4, zstd" in fault


async def test_a_consumer_that_never_joined_its_group_has_an_age_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def age_s() -> float | None:
        return REGISTRY.get_sample_value("kb_consumer_last_poll_age_seconds", {"group": "group"})

    consumer = consumer_that_polled(monkeypatch, seconds_ago=None)
    stop = asyncio.Event()
    running = asyncio.create_task(consumer.run(stop))
    await until(lambda: age_s() is not None)
    first = age_s()
    assert first is not None
    await until(lambda: (age_s() or 0) > first + 0.05)
    stop.set()
    await running
    assert age_s() is None, "it does not consume any more"
