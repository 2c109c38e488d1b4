"""Every Kafka topic, its partitions and how long it is kept."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    """Number of partitions. It never changes once the topic is in use, because keys would move."""
    retention: timedelta
    max_message_bytes: int = 1_048_576


DOCUMENT_EVENTS: Final = Topic("document-events", partitions=12, retention=timedelta(days=14))
KNOWLEDGE_DOCUMENT_EVENTS: Final = Topic("knowledge-document-events", partitions=12, retention=timedelta(days=14))
INDEX_REQUESTS: Final = Topic("kb-index-requests", partitions=24, retention=timedelta(days=7))
INDEX_BACKFILL: Final = Topic("kb-index-backfill", partitions=24, retention=timedelta(days=7))
DEAD_LETTERS: Final = Topic("kb-dead-letters", partitions=3, retention=timedelta(days=90))
KB_EVENTS: Final = Topic("kb-events", partitions=6, retention=timedelta(days=14))
USAGE: Final = Topic("kb-usage", partitions=3, retention=timedelta(days=30))

TOPICS: Final = (
    DOCUMENT_EVENTS,
    KNOWLEDGE_DOCUMENT_EVENTS,
    INDEX_REQUESTS,
    INDEX_BACKFILL,
    DEAD_LETTERS,
    KB_EVENTS,
    USAGE,
)
DOCUMENT_EVENT_TOPICS: Final = frozenset({DOCUMENT_EVENTS.name, KNOWLEDGE_DOCUMENT_EVENTS.name})
"""Names of the topics with events about documents, whose keys begin with the organization."""
