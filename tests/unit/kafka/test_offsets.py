import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.kafka.offsets import OffsetLedger, OffsetTracker
from kb_shared.kafka.record import TopicPartition

PARTITION = TopicPartition("events", 3)

gaps = st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=40)


@given(start=st.integers(0, 1000), gaps=gaps, choices=st.data())
def test_the_committed_offset_never_passes_an_unfinished_record_and_loses_no_finished_one(
    start: int, gaps: list[int], choices: st.DataObject
) -> None:
    offsets = [start]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    tracker = OffsetTracker(start)
    unfinished: set[int] = set()
    begun = 0
    previous = start
    while begun < len(offsets) or unfinished:
        begin = begun < len(offsets) and (not unfinished or choices.draw(st.booleans()))
        if begin:
            tracker.begin(offsets[begun])
            unfinished.add(offsets[begun])
            begun += 1
        else:
            offset = choices.draw(st.sampled_from(sorted(unfinished)))
            tracker.finish(offset)
            unfinished.remove(offset)
        assert tracker.safe == (min(unfinished) if unfinished else offsets[begun - 1] + 1)
        assert tracker.safe >= previous
        assert tracker.replay_window == offsets[begun - 1] + 1 - tracker.safe
        previous = tracker.safe


def test_finishing_twice_changes_nothing() -> None:
    tracker = OffsetTracker(0)
    tracker.begin(0)
    tracker.begin(1)
    tracker.finish(0)
    assert tracker.safe == 1
    tracker.finish(0)
    tracker.finish(0)
    assert tracker.safe == 1


def test_a_tracker_refuses_an_offset_that_does_not_rise() -> None:
    tracker = OffsetTracker(5)
    tracker.begin(5)
    with pytest.raises(ValueError, match="offset 5"):
        tracker.begin(5)


def test_there_is_nothing_to_commit_before_something_is_finished() -> None:
    ledger = OffsetLedger()
    tracker = ledger.begin(PARTITION, 17)
    ledger.begin(PARTITION, 18)
    assert ledger.committable() == {}
    tracker.finish(17)
    assert ledger.committable() == {PARTITION: 18}


def test_an_offset_is_committed_once() -> None:
    ledger = OffsetLedger()
    ledger.begin(PARTITION, 0).finish(0)
    ledger.mark_committed(ledger.committable())
    assert ledger.committable() == {}
    assert ledger.committed(PARTITION) == 1


def test_a_log_that_starts_again_from_zero_is_counted_again() -> None:
    ledger = OffsetLedger()
    old = ledger.begin(PARTITION, 500)
    ledger.mark_committed({PARTITION: 500})
    new = ledger.begin(PARTITION, 0)
    ledger.begin(PARTITION, 1)
    new.finish(0)
    assert ledger.committable() == {PARTITION: 1}
    assert ledger.replay_windows() == {PARTITION: 1}
    old.finish(500)
    assert ledger.committable() == {PARTITION: 1}


def test_an_old_record_that_ends_late_does_not_finish_the_new_one_with_its_offset() -> None:
    ledger = OffsetLedger()
    old = ledger.begin(PARTITION, 7)
    ledger.begin(PARTITION, 8)
    ledger.begin(PARTITION, 7)
    old.finish(7)
    assert ledger.committable() == {}
