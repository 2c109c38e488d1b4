"""What the consumer hands on, free of the client library."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record as it came."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """Key and value, which is what holding on to the record costs."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class OrderingKey:
    """Ordering key of a record: organizations take turns, and so do the groups within each of them.

    Records of one place are handled one after the other.
    """

    organization_id: str
    group: str
    """Group of the organization's work, such as one knowledge base."""
    key: str


class Handler(Protocol):
    """Handler of records in a service."""

    def ordering_key(self, record: Record) -> OrderingKey:
        """Say whose turn the record takes and what it must stay in order with. Pure; must not raise."""

    async def handle(self, record: Record) -> None:
        """Take the record's effect, which must be idempotent: a crash or a rebalance repeats it.

        Raises:
            Rejected: nobody can use the record; it goes to the dead letters.
            TransientError, Parked: tried again here, for as long as the partition is ours; other places go on.
            PermanentError: to the dead letters. A handler with somewhere better to note a failure does so itself.
        Anything else is a bug: tried three times in all, then to the dead letters as `internal_error`.
        """


class DeadLetters(Protocol):
    """Publisher of dead letters."""

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        """Return once the record is safe there. May raise: it is asked again."""
