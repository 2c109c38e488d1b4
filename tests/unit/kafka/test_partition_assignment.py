import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
import structlog

from kb_contracts.errors import Rejected
from kb_shared.errors import TransientError
from kb_shared.kafka import partition_assignment, retries
from kb_shared.kafka.partition_assignment import PartitionAssignment, RecordWork
from kb_shared.kafka.record import OrderingKey, Record, TopicPartition
from kb_shared.kafka.scheduling import ONE_AT_A_TIME, BundleLimits, Lane
from kb_shared.kafka_connection.fetched_batches import UnreadableRecords
from tests.unit.kafka.fakes import TOPIC, FakeBroker, FakeDeadLetters, FakeHandler, record
from tests.waiting import until

ZERO = TopicPartition(TOPIC, 0)
ONE = TopicPartition(TOPIC, 1)


class Setting:
    """One assignment with everything around it."""

    def __init__(self, handler: FakeHandler, *, max_replay: int = 10, bundles: BundleLimits = ONE_AT_A_TIME) -> None:
        self.handler = handler
        self.dead_letters = FakeDeadLetters()
        self.broker = FakeBroker()
        self.failures: list[BaseException] = []
        self.progress = 0
        self.assignment = PartitionAssignment(
            RecordWork(
                handler,
                self.dead_letters,
                max_in_flight=4,
                per_group=3,
                max_replay=max_replay,
                max_held_bytes=100_000,
                bundles=bundles,
            ),
            {ZERO: Lane.LIVE, ONE: Lane.LIVE},
            commit=self.broker.commit,
            on_progress=self.note_progress,
            on_failure=self.failures.append,
        )

    def note_progress(self) -> None:
        self.progress += 1


class OpenAssignment(Protocol):
    def __call__(
        self, handler: FakeHandler, *, max_replay: int = 10, bundles: BundleLimits = ONE_AT_A_TIME
    ) -> Setting: ...


@pytest.fixture
async def open_assignment(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAssignment]:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.004)
    opened: list[Setting] = []

    def build(handler: FakeHandler, **options: Any) -> Setting:
        opened.append(Setting(handler, **options))
        return opened[-1]

    yield build
    for setting in opened:
        await setting.assignment.close(drain_s=0)
        assert setting.failures == []


async def test_records_of_one_ordering_key_run_one_after_the_other_in_order(open_assignment: OpenAssignment) -> None:
    running: dict[str, int] = defaultdict(int)

    async def effect(entry: Record) -> None:
        assert entry.key is not None
        running[entry.key.decode()] += 1
        assert running[entry.key.decode()] == 1
        # The earlier the record, the longer it takes: without order, later ones would end first.
        await asyncio.sleep(0.01 / (entry.offset + 1))
        running[entry.key.decode()] -= 1

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n, "a/1" if n % 2 else "b/1") for n in range(20))
    await until(lambda: len(setting.handler.handled) == 20)
    assert [n for n in setting.handler.handled if n % 2] == list(range(1, 20, 2))
    assert [n for n in setting.handler.handled if not n % 2] == list(range(0, 20, 2))


async def test_a_failing_ordering_key_stops_no_other_is_tried_again_and_is_not_committed_past(
    open_assignment: OpenAssignment,
) -> None:
    fixed = asyncio.Event()

    async def effect(entry: Record) -> None:
        if entry.key == b"a/1" and not fixed.is_set():
            raise TransientError("not now")

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(
        [record(0, "b/1"), *(record(n, "a/1") for n in (1, 2)), *(record(n, "c/1") for n in (3, 4))]
    )
    await until(lambda: set(setting.handler.handled) == {0, 3, 4} and setting.handler.tried.count(1) > 3)
    await until(lambda: setting.broker.committed == {ZERO: 1})
    assert 2 not in setting.handler.tried
    fixed.set()
    await until(lambda: setting.handler.handled[3:] == [1, 2])
    await until(lambda: setting.broker.committed == {ZERO: 5})


async def test_an_assignment_whose_commits_end_by_a_bug_fails(
    open_assignment: OpenAssignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = AssertionError("a bug")
    failures = [bug]

    async def commit(*_: object) -> bool:
        if failures:
            raise failures.pop()
        return True

    monkeypatch.setattr(FakeBroker, "commit", commit)
    monkeypatch.setattr(partition_assignment, "COMMIT_INTERVAL_S", 0.01)
    setting = open_assignment(FakeHandler())
    setting.assignment.admit([record(0, "a/1")])
    await until(lambda: setting.failures == [bug])
    setting.failures.clear()


async def test_failing_ordering_keys_hold_no_slots(open_assignment: OpenAssignment) -> None:
    async def effect(entry: Record) -> None:
        if entry.offset < 8:
            raise TransientError("not now")

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n, f"a/{n}") for n in range(9))
    await until(lambda: setting.handler.handled == [8])


