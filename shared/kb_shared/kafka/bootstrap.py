"""Constructs the Kafka clients of a service."""

from collections.abc import Collection, Mapping

import structlog

from kb_contracts.topics import TOPICS, Topic
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import check_topics, ensure_topics
from kb_shared.settings import CommonSettings

log = structlog.get_logger()


async def prepare_topics(settings: CommonSettings) -> Mapping[str, int]:
    """Create missing topics, check the others, and log the risks that an operator should know.

    Returns:
        Size limit of messages by topic name without the prefix, for topics whose settings the brokers return.
    Raises:
        TopicsUnfit, TransientError: as `ensure_topics`.
    """
    report = await ensure_topics(
        settings.kafka_connection,
        TOPICS,
        prefix=settings.kafka_topic_prefix,
        replication_factor=settings.kafka_replication_factor,
    )
    for risk in report.risks:
        log.warning("topic.at_risk", topic=risk.topic, reason=risk.reason)
    return report.max_message_bytes


def create_producer(settings: CommonSettings) -> Producer:
    """Create a producer, which is not started yet."""
    return Producer(
        settings.kafka_connection, idempotence=settings.kafka_idempotence, compression=settings.kafka_compression
    )


def create_kafka_watch(
    settings: CommonSettings, *, groups: Mapping[str, Collection[Topic]] | None = None
) -> KafkaWatch:
    """Create the watch, which does not run yet.

    Args:
        settings: of the service.
        groups: topics that each consumer group reads, both without the prefix.
    """
    prefix = settings.kafka_topic_prefix
    return KafkaWatch(
        settings.kafka_connection,
        check_topics=lambda: check_topics(settings.kafka_connection, TOPICS, prefix=prefix),
        groups={prefix + group: [prefix + topic.name for topic in read] for group, read in (groups or {}).items()},
    )
