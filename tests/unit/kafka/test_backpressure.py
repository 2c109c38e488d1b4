from collections.abc import Mapping

from kb_shared.kafka.backpressure import Backpressure, Gate
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.scheduling import Lane

LIVE_0 = TopicPartition("live", 0)
LIVE_1 = TopicPartition("live", 1)
BULK_0 = TopicPartition("bulk", 0)
PARTITIONS = {LIVE_0: Lane.LIVE, LIVE_1: Lane.LIVE, BULK_0: Lane.BULK}


def find_partitions_to_pause(
    backpressure: Backpressure,
    *,
    live: int = 0,
    bulk: int = 0,
    windows: Mapping[TopicPartition, int] | None = None,
    held: int = 0,
) -> frozenset[TopicPartition]:
    return backpressure.find_partitions_to_pause(
        PARTITIONS, active={Lane.LIVE: live, Lane.BULK: bulk}, replay_windows=windows or {}, held_bytes=held
    )


def new_backpressure() -> Backpressure:
    return Backpressure(max_in_flight=16, max_replay=500, max_held_bytes=1000)


def test_a_gate_closes_at_its_high_mark_and_opens_at_its_low_one() -> None:
    gate = Gate(high=64, low=16)
    assert [gate.update(level) for level in (63, 64, 40, 17, 16, 40, 63, 80)] == [
        False, True, True, True, False, False, False, True,
    ]  # fmt: skip


def test_a_full_lane_holds_back_its_own_topics_only() -> None:
    backpressure = new_backpressure()
    assert find_partitions_to_pause(backpressure, bulk=64) == {BULK_0}
    assert find_partitions_to_pause(backpressure, live=64, bulk=17) == {LIVE_0, LIVE_1, BULK_0}
    assert find_partitions_to_pause(backpressure, live=17, bulk=16) == {LIVE_0, LIVE_1}


def test_a_partition_whose_oldest_record_does_not_end_is_held_back_alone() -> None:
    backpressure = new_backpressure()
    assert find_partitions_to_pause(backpressure, windows={LIVE_1: 500}) == {LIVE_1}
    assert find_partitions_to_pause(backpressure, windows={LIVE_1: 401}) == {LIVE_1}
    assert find_partitions_to_pause(backpressure, windows={LIVE_1: 400}) == frozenset()


def test_too_many_bytes_hold_everything_back() -> None:
    backpressure = new_backpressure()
    assert find_partitions_to_pause(backpressure, held=1000) == PARTITIONS.keys()
    assert find_partitions_to_pause(backpressure, held=501) == PARTITIONS.keys()
    assert find_partitions_to_pause(backpressure, held=500) == frozenset()


def test_a_partition_passes_its_mark_while_its_lane_is_closed() -> None:
    backpressure = new_backpressure()
    assert find_partitions_to_pause(backpressure, live=64, windows={LIVE_0: 500}) == {LIVE_0, LIVE_1}
    assert find_partitions_to_pause(backpressure, live=16, windows={LIVE_0: 450}) == {LIVE_0}