async def test_work_that_ends_while_the_assignment_is_closed_counts_and_what_waits_does_not_start(
    open_assignment: OpenAssignment,
) -> None:
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        await go_on.wait()

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n, "a/1") for n in range(2))
    await until(lambda: setting.handler.tried == [0])
    closing = asyncio.create_task(setting.assignment.close(drain_s=60))
    await until(lambda: not setting.assignment.open)
    go_on.set()
    await closing
    assert setting.broker.committed == {ZERO: 1}
    assert setting.handler.tried == [0]


async def test_work_that_does_not_end_in_time_is_cancelled_and_not_committed(open_assignment: OpenAssignment) -> None:
    cancelled = []

    async def effect(entry: Record) -> None:
        if entry.offset == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(entry.offset)
                raise

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n, f"a/{n}") for n in range(3))
    await until(lambda: sorted(setting.handler.handled) == [0, 2])
    await setting.assignment.close(drain_s=0.01)
    assert cancelled == [1]
    assert setting.broker.committed == {ZERO: 1}


async def test_a_handler_that_will_not_be_cancelled_can_not_commit_any_more(
    open_assignment: OpenAssignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_shared.kafka.partition_assignment.CANCEL_GRACE_S", 0.01)
    let_go = asyncio.Event()

    async def effect(entry: Record) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit([record(0)])
    await until(lambda: setting.handler.tried == [0])
    await setting.assignment.close(drain_s=0.01)
    let_go.set()
    await until(lambda: setting.handler.handled == [0])
    assert setting.broker.committed == {}


async def test_a_pause_that_ends_after_closing_starts_nothing(open_assignment: OpenAssignment) -> None:
    async def effect(entry: Record) -> None:
        raise TransientError("not now")

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit([record(0)])
    await until(lambda: len(setting.handler.tried) >= 1)
    await setting.assignment.close(drain_s=0)
    tried = len(setting.handler.tried)
    other = open_assignment(FakeHandler(effect))
    other.assignment.admit([record(0)])
    await until(lambda: len(other.handler.tried) >= 4)  # by now its pause would be over, too
    assert len(setting.handler.tried) == tried


async def test_two_who_close_at_once_both_wait_until_it_is_closed(open_assignment: OpenAssignment) -> None:
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        await go_on.wait()

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit([record(0)])
    await until(lambda: setting.handler.tried == [0])
    closings = [asyncio.create_task(setting.assignment.close(drain_s=60)) for _ in range(2)]
    await until(lambda: not setting.assignment.open)
    assert not any(closing.done() for closing in closings)
    go_on.set()
    await asyncio.gather(*closings)
    assert setting.broker.committed == {ZERO: 1}


async def test_a_refused_commit_is_tried_again(open_assignment: OpenAssignment) -> None:
    setting = open_assignment(FakeHandler())
    setting.broker.refuses = True
    setting.assignment.admit([record(0)])
    await until(lambda: setting.broker.refused > 0)
    assert setting.assignment.ledger.committable() == {ZERO: 1}
    setting.broker.refuses = False
    await until(lambda: setting.broker.committed == {ZERO: 1})


async def test_a_stuck_record_holds_its_partition_back_once_too_many_follow_it(open_assignment: OpenAssignment) -> None:
    async def effect(entry: Record) -> None:
        if entry.offset == 0:
            raise TransientError("not now")

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n, f"a/{n}") for n in range(10))
    setting.assignment.admit([record(0, "c/1", partition=1)])
    assert setting.assignment.find_partitions_to_pause() >= {ZERO}
    await until(lambda: set(range(1, 10)) <= set(setting.handler.handled))
    assert setting.assignment.find_partitions_to_pause() == {ZERO}


async def test_large_records_hold_everything_back_until_they_are_done_with(open_assignment: OpenAssignment) -> None:
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        await go_on.wait()

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit([record(0, value=b"x" * 100_000)])
    assert setting.assignment.find_partitions_to_pause() == {ZERO, ONE}
    go_on.set()
    await until(lambda: setting.assignment.find_partitions_to_pause() == frozenset())
    assert setting.progress == 1


