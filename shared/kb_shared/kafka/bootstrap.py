"""The Kafka side of a service's wiring."""

from collections.abc import Mapping

import structlog

from kb_shared.contracts.topics import TOPICS
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import ensure_topics
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
