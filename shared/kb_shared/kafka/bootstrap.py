"""The Kafka side of a service's wiring."""

from kb_shared.contracts.topics import TOPICS
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import ensure_topics
from kb_shared.settings import CommonSettings


async def prepare_topics(settings: CommonSettings) -> None:
    """Create what is missing and check the rest. Raises what `ensure_topics` raises."""
    await ensure_topics(
        settings.kafka_connection,
        TOPICS,
        prefix=settings.kafka_topic_prefix,
        replication_factor=settings.kafka_replication_factor,
    )


def create_producer(settings: CommonSettings) -> Producer:
    """Not started yet."""
    return Producer(settings.kafka_connection, idempotence=settings.kafka_idempotence)
