import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any, Self
from uuid import UUID

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownMemberIdError
from aiokafka.structs import OffsetAndMetadata
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from kb_shared.kafka import positions as positions_module
from kb_shared.kafka.commits import OffsetCommitter
from kb_shared.kafka.partition_assignment import PartitionAssignment, RecordWork
from kb_shared.kafka.position_monitor import PositionMonitor
from kb_shared.kafka.positions import OnLost, PartitionStart, Positions, accept_loss
from kb_shared.kafka.record import Record, TopicPartition
from kb_shared.kafka.scheduling import Lane
from kb_shared.observability.metrics import (
    CONSUMER_LAG_SECONDS,
    CONSUMER_SKIPPED_RECORDS,
    CONSUMER_STUCK_SECONDS,
    CONSUMER_SURVEY_FAILURES,
)
from tests.unit.kafka.fakes import TOPIC, FakeBroker, FakeDeadLetters, FakeHandler, record
from tests.waiting import until

ZERO = TopicPartition(TOPIC, 0)
GROUP = "group-of-positions"
LABELS = {"topic": TOPIC, "partition": "0", "group": GROUP}
OLD, NEW = UUID(int=1), UUID(int=2)


@dataclass
class FakeClient:
    """The client library's consumer as far as positions need it, with one partition."""

    beginning: int = 0
    end: int = 0
    committed: OffsetAndMetadata | None = None
    at: int = 0
    assigned: bool = True
    topic_id: UUID = OLD
    generation: int = 7
    member_id: str = "m"
    commits: list[dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=list)
    refusals: list[KafkaError] = field(default_factory=list)
    retry: bool = False

    @property
    def _client(self) -> Self:
        return self

    @property
    def _coordinator(self) -> Self:
        return self

    async def fetch_committed_offsets(self, _: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return {} if self.committed is None else {ZERO: self.committed}

    async def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.beginning)

    async def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.end)

    async def position(self, _: Any) -> int:
        return self.at

    def highwater(self, _: Any) -> int | None:
        assert self.assigned, "Partition is not assigned"
        return self.end

    def seek(self, _: Any, offset: int) -> None:
        self.at = offset

    async def ensure_coordinator_known(self) -> None:
        pass

    async def _do_commit_offsets(self, _: Any, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if self.refusals:
            error = self.refusals.pop(0)
            if isinstance(error, UnknownMemberIdError) or self.retry:
                self.generation, self.member_id = -1, ""
            raise error
        self.commits.append(offsets)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    async def read_topic_ids(asked: FakeClient, topics: set[str]) -> dict[str, UUID]:
        return dict.fromkeys(topics, asked.topic_id)

    monkeypatch.setattr(positions_module, "read_topic_ids", read_topic_ids)
    return fake


def positions_of(
    client: FakeClient, *, on_lost: OnLost = accept_loss, topic_ids: dict[str, UUID] | None = None
) -> Positions:
    return Positions(client, group_id=GROUP, on_lost=on_lost, topic_ids={} if topic_ids is None else topic_ids)


def an_assignment(handler: FakeHandler | None = None) -> PartitionAssignment:
    return PartitionAssignment(
        RecordWork(
            handler or FakeHandler(),
            FakeDeadLetters(),
            max_in_flight=4,
            per_group=3,
            max_replay=10,
            max_held_bytes=1000,
        ),
        {ZERO: Lane.LIVE},
        commit=FakeBroker().commit,
        on_progress=lambda: None,
        on_failure=lambda _: None,
    )


def skipped() -> float:
    return float(CONSUMER_SKIPPED_RECORDS.labels(topic=TOPIC, group=GROUP)._value.get())


async def test_offsets_deleted_before_they_were_read_are_counted_and_logged_with_their_range(
    client: FakeClient,
) -> None:
    client.beginning, client.committed, before = 100, OffsetAndMetadata(20, f"topic-id={OLD}"), skipped()
    lost: list[str] = []

    async def note(topic: str) -> None:
        lost.append(topic)

    with capture_logs() as logs:
        starts = await positions_of(client, on_lost=note).find([ZERO])
    assert starts == {ZERO: PartitionStart(100, 20)}
    assert (skipped() - before, lost) == (80, [TOPIC])
    [line] = [line for line in logs if line["event"] == "records.skipped"]
    assert (line["partition"], line["first_offset"], line["last_offset"]) == (0, 20, 99)


async def test_offsets_are_not_counted_as_skipped_before_the_loss_is_dealt_with(client: FakeClient) -> None:
    client.beginning, client.committed, before = 100, OffsetAndMetadata(20, ""), skipped()

    async def fail(topic: str) -> None:
        raise ConnectionError(topic)

    with pytest.raises(ConnectionError):
        await positions_of(client, on_lost=fail).find([ZERO])
    assert skipped() == before


@pytest.mark.parametrize(
    ("mark", "start"),
    [
        (f"topic-id={OLD}", PartitionStart(20, 20)),
        (f"topic-id={NEW}", PartitionStart(5, 20)),
        ("", PartitionStart(20, 20)),
        ("of another tool", PartitionStart(20, 20)),
    ],
)
async def test_the_consumer_does_not_continue_from_an_offset_of_a_topic_with_another_id(
    client: FakeClient, mark: str, start: PartitionStart
) -> None:
    client.beginning, client.committed = 5, OffsetAndMetadata(20, mark)
    assert await positions_of(client).find([ZERO]) == {ZERO: start}


async def test_a_topic_that_was_created_again_has_lost_records_also_if_its_offsets_were_deleted_with_it(
    client: FakeClient,
) -> None:
    topic_ids: dict[str, UUID] = {}
    await positions_of(client, topic_ids=topic_ids).find([ZERO])
    client.topic_id, client.committed, lost = NEW, None, list[str]()

    async def note(topic: str) -> None:
        lost.append(topic)

    with capture_logs() as logs:
        later_session = positions_of(client, on_lost=note, topic_ids=topic_ids)
        assert await later_session.find([ZERO]) == {ZERO: PartitionStart(0, None)}
        await later_session.find([ZERO])
    [line] = [line for line in logs if line["event"] == "log.replaced"]
    assert (lost, line["old_offsets"], line["new_offsets"]) == ([TOPIC], {0: None}, {0: 0})


async def test_a_partition_without_an_offset_begins_at_the_beginning_and_that_is_committed(client: FakeClient) -> None:
    client.beginning = 3
    positions = positions_of(client)
    assignment = an_assignment()
    positions.begin(assignment, await positions.find([ZERO]))
    assert assignment.ledger.committable() == {ZERO: 3}
    assert positions.mark(TOPIC) == f"topic-id={OLD}"
    await assignment.close(drain_s=0)


async def test_a_position_that_falls_below_the_beginning_while_it_runs_goes_on_there_and_is_counted(
    client: FakeClient,
) -> None:
    client.end = 200
    positions = positions_of(client)
    assignment = an_assignment()
    positions.begin(assignment, {ZERO: PartitionStart(20, 20)})
    await positions.find_replaced_topics([TOPIC])
    client.beginning, before = 100, skipped()
    await positions.find_again(assignment, {ZERO: 20})
    assert (client.at, skipped() - before) == (100, 80)
    assert assignment.ledger.committable() == {ZERO: 100}
    await assignment.close(drain_s=0)


async def test_a_position_check_that_fails_because_partitions_were_revoked_is_counted_and_not_fatal(
    client: FakeClient,
) -> None:
    positions = positions_of(client)
    monitor, assignment = PositionMonitor(client, positions, group_id=GROUP), an_assignment()
    failures = CONSUMER_SURVEY_FAILURES.labels(group=GROUP)._value
    before = failures.get()
    client.assigned = False
    with capture_logs() as logs:
        await monitor.check(assignment)
    assert (failures.get() - before, [line["event"] for line in logs]) == (1, ["positions.check_failed"])
    await assignment.close(drain_s=0)


async def test_markers_of_transactions_at_the_end_of_a_log_are_no_lag(client: FakeClient) -> None:
    positions = positions_of(client)
    monitor, assignment = PositionMonitor(client, positions, group_id=GROUP), an_assignment()
    positions.begin(assignment, {ZERO: PartitionStart(0, 0)})
    assignment.admit([record(0)])
    await until(lambda: assignment.ledger.committable() == {ZERO: 1})
    client.at = client.end = 2
    await monitor.check(assignment)
    assert assignment.ledger.committable() == {ZERO: 2}
    assignment.ledger.mark_committed({ZERO: 2})
    await monitor.check(assignment)
    assert monitor.lag == {ZERO: 0}
    await assignment.close(drain_s=0)


async def test_a_position_in_a_replaced_log_does_not_move_the_position_in_the_new_one(client: FakeClient) -> None:
    positions = positions_of(client)
    monitor, assignment = PositionMonitor(client, positions, group_id=GROUP), an_assignment()
    positions.begin(assignment, {ZERO: PartitionStart(500, 500)})
    await positions.find_replaced_topics([TOPIC])
    answer = client.end_offsets

    async def replaced_meanwhile(partitions: list[Any]) -> dict[Any, int]:
        client.topic_id = NEW
        await positions.restart(assignment, [ZERO])
        return await answer(partitions)

    client.end_offsets = replaced_meanwhile  # type: ignore[method-assign]  # of this fake only
    await monitor.check(assignment)
    assert assignment.ledger.committable() == {ZERO: 0}
    assert (client.at, positions.mark(TOPIC)) == (0, f"topic-id={NEW}")
    await assignment.close(drain_s=0)


async def test_a_commit_is_not_tried_again_once_the_membership_is_lost(client: FakeClient) -> None:
    commits = OffsetCommitter(client, positions_of(client), group_id=GROUP)
    client.refusals, client.retry = [KafkaConnectionError()], True
    assert not await commits.commit({ZERO: 5})
    assert client.commits == []


async def test_nothing_is_committed_without_a_membership(client: FakeClient) -> None:
    commits = OffsetCommitter(client, positions_of(client), group_id=GROUP)
    client.generation = -1
    assert not await commits.commit({ZERO: 5})
    assert client.commits == []


async def test_a_commit_is_tried_again_while_the_membership_lasts(client: FakeClient) -> None:
    commits = OffsetCommitter(client, positions_of(client), group_id=GROUP)
    client.refusals = [KafkaConnectionError()]
    assert await commits.commit({ZERO: 5})
    assert len(client.commits) == 1


async def test_the_age_of_the_oldest_unfinished_record_is_exported_until_it_is_finished(client: FakeClient) -> None:
    go_on = asyncio.Event()

    async def wait(_: Record) -> None:
        await go_on.wait()

    monitor = PositionMonitor(client, positions_of(client), group_id=GROUP)
    assignment = an_assignment(FakeHandler(wait))
    stuck_s = CONSUMER_STUCK_SECONDS.labels(topic=TOPIC, group=GROUP)._value
    assignment.admit([record(0)])
    await monitor.check(assignment)
    first = stuck_s.get()
    await monitor.check(assignment)
    assert 0 < first < stuck_s.get()
    go_on.set()
    await until(lambda: assignment.ledger.committable() == {ZERO: 1})
    await monitor.check(assignment)
    assert stuck_s.get() == 0
    await assignment.close(drain_s=0)


def lag_s() -> float:
    value: float = CONSUMER_LAG_SECONDS.labels(**LABELS)._value.get()
    return value


def written(seconds_ago: float, offset: int) -> Record:
    return replace(record(offset), timestamp_ms=int((time.time() - seconds_ago) * 1000))


async def test_the_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_handled(client: FakeClient) -> None:
    go_on = [asyncio.Event(), asyncio.Event(), asyncio.Event()]

    async def wait(each: Record) -> None:
        await go_on[each.offset].wait()

    monitor = PositionMonitor(client, positions_of(client), group_id=GROUP)
    assignment = an_assignment(FakeHandler(wait))
    assignment.ledger.start(ZERO, 0, committed=0)
    client.at = client.end = 3
    assignment.admit([written(7_200, 0), written(3_600, 1), written(-3_600, 2)])
    await monitor.check(assignment)
    assert lag_s() == pytest.approx(7_200, abs=600)
    go_on[0].set()
    await until(lambda: assignment.ledger.committable() == {ZERO: 1})
    await monitor.check(assignment)
    assert lag_s() == pytest.approx(3_600, abs=600)
    go_on[1].set()
    await until(lambda: assignment.ledger.committable() == {ZERO: 2})
    await monitor.check(assignment)
    assert lag_s() == pytest.approx(0, abs=600), "the clock of its producer is ahead"
    go_on[2].set()
    await until(lambda: assignment.ledger.committable() == {ZERO: 3})
    await monitor.check(assignment)
    assert lag_s() == 0
    await assignment.close(drain_s=0)
    monitor.forget(assignment)
    assert REGISTRY.get_sample_value("kb_consumer_lag_seconds", LABELS) is None, "another member may own it now"


async def test_a_record_that_is_not_fetched_is_as_old_as_the_check_that_found_it_and_not_as_the_one_before(
    client: FakeClient,
) -> None:
    monitor = PositionMonitor(client, positions_of(client), group_id=GROUP)
    assignment = an_assignment()
    assignment.ledger.start(ZERO, 0, committed=0)
    assignment.admit([written(3_600, 0)])
    await until(lambda: assignment.ledger.committable() == {ZERO: 1})
    client.at, client.end = 1, 2
    await monitor.check(assignment)
    assert lag_s() < 600
    await until_later()
    await monitor.check(assignment)
    first = lag_s()
    assert 0 < first < 600
    assignment.admit([written(0, 1)])
    await until(lambda: assignment.ledger.committable() == {ZERO: 2})
    client.at, client.end = 2, 3
    await monitor.check(assignment)
    assert lag_s() == 0, "another record is awaited now"
    await assignment.close(drain_s=0)


async def until_later() -> None:
    """Wait until the clock shows another time."""
    now = time.monotonic()
    await until(lambda: time.monotonic() > now)
