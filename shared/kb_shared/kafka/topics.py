"""Creates topics and checks that they are what the code expects: a broker that makes up topics hides every typo."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaError, NoError, TopicAlreadyExistsError, for_code

from kb_shared.contracts.topics import Topic
from kb_shared.errors import KbError, TransientError
from kb_shared.kafka_connection.clients import admin_client
from kb_shared.kafka_connection.connection import KafkaConnection

VISIBLE_AFTER_S = 15.0
POLL_INTERVAL_S = 0.1


class TopicsUnfit(KbError):
    """Topics are missing or have another number of partitions than the code expects. An operator must mend it."""


async def ensure_topics(
    connection: KafkaConnection, topics: Collection[Topic], *, prefix: str = "", replication_factor: int = 1
) -> None:
    """Create what is missing, then check all; run it before anything produces or consumes.

    Args:
        prefix: put before each name.
        replication_factor: of topics created here. In production 3; the client library can't ask for the default.

    Raises:
        TopicsUnfit: a topic can't be created, or has another number of partitions.
        TransientError: no broker answers.
    """
    async with _admin(connection) as admin:
        await _create(admin, [_new_topic(topic, prefix, replication_factor) for topic in topics])
        await _wait_until_visible(admin, [prefix + topic.name for topic in topics])
        await _check(admin, topics, prefix)


async def check_topics(connection: KafkaConnection, topics: Collection[Topic], *, prefix: str = "") -> None:
    """Check that all topics are there as they should be, creating none.

    Raises:
        TopicsUnfit: a topic is missing or has another number of partitions.
        TransientError: no broker answers.
    """
    async with _admin(connection) as admin:
        await _check(admin, topics, prefix)


@asynccontextmanager
async def _admin(connection: KafkaConnection) -> AsyncIterator[Any]:
    admin = admin_client(connection)
    try:
        await admin.start()
        yield admin
    except KafkaError as error:
        raise TransientError(
            f"Kafka at {connection.bootstrap_servers} does not answer ({type(error).__name__})"
        ) from error
    finally:
        await admin.close()


def _new_topic(topic: Topic, prefix: str, replication_factor: int) -> Any:
    return NewTopic(
        prefix + topic.name,
        topic.partitions,
        replication_factor,
        topic_configs={
            "retention.ms": str(int(topic.retention.total_seconds() * 1000)),
            "max.message.bytes": str(topic.max_message_bytes),
        },
    )


async def _create(admin: Any, topics: Collection[Any]) -> None:
    answer = await admin.create_topics(topics)
    refused = {
        name: for_code(code).__name__
        for name, code, *_ in answer.topic_errors
        if code not in (NoError.errno, TopicAlreadyExistsError.errno)
    }
    if refused:
        raise TopicsUnfit("; ".join(f"topic {name!r} can't be created: {why}" for name, why in refused.items()))


async def _wait_until_visible(admin: Any, names: Collection[str]) -> None:
    """A new topic takes a moment to show up on every broker of a cluster."""
    deadline = time.monotonic() + VISIBLE_AFTER_S
    while not (await _partition_counts(admin)).keys() >= set(names) and time.monotonic() < deadline:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(POLL_INTERVAL_S)


async def _check(admin: Any, topics: Collection[Topic], prefix: str) -> None:
    counts = await _partition_counts(admin)
    faults = [fault for topic in topics if (fault := _fault(prefix + topic.name, topic.partitions, counts))]
    if faults:
        raise TopicsUnfit("; ".join(faults))


async def _partition_counts(admin: Any) -> dict[str, int]:
    # All topics are asked for: asking for one by name creates it on brokers that make up topics.
    return {answer["topic"]: len(answer["partitions"]) for answer in await admin.describe_topics()}


def _fault(name: str, expected: int, counts: Mapping[str, int]) -> str | None:
    if name not in counts:
        return f"topic {name!r} is missing"
    if counts[name] != expected:
        return f"topic {name!r} has {counts[name]} partitions instead of {expected}"
    return None
