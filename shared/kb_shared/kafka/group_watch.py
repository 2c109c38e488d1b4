"""Checks Kafka regularly for a service: brokers answer, topics are set up, and every partition has an owner."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
)

from kb_shared.errors import InfrastructureNotReady, TransientError
from kb_shared.kafka.client_errors import answer_in_time
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka_connection.clients import admin_client
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability.log_limit import LogLimit

INTERVAL_S: Final = 10.0
TOPICS_INTERVAL_S: Final = 30.0
"""Seconds between two checks of the topics, longer because every broker is asked for every topic."""
OWNERLESS_FOR_S: Final = 60.0
SILENT_FOR_S: Final = 60.0
"""Age at which the last answer is too old; a check may take so long when several brokers do not answer."""

log = structlog.get_logger()


class PartitionOwners:
    """Records since when partitions have been without an owner. Pure."""

    def __init__(self) -> None:
        self._ownerless_since: dict[TopicPartition, float] = {}

    def update(self, partitions: Collection[TopicPartition], owned: Collection[TopicPartition], *, now: float) -> None:
        """Record which partitions have an owner now. While a group rebalances, `owned` is empty."""
        without = set(partitions) - set(owned)
        self._ownerless_since = {each: self._ownerless_since.get(each, now) for each in without}

    def why_not_ready(self, *, now: float) -> str | None:
        left = sorted(each for each, since in self._ownerless_since.items() if now - since >= OWNERLESS_FOR_S)
        if not left:
            return None
        others = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return f"partition {left[0].partition} of {left[0].topic!r}{others} had no consumer for {OWNERLESS_FOR_S:g} s"


class KafkaWatch:
    """Knows whether Kafka is usable for the service.

    Args:
        connection: to Kafka.
        check_topics: raises if topics are missing or not set up.
        groups: topics that each consumer group reads.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        check_topics: Callable[[], Awaitable[object]],
        groups: Mapping[str, Collection[str]],
    ) -> None:
        self._connection = connection
        self._check_topics = check_topics
        self._groups = dict(groups)
        self._owners = {group: PartitionOwners() for group in groups}
        self._admin: Any = None
        self._topics_checked_at: float | None = None
        self._fault: str | None = "Kafka has not answered yet"
        self._answered_at = 0.0
        self._limit = LogLimit()

    async def run(self) -> None:
        """Check regularly until cancelled."""
        try:
            while True:
                await self.check()
                await asyncio.sleep(INTERVAL_S)
        finally:
            await self._disconnect()

    async def why_not_ready(self) -> str | None:
        """Return the reason found by the last check; None if Kafka is usable."""
        if self._fault is not None:
            return self._fault
        now = time.monotonic()
        if now - self._answered_at >= SILENT_FOR_S:
            return f"Kafka has not answered for {SILENT_FOR_S:g} s"
        return next((reason for each in self._owners.values() if (reason := each.why_not_ready(now=now))), None)

    async def check(self) -> None:
        """Check once and keep the result. Never raises."""
        try:
            try:
                await self._check()
            except InfrastructureNotReady:
                raise
            except Exception:  # noqa: BLE001  # no error of the client library may end the service
                # Only this broker may be away: a new connection asks another one.
                await self._disconnect()
                await self._check()
        except (TransientError, InfrastructureNotReady) as error:
            self._record_fault(str(error))
        except Exception as error:  # noqa: BLE001  # likewise
            self._record_fault(f"Kafka does not answer ({type(error).__name__})")
            await self._disconnect()
        else:
            self._fault = None
            self._answered_at = time.monotonic()

    async def _check(self) -> None:
        now = time.monotonic()
        if self._topics_checked_at is None or self._fault or now - self._topics_checked_at >= TOPICS_INTERVAL_S:
            await self._check_topics()
            self._topics_checked_at = now
        async with answer_in_time():
            if self._groups:
                partitions = await self._partitions()
                for group, topics in self._groups.items():
                    wanted = [each for each in partitions if each.topic in topics]
                    owned = await self._owned(group)
                    self._owners[group].update(wanted, wanted if owned is None else owned, now=now)

    async def _partitions(self) -> list[TopicPartition]:
        # All topics: a request by name creates the topic on brokers that create topics automatically.
        return [
            TopicPartition(topic["topic"], partition["partition"])
            for topic in await (await self._connected()).describe_topics()
            for partition in topic["partitions"]
        ]

    async def _owned(self, group: str) -> list[TopicPartition] | None:
        """Return the partitions that are assigned to members of a group; an empty list while it rebalances or moves.

        Returns None if the broker does not report assignments, as Tansu.
        """
        try:
            [answer] = await (await self._connected()).describe_consumer_groups([group])
        except (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError, GroupLoadInProgressError):
            # The group moves to another coordinator. Members that can't reach it will lose their partitions.
            return []
        [described] = answer.to_object()["groups"]
        if described["error_code"] == GroupAuthorizationFailedError.errno:
            raise InfrastructureNotReady(
                f"group {group!r} may not be described: give the service the right DESCRIBE on it"
            )
        if described["error_code"] or described["state"] != "Stable":
            return []
        assignments = [member["member_assignment"] for member in described["members"]]
        if not any(assignments):
            return None
        return [
            TopicPartition(*partition)
            for assignment in assignments
            if assignment
            for partition in ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions()
        ]

    async def _connected(self) -> Any:
        if self._admin is None:
            # Kept even if the start fails: `_disconnect` closes it in bounded time.
            self._admin = admin_client(self._connection)
            await self._admin.start()
        return self._admin

    async def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(KafkaError, TimeoutError):
                async with answer_in_time():
                    await admin.close()

    def _record_fault(self, fault: str) -> None:
        self._fault = fault
        if (left_out := self._limit.admit(fault)) is not None:
            log.warning("kafka.not_ready", reason=fault, left_out=left_out)
