from kb_shared.kafka.group_watch import OWNERLESS_FOR_S, PartitionOwners
from kb_shared.kafka.record import TopicPartition

ZERO, ONE = TopicPartition("events", 0), TopicPartition("events", 1)


def test_a_partition_without_an_owner_is_a_reason_after_a_minute_and_no_more_once_it_has_one() -> None:
    owners = PartitionOwners()
    owners.update([ZERO, ONE], [ZERO], now=0)
    assert owners.why_not_ready(now=OWNERLESS_FOR_S - 1) is None
    owners.update([ZERO, ONE], [ZERO], now=OWNERLESS_FOR_S)
    assert "partition 1 of 'events' had no consumer" in str(owners.why_not_ready(now=OWNERLESS_FOR_S))
    owners.update([ZERO, ONE], [ZERO, ONE], now=OWNERLESS_FOR_S + 1)
    assert owners.why_not_ready(now=10 * OWNERLESS_FOR_S) is None


def test_a_rebalance_counts_as_time_without_an_owner() -> None:
    owners = PartitionOwners()
    for now in range(0, int(OWNERLESS_FOR_S) + 10, 10):
        owners.update([ZERO, ONE], [], now=now)
    assert "and 1 more" in str(owners.why_not_ready(now=OWNERLESS_FOR_S))


def test_a_partition_that_is_gone_needs_no_owner() -> None:
    owners = PartitionOwners()
    owners.update([ZERO, ONE], [ZERO], now=0)
    owners.update([ZERO], [ZERO], now=OWNERLESS_FOR_S)
    assert owners.why_not_ready(now=10 * OWNERLESS_FOR_S) is None
