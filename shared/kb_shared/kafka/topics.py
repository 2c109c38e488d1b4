"""Creates topics and checks them, because automatic creation by brokers would hide typos."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    NoError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from kb_contracts.topics import Topic
from kb_shared.errors import TransientError
from kb_shared.kafka.topic_checks import (
    SAFE_REPLICAS,
    Finding,
    FoundTopic,
    TopicsUnfit,
    max_message_bytes,
    new_topic_settings,
    risks,
    why_unfit,
)
from kb_shared.kafka_connection.clients import admin_client
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability.log_limit import LogLimit

VISIBLE_AFTER_S: Final = 15.0
POLL_INTERVAL_S: Final = 0.1
REQUEST_TIMEOUT_MS: Final = 10_000
ANSWER_WITHIN_S: Final = 5.0
CLOSE_WITHIN_S: Final = 2.0
LONGEST_LOOK_S: Final = 40.0

# Errors that an operator has to fix; all others are transient.
REFUSALS: Final = (
    ClusterAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
)

log = structlog.get_logger()
_settings_unreadable = LogLimit(interval_s=3_600.0)


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """Result of a check of topics without problems that prevent work."""

    risks: tuple[Finding, ...]
    max_message_bytes: Mapping[str, int]
    """Size limit of messages by topic name without the prefix, for topics with known settings."""


async def ensure_topics(
    connection: KafkaConnection, topics: Collection[Topic], *, prefix: str = "", replication_factor: int | None = None
) -> TopicsReport:
    """Create missing topics and wait until every broker knows them. Call it before anything produces or consumes.

    If all topics exist, no right to create topics is needed.

    Args:
        prefix: prefix of each name.
        replication_factor: of created topics; by default three, or the number of brokers if that is lower.

    Raises:
        TopicsUnfit: a topic can't be created, or has too few partitions.
        TransientError: no broker answers, or not all brokers know the topics yet.
    """
    async with _admin(connection) as admin:
        known = await _read_known_topics(admin)
        missing = [topic for topic in topics if prefix + topic.name not in known.somewhere]
        if missing:
            replicas = replication_factor or min(SAFE_REPLICAS, known.brokers)
            await _create(admin, [_new_topic(topic, name=prefix + topic.name, replicas=replicas) for topic in missing])
        if missing or not known.everywhere.issuperset(prefix + topic.name for topic in topics):
            known = await _wait_until_known_everywhere(admin, {prefix + topic.name for topic in topics})
        return await _check(admin, known, topics=topics, prefix=prefix)


async def check_topics(connection: KafkaConnection, topics: Collection[Topic], *, prefix: str = "") -> TopicsReport:
    """Check all topics without creating any.

    Raises:
        TopicsUnfit: a topic is missing or has too few partitions.
        TransientError: no broker answers.
    """
    async with _admin(connection) as admin:
        return await _check(admin, await _read_known_topics(admin), topics=topics, prefix=prefix)


@asynccontextmanager
async def _admin(connection: KafkaConnection) -> AsyncIterator[Any]:
    admin = admin_client(connection, request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        async with asyncio.timeout(LONGEST_LOOK_S):
            await admin.start()
            yield admin
    except (TopicsUnfit, TransientError):
        raise
    except Exception as error:
        # Any error: failed assertions and decoding errors of the client library must not end the process.
        raise TransientError(
            f"Kafka at {connection.bootstrap_servers} does not answer ({type(error).__name__})"
        ) from error
    finally:
        # A frozen broker prevents an orderly close of the connection.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await admin.close()


@dataclass(frozen=True, slots=True)
class _KnownTopics:
    """Topics that the brokers know. A new topic appears at each broker at a different time."""

    brokers: int
    somewhere: Mapping[str, tuple[int, int]]
    """Topics that any broker knows, with the numbers of partitions and of replicas, by name."""
    everywhere: frozenset[str]


async def _read_known_topics(admin: Any) -> _KnownTopics:
    client = admin._client  # noqa: SLF001  # the admin client asks any broker
    brokers = [broker.nodeId for broker in client.cluster.brokers()]
    # All topics: a request by name creates the topic on brokers that create topics automatically.
    outcomes = await asyncio.gather(*(_request_metadata(client, broker) for broker in brokers), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, KafkaError | OSError):
            raise outcome
    answers: list[Any] = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    if not answers:
        raise KafkaError("no broker answers")
    topics = [_topic_sizes(answer) for answer in answers]
    return _KnownTopics(
        # A broker that has just started may not know all others, or all partitions.
        brokers=max(len(answer.brokers) for answer in answers),
        somewhere={name: max(each[name] for each in topics if name in each) for name in set().union(*topics)},
        everywhere=frozenset.intersection(*(frozenset(each) for each in topics)),
    )


async def _request_metadata(client: Any, broker: int) -> Any:
    async with asyncio.timeout(ANSWER_WITHIN_S):
        return await client.send(broker, MetadataRequest(None))


def _topic_sizes(answer: Any) -> dict[str, tuple[int, int]]:
    return {
        topic["topic"]: (
            len(topic["partitions"]),
            min((len(partition["replicas"]) for partition in topic["partitions"]), default=0),
        )
        for topic in answer.to_object()["topics"]
        if topic["error_code"] == NoError.errno
    }


def _new_topic(topic: Topic, *, name: str, replicas: int) -> Any:
    return NewTopic(name, topic.partitions, replicas, topic_configs=new_topic_settings(topic, replicas=replicas))


async def _create(admin: Any, topics: Collection[Any]) -> None:
    if admin._client.cluster.controller is None:  # noqa: SLF001  # the client library would fail on it
        raise TransientError("Kafka has no controller at the moment")
    answer = await admin.create_topics(topics)
    refused = []
    for name, code, *_ in answer.topic_errors:
        error = for_code(code)
        if issubclass(error, REFUSALS):
            refused.append(
                Finding(name, f"is missing or hidden from this principal, and can't be created: {error.__name__}")
            )
        elif error not in (NoError, TopicAlreadyExistsError):
            raise TransientError(f"topic {name!r} could not be created ({error.__name__})")
    if refused:
        raise TopicsUnfit(refused)


async def _wait_until_known_everywhere(admin: Any, names: Collection[str]) -> _KnownTopics:
    deadline = time.monotonic() + VISIBLE_AFTER_S
    while not (known := await _read_known_topics(admin)).everywhere.issuperset(names):
        if time.monotonic() > deadline:
            unknown = ", ".join(sorted(set(names) - known.everywhere))
            raise TransientError(f"not all brokers know these topics, or this principal may not see them: {unknown}")
        await asyncio.sleep(POLL_INTERVAL_S)
    return known


async def _check(admin: Any, known: _KnownTopics, *, topics: Collection[Topic], prefix: str) -> TopicsReport:
    names = [prefix + topic.name for topic in topics]
    settings = await _read_settings(admin, [name for name in names if name in known.somewhere])
    found = {
        name: FoundTopic(*known.somewhere[name], settings=settings.get(name, {}))
        for name in names
        if name in known.somewhere
    }
    if findings := why_unfit(topics, found, prefix=prefix):
        raise TopicsUnfit(findings)
    return TopicsReport(
        tuple(risks(topics, found, prefix=prefix, brokers=known.brokers)),
        max_message_bytes(topics, found, prefix=prefix),
    )


async def _read_settings(admin: Any, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Read the settings of topics, without those whose settings we may not read."""
    if not names:
        return {}
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    settings: dict[str, dict[str, str]] = {}
    for code, _, _, name, entries in (resource for answer in answers for resource in answer.resources):
        if code == NoError.errno:
            settings[name] = {key: value for key, value, *_ in entries}
        else:
            error = for_code(code).__name__
            # The services check regularly, and work without this right.
            if _settings_unreadable.admit((name, error)) is not None:
                log.warning("topic.settings_unreadable", topic=name, error=error)
    return settings
