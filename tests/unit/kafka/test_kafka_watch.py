import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaConnectionError, KafkaError

from kb_shared.errors import TransientError
from kb_shared.kafka import client_errors, group_watch
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.waiting import BRAKE_S


@dataclass
class FakeAdmin:
    """An admin client of a cluster with one topic; fails as told."""

    topics_fail: KafkaError | None = None
    group_fails: KafkaError | None = None
    frozen: bool = False
    closed: bool = False

    async def start(self) -> None:
        if self.frozen:
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True
        if self.frozen:
            await asyncio.Event().wait()

    async def describe_topics(self) -> list[dict[str, Any]]:
        if self.topics_fail:
            raise self.topics_fail
        return [{"topic": "events", "partitions": [{"partition": 0}]}]

    async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
        assert self.group_fails is not None, "no test here has a group that answers"
        raise self.group_fails


@dataclass
class Cluster:
    admins: list[FakeAdmin]
    made: list[FakeAdmin] = field(default_factory=list)

    def admin_client(self, _: KafkaConnection) -> FakeAdmin:
        self.made.append(self.admins.pop(0))
        return self.made[-1]


def watch(monkeypatch: pytest.MonkeyPatch, *admins: FakeAdmin) -> tuple[KafkaWatch, Cluster]:
    async def fit() -> None:
        pass

    cluster = Cluster(list(admins))
    monkeypatch.setattr(group_watch, "admin_client", cluster.admin_client)
    return KafkaWatch(KafkaConnection("no-broker:1"), check_topics=fit, groups={"group": ["events"]}), cluster


async def test_a_broker_that_is_gone_is_no_reason_while_another_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = FakeAdmin(group_fails=GroupCoordinatorNotAvailableError())
    watched, cluster = watch(monkeypatch, FakeAdmin(topics_fail=KafkaConnectionError()), moving)
    await watched.check()
    assert await watched.why_not_ready() is None
    assert [admin.closed for admin in cluster.made] == [True, False]


async def test_topics_that_one_broker_does_not_list_are_no_reason_while_another_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [TransientError("Kafka at no-broker:1 does not answer (RequestTimedOutError)"), None]

    async def check_topics() -> None:
        if (failure := answers.pop(0)) is not None:
            raise failure

    moving = FakeAdmin(group_fails=GroupCoordinatorNotAvailableError())
    monkeypatch.setattr(group_watch, "admin_client", Cluster([moving]).admin_client)
    watched = KafkaWatch(KafkaConnection("no-broker:1"), check_topics=check_topics, groups={"group": ["events"]})
    await watched.check()
    assert await watched.why_not_ready() is None


async def test_brokers_that_are_all_gone_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, cluster = watch(monkeypatch, *(FakeAdmin(topics_fail=KafkaConnectionError()) for _ in range(2)))
    await watched.check()
    assert await watched.why_not_ready() == "Kafka does not answer (KafkaConnectionError)"
    assert all(admin.closed for admin in cluster.made)


async def test_a_broker_that_answers_nothing_does_not_stop_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_errors, "ANSWER_WITHIN_S", 0.05)
    watched, cluster = watch(monkeypatch, FakeAdmin(frozen=True), FakeAdmin(frozen=True))
    async with asyncio.timeout(BRAKE_S):
        await watched.check()
    assert await watched.why_not_ready() == "Kafka does not answer (TimeoutError)"
    assert all(admin.closed for admin in cluster.made)


async def test_an_answer_of_long_ago_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, _ = watch(monkeypatch, FakeAdmin(group_fails=GroupCoordinatorNotAvailableError()))
    await watched.check()
    assert await watched.why_not_ready() is None
    monkeypatch.setattr(group_watch, "SILENT_FOR_S", 0.0)
    assert await watched.why_not_ready() == "Kafka has not answered for 0 s"


async def test_time_without_a_coordinator_counts_as_time_without_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, _ = watch(monkeypatch, FakeAdmin(group_fails=GroupCoordinatorNotAvailableError()))
    monkeypatch.setattr(group_watch, "OWNERLESS_FOR_S", 0.0)
    await watched.check()
    assert "had no consumer" in str(await watched.why_not_ready())
