import time

import pytest

from kb_shared.kafka.consumer import Consumer, create_membership_check
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.unit.kafka.fakes import TOPIC, FakeDeadLetters, FakeHandler


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
