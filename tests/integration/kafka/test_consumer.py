import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kb_contracts.errors import Rejected
from kb_local.broker import Broker
from kb_local.ports import free_port
from kb_shared.errors import TransientError
from kb_shared.kafka import partition_assignment, retries
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.kafka.scheduling import BundleLimits
from kb_shared.kafka.session import POLL_MAX_RECORDS, ConsumerSession
from tests.integration.kafka.support import BRIEF_SESSION, EVENTS, Letters, Recorder, Stream, running
from tests.waiting import until

HIGH_MARK = 16


@dataclass
class GatedRecorder(Recorder):
    """Handles nothing until it is let."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def effect(self, value: str) -> None:
        await self.gate.wait()


@dataclass
class FailingRecorder(Recorder):
    """Rejects `poison`, trips over `bug`, and can't handle `trouble` until it is fixed."""

    fixed: asyncio.Event = field(default_factory=asyncio.Event)

    async def effect(self, value: str) -> None:
        if value.startswith("poison"):
            raise Rejected("not_json", "")
        if value.startswith("bug"):
            raise ZeroDivisionError
        if value.startswith("trouble") and not self.fixed.is_set():
            raise TransientError("not now")


async def test_poison_bugs_and_trouble_of_some_keys_do_not_hold_up_the_others(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    kinds = ("good", "poison", "bug", "trouble")
    values = [f"{kind} {n}" for n in range(10) for kind in kinds]
    await stream.publish([(f"{kind}/{n % 3}", f"{kind} {n}") for n in range(10) for kind in kinds])
    handler, letters = FailingRecorder(), Letters()
    consumer = stream.consumer(handler, letters)
    async with running(consumer):
        await until(lambda: sum(value.startswith("good") for value in handler.handled) == 10)
        await until(lambda: len(letters.reasons) == 20)
        assert not any(value.startswith("trouble") for value in handler.handled)
        # Of each key that is in trouble the first record is tried again and again, and what follows it waits.
        await until(lambda: all(handler.tried.count(f"trouble {n}") >= 3 for n in range(3)))
        assert {value for value in handler.tried if value.startswith("trouble")} == {f"trouble {n}" for n in range(3)}
        assert await stream.committed() < len(values)
        handler.fixed.set()
        await until(lambda: len(handler.handled) == 20)
    assert letters.reasons == {
        value: "not_json" if value.startswith("poison") else "internal_error"
        for value in values
        if value.startswith(("poison", "bug"))
    }
    assert await stream.committed() == 40


async def test_finished_records_are_committed_when_the_consumer_stops(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_assignment, "COMMIT_INTERVAL_S", 60)
    await stream.publish([(f"a/{n}", str(n)) for n in range(40)])
    handler = Recorder()
    async with running(stream.consumer(handler, Letters())):
        await until(lambda: len(handler.handled) == 40)
        assert await stream.committed() == 0
    assert await stream.committed() == 40


async def test_work_under_way_when_partitions_move_ends_commits_and_is_not_repeated(stream: Stream) -> None:
    await stream.publish([(f"a/{n}", str(n)) for n in range(8)])
    slow, newcomer = GatedRecorder(), Recorder()
    consumer, other = stream.consumer(slow, Letters()), stream.consumer(newcomer, Letters())
    async with running(consumer):
        await until(lambda: len(slow.tried) == 8)
        async with running(other):
            # The partitions are being taken away: nothing new is taken in, what runs may end.
            await until(lambda: not consumer.ready)
            assert slow.handled == []
            slow.gate.set()
            await until(lambda: consumer.ready and other.ready)
            await stream.publish([(f"a/{n}", f"new {n}") for n in range(8)])
            await until(lambda: len(slow.handled) + len(newcomer.handled) == 16)
    assert len(set(slow.handled) | set(newcomer.handled)) == 16
    assert sorted(slow.handled[:8]) == [str(n) for n in range(8)]
    assert newcomer.handled
    assert await stream.committed() == 16


async def test_a_handler_that_does_not_end_keeps_neither_the_partitions_nor_its_record(stream: Stream) -> None:
    await stream.publish([("a/1", "stuck")])
    stuck, newcomer = GatedRecorder(), Recorder()
    # Drains for 1 s: what a rebalance may take less 5 s, but not less than that.
    async with running(stream.consumer(stuck, Letters(), rebalance_timeout_ms=6000)):
        await until(lambda: stuck.tried == ["stuck"])
        async with running(stream.consumer(newcomer, Letters(), rebalance_timeout_ms=6000)):
            await until(lambda: len(stuck.tried) == 2 or newcomer.handled == ["stuck"])
            assert stuck.handled == []
            stuck.gate.set()
            await until(lambda: stuck.handled + newcomer.handled == ["stuck"])


async def test_a_consumer_that_can_not_keep_up_takes_in_no_more_than_it_can_hold_and_stays_a_member(
    stream: Stream,
) -> None:
    # Of one organization each: of one alone, more would be taken in.
    await stream.publish([(f"{n}/k", str(n)) for n in range(300)])
    handler = GatedRecorder()
    consumer = stream.consumer(handler, Letters(), max_in_flight=HIGH_MARK // 4, position_check_interval_s=0.1)
    async with running(consumer):
        await until(lambda: sum(consumer.lag().values()) == 300)
        session = consumer._session
        assert session is not None
        await until(lambda: len(session._client.paused()) == EVENTS.partitions)
        assert session._assignment is not None
        assert sum(session._assignment.ledger.replay_windows().values()) <= HIGH_MARK + POLL_MAX_RECORDS
        assert len(handler.tried) == HIGH_MARK // 4
        assert consumer.ready
        handler.gate.set()
        await until(lambda: len(handler.handled) == 300)
        await until(lambda: sum(consumer.lag().values()) == 0)
    assert len(handler.tried) == 300


async def test_the_age_of_the_lag_and_of_the_last_poll_grow_until_records_are_handled_and_polled(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = asyncio.Event()
    polls.set()
    poll = ConsumerSession._poll

    async def poll_if_it_may(session: ConsumerSession) -> Mapping[Any, Any]:
        await polls.wait()
        return await poll(session)

    def lag_s() -> list[float]:
        samples = [sample for family in REGISTRY.collect() for sample in family.samples]
        return sorted(
            each.value
            for each in samples
            if each.name == "kb_consumer_lag_seconds" and each.labels["group"] == stream.group
        )

    def poll_age_s() -> float | None:
        return REGISTRY.get_sample_value("kb_consumer_last_poll_age_seconds", {"group": stream.group})

    monkeypatch.setattr(ConsumerSession, "_poll", poll_if_it_may)
    await stream.publish([("a/1", "slow")])
    handler = GatedRecorder()
    async with running(stream.consumer(handler, Letters(), position_check_interval_s=0.1, **BRIEF_SESSION)):
        await until(lambda: handler.tried == ["slow"])
        await until(lambda: len(lag_s()) == EVENTS.partitions and lag_s()[-1] > 0.2)
        assert lag_s()[-2] == 0, "the other partitions are empty"
        handler.gate.set()
        await until(lambda: lag_s()[-1] == 0)
        await until(lambda: (poll_age_s() or 9) < 0.3)
        polls.clear()
        await until(lambda: (poll_age_s() or 0) > 0.5)
        polls.set()
        await until(lambda: (poll_age_s() or 9) < 0.3)
    assert poll_age_s() is None
    assert lag_s() == []


async def test_records_of_one_organization_that_never_end_keep_no_other_organization_s_records_from_being_read(
    stream: Stream,
) -> None:
    @dataclass
    class Stuck(GatedRecorder):
        async def effect(self, value: str) -> None:
            if value.startswith("stuck"):
                await self.gate.wait()

    await stream.publish([(f"greedy/{n}", f"stuck {n}") for n in range(300)])
    await stream.publish([(f"other/{n}", f"sound {n}") for n in range(40)])
    handler = Stuck()
    async with running(stream.consumer(handler, Letters(), max_in_flight=8)):
        await until(lambda: len(handler.handled) == 40)
        assert sum(value.startswith("stuck") for value in handler.tried) == 6
        handler.gate.set()
        await until(lambda: len(handler.handled) == 340)


@pytest.mark.parametrize("is_usable", [True, False])
async def test_an_event_behind_a_flood_in_its_partition_is_handled_before_the_flood_is_finished(
    stream: Stream, is_usable: bool
) -> None:
    let_go = asyncio.Event()

    @dataclass
    class Flooded(Recorder):
        def ordering_key(self, record: Record) -> OrderingKey:
            organization, _, number = (record.value or b"").decode().partition(" ")
            return OrderingKey(organization, "", "one document" if is_usable else number)

        async def effect(self, value: str) -> None:
            if value.startswith("flood"):
                if not is_usable:
                    raise Rejected("bad-data", "")
                await let_go.wait()

    refused: list[str] = []

    class GatedLetters(Letters):
        async def publish(self, record: Record, *, reason: str, detail: str) -> None:
            await let_go.wait()
            refused.append((record.value or b"").decode())

    await stream.publish([("same partition", f"flood {n}") for n in range(1_000)])
    await stream.publish([("same partition", "other 0")])
    handler, bundles = Flooded(), BundleLimits(items=100, size_bytes=100_000)
    async with running(
        stream.consumer(handler, GatedLetters(), max_in_flight=8, max_replay=5_000, bundles=bundles, **BRIEF_SESSION)
    ):
        await until(lambda: set(handler.handled) == {"other 0"})
        assert await stream.committed() == 0
        let_go.set()
        await stream.until_committed(1_001)
    # A membership that is lost on a busy machine repeats some.
    assert len({*handler.handled, *refused}) == 1_001


async def test_a_consumer_outlives_a_broker_that_comes_late_and_forgets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is committed when the broker goes: a later commit would go to a log that is not the same.
    monkeypatch.setattr(partition_assignment, "COMMIT_INTERVAL_S", 60)
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    stream = Stream(broker.bootstrap, "", on_kafka=False)
    handler = Recorder()
    consumer = stream.consumer(handler, Letters(), position_check_interval_s=3600)
    async with running(consumer):
        assert not consumer.ready
        await broker.start()
        await stream.create()
        await until(lambda: consumer.ready)
        await stream.publish([("a/1", f"before {n}") for n in range(20)])
        await until(lambda: len(handler.handled) == 20)

        await broker.kill()
        await broker.start()
        await stream.create()
        # Fewer than before: an offset of the old log would be beyond the end of the new one.
        await stream.publish([("a/1", f"after {n}") for n in range(5)])
        await until(lambda: len(handler.handled) == 25)
    assert handler.handled[20:] == [f"after {n}" for n in range(5)]
    assert await stream.committed() == 5
    await broker.stop()


async def test_offsets_beyond_the_end_of_the_log_do_not_stop_the_consumer_for_ever(stream: Stream) -> None:
    await stream.commit_without_membership(dict.fromkeys(range(4), 1000))
    await stream.publish([(f"a/{n}", str(n)) for n in range(40)])
    handler = Recorder()
    async with running(stream.consumer(handler, Letters(), position_check_interval_s=0.1)):
        await until(lambda: len(handler.handled) == 40)
    assert await stream.committed() == 40
