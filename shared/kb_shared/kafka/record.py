"""Types between the consumer and its handlers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from kb_shared.kafka.headers import RecordHeaders
from kb_shared.kafka_connection.fetched_batches import UnreadableRecords

_HEADER_OVERHEAD_BYTES: Final = 80
"""Memory that a header takes in addition to its bytes."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """Kafka record, unchanged, or bytes of the log that can't be read as records."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    timestamp_ms: int
    unreadable: UnreadableRecords | None = None
    """Fault of the bytes in `value`; None for a record."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def written_at(self) -> datetime | None:
        """Return the time of the record; None if it has no plausible one, because producers may set any."""
        try:
            return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC) if self.timestamp_ms >= 0 else None
        except (OverflowError, ValueError, OSError):
            return None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of key, value and headers, which the record takes in memory."""
        headers = sum(len(name) + len(value or b"") + _HEADER_OVERHEAD_BYTES for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class OrderingKey:
    """Ordering key of a record: organizations take turns, and so do the groups within each of them.

    Records with the same ordering key are handled one after the other.
    """

    organization_id: str
    group: str
    """Group of the organization's work, such as one knowledge base."""
    key: str


class Handler(Protocol):
    """Handler of records in a service."""

    def ordering_key(self, record: Record) -> OrderingKey:
        """Return the ordering key of a record. Pure; must not raise."""

    async def handle(self, record: Record) -> None:
        """Handle a record. The effect must be idempotent: a crash or a rebalance repeats it.

        Raises:
            Rejected: the record can't be used; it goes to the dead letters.
            TransientError, Parked: retried for as long as the partition is assigned; records with other keys go on.
            PermanentError: the record goes to the dead letters. A handler that stores failures does not raise it.
        Any other error is a bug: three tries, then the record goes to the dead letters as `internal_error`.
        """


class DeadLetters(Protocol):
    """Publisher of dead letters."""

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        """Return once the record is stored. If it raises, it is called again."""
