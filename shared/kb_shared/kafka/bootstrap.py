"""The Kafka side of a service's wiring."""

from collections.abc import Collection, Mapping

import structlog

from kb_contracts.topics import TOPICS, Topic
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import check_topics, ensure_topics
from kb_shared.settings import CommonSettings

log = structlog.get_logger()


async def prepare_topics(settings: CommonSettings) -> Mapping[str, int]:
    """Create what is missing, check the rest, and log what an operator should know of them.

    Returns:
        The largest message that a topic takes, by its name without the prefix, where the brokers tell.
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
    """Not started yet."""
    return Producer(settings.kafka_connection, idempotence=settings.kafka_idempotence)


def watch_kafka(settings: CommonSettings, *, groups: Mapping[str, Collection[Topic]] | None = None) -> KafkaWatch:
    """Not running yet.

    Args:
        settings: of the service.
        groups: the topics that each of its consumer groups reads; the prefix is added here.
    """
    prefix = settings.kafka_topic_prefix
    return KafkaWatch(
        settings.kafka_connection,
        check_topics=lambda: check_topics(settings.kafka_connection, TOPICS, prefix=prefix),
        groups={prefix + group: [prefix + topic.name for topic in read] for group, read in (groups or {}).items()},
    )