async def test_a_record_does_not_inherit_the_log_context_of_the_one_before_it(open_assignment: OpenAssignment) -> None:
    inherited = []

    async def effect(entry: Record) -> None:
        inherited.append(structlog.contextvars.get_contextvars().get("document_id"))
        structlog.contextvars.bind_contextvars(document_id=str(entry.offset))
        if len(inherited) == 1:
            raise TransientError("so that one comes back from a pause, too")

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit(record(n) for n in range(3))
    await until(lambda: len(setting.handler.handled) == 3)
    assert inherited == [None, None, None, None]


async def test_a_record_that_can_not_be_placed_is_still_handled(
    open_assignment: OpenAssignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ordering_key(entry: Record) -> OrderingKey:
        raise KeyError("a bug")

    setting = open_assignment(FakeHandler())
    monkeypatch.setattr(setting.handler, "ordering_key", ordering_key)
    setting.assignment.admit([record(0)])
    await until(lambda: setting.handler.handled == [0])


async def test_records_of_one_ordering_key_that_wait_run_together_and_in_bundles_of_bounded_size(
    open_assignment: OpenAssignment,
) -> None:
    running: set[int] = set()
    together: list[set[int]] = []
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        running.add(entry.offset)
        await go_on.wait()
        together.append(set(running))
        running.discard(entry.offset)

    setting = open_assignment(FakeHandler(effect), bundles=BundleLimits(items=3, size_bytes=100))
    setting.assignment.admit(record(n, "a/1") for n in range(5))
    await until(lambda: setting.handler.tried == [0, 1, 2])
    go_on.set()
    await until(lambda: setting.handler.handled == [0, 1, 2, 3, 4])
    assert max(map(len, together)) == 3
    await until(lambda: setting.broker.committed == {ZERO: 5})


async def test_a_record_of_a_bundle_is_not_finished_by_the_success_of_the_others(
    open_assignment: OpenAssignment,
) -> None:
    fixed = asyncio.Event()

    async def effect(entry: Record) -> None:
        if entry.offset == 1 and not fixed.is_set():
            raise TransientError("not now")

    setting = open_assignment(FakeHandler(effect), bundles=BundleLimits(items=9, size_bytes=100))
    setting.assignment.admit(record(n, "a/1") for n in range(3))
    await until(lambda: sorted(setting.handler.handled) == [0, 2])
    assert setting.assignment.ledger.committable() == {ZERO: 1}
    await until(lambda: setting.handler.tried.count(1) > 3)
    assert sorted(setting.handler.handled) == [0, 2]
    fixed.set()
    await until(lambda: setting.broker.committed == {ZERO: 3})


async def test_a_bug_that_a_record_causes_in_a_bundle_costs_no_other_record_of_it(
    open_assignment: OpenAssignment,
) -> None:
    together: set[int] = set()

    async def effect(entry: Record) -> None:
        together.add(entry.offset)
        await asyncio.sleep(0)
        failed = 1 in together
        together.discard(entry.offset)
        if failed:
            raise ZeroDivisionError

    setting = open_assignment(FakeHandler(effect), bundles=BundleLimits(items=9, size_bytes=100))
    setting.assignment.admit(record(n, "a/1") for n in range(3))
    await until(lambda: setting.broker.committed == {ZERO: 3})
    assert setting.dead_letters.letters == [(1, "internal_error", "ZeroDivisionError")]
    assert sorted(setting.handler.handled) == [0, 2]


async def test_records_that_wait_for_the_dead_letters_hold_no_slot_and_delay_no_record_of_their_ordering_key(
    open_assignment: OpenAssignment,
) -> None:
    async def effect(entry: Record) -> None:
        if entry.offset < 20:
            raise Rejected("bad-data", "")

    setting = open_assignment(FakeHandler(effect), max_replay=100)
    setting.dead_letters.failures = 1_000
    setting.assignment.admit(record(n, f"a/{n % 5}") for n in range(25))
    await until(lambda: len(setting.handler.handled) == 5 or setting.dead_letters.failures < 800)
    assert setting.handler.handled == [20, 21, 22, 23, 24]
    assert setting.assignment.ledger.committable() == {}
    assert setting.handler.tried == [*range(25)], "what waits for the dead letters is not handled again"
    setting.dead_letters.failures = 0
    await until(lambda: setting.broker.committed == {ZERO: 25})
    assert sorted(offset for offset, _, _ in setting.dead_letters.letters) == [*range(20)]


async def test_an_event_of_another_organization_waits_for_one_turn_behind_a_flood_in_its_partition(
    open_assignment: OpenAssignment,
) -> None:
    setting = open_assignment(FakeHandler(), max_replay=5_000)
    setting.assignment.admit(record(n, f"flood/{n}") for n in range(50))
    setting.assignment.admit([record(50, "other/1")])
    await until(lambda: 50 in setting.handler.handled)
    assert setting.handler.handled.index(50) < 10


async def test_many_small_records_fill_the_memory_too(open_assignment: OpenAssignment) -> None:
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        await go_on.wait()

    setting = open_assignment(FakeHandler(effect), max_replay=5_000)
    setting.assignment.admit(record(n, f"a/{n}", value=b"") for n in range(90))
    assert setting.assignment.find_partitions_to_pause() == frozenset()
    setting.assignment.admit(record(n, f"a/{n}", value=b"") for n in range(90, 100))
    assert setting.assignment.find_partitions_to_pause() == {ZERO, ONE}
    go_on.set()
    await until(lambda: setting.assignment.find_partitions_to_pause() == frozenset())


async def test_bytes_that_can_not_be_read_become_one_dead_letter_and_all_their_offsets_are_committed(
    open_assignment: OpenAssignment,
) -> None:
    setting = open_assignment(FakeHandler())
    setting.dead_letters.failures = 2
    unreadable = replace(record(1), unreadable=UnreadableRecords("codec 5 is unknown", last_offset=6))
    setting.assignment.admit([record(0), unreadable])
    await until(lambda: setting.broker.committed == {ZERO: 7})
    setting.assignment.admit([record(7)])
    await until(lambda: setting.broker.committed == {ZERO: 8})
    assert setting.handler.tried == [0, 7]
    assert setting.dead_letters.letters == [(1, "unreadable-record", "codec 5 is unknown")]


async def test_no_offset_of_bytes_that_can_not_be_read_is_committed_before_their_dead_letter(
    open_assignment: OpenAssignment,
) -> None:
    setting = open_assignment(FakeHandler())
    setting.dead_letters.failures = 1_000
    setting.assignment.admit([record(0)])
    setting.assignment.admit([replace(record(1), unreadable=UnreadableRecords("", last_offset=6)), record(7)])
    await until(lambda: setting.handler.handled == [0, 7] and setting.broker.committed == {ZERO: 1})


async def test_bytes_that_are_found_again_by_a_fetch_among_their_offsets_free_no_record_before_them(
    open_assignment: OpenAssignment,
) -> None:
    go_on = asyncio.Event()

    async def effect(entry: Record) -> None:
        if entry.offset == 0:
            await go_on.wait()

    setting = open_assignment(FakeHandler(effect))
    setting.assignment.admit([record(0), replace(record(1), unreadable=UnreadableRecords("", last_offset=10))])
    setting.assignment.admit([replace(record(2), unreadable=UnreadableRecords("", last_offset=10)), record(11, "b/1")])
    await until(lambda: setting.handler.handled == [11] and setting.dead_letters.letters != [])
    assert setting.assignment.ledger.first_unfinished()[ZERO].offset == 0
    go_on.set()
    await until(lambda: setting.broker.committed == {ZERO: 12})
    assert [offset for offset, _, _ in setting.dead_letters.letters] == [1]


async def test_bytes_of_a_log_that_was_created_again_are_not_taken_for_those_of_the_old_one(
    open_assignment: OpenAssignment,
) -> None:
    setting = open_assignment(FakeHandler())
    setting.assignment.admit([replace(record(1), unreadable=UnreadableRecords("", last_offset=10)), record(11)])
    setting.assignment.admit([replace(record(2), unreadable=UnreadableRecords("", last_offset=10))])
    await until(lambda: [offset for offset, _, _ in setting.dead_letters.letters] == [1, 2])
    await until(lambda: setting.broker.committed == {ZERO: 11})


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 1_767_225_600, 2**62, -(2**63)])
async def test_a_record_whose_time_can_not_be_right_is_as_old_as_its_arrival(
    open_assignment: OpenAssignment, timestamp_ms: int
) -> None:
    async def effect(_: Record) -> None:
        await asyncio.Event().wait()

    setting = open_assignment(FakeHandler(effect))
    before = time.time()
    setting.assignment.admit([replace(record(0), timestamp_ms=timestamp_ms)])
    first = setting.assignment.ledger.first_unfinished()[ZERO]
    assert before <= first.written_at <= time.time()
