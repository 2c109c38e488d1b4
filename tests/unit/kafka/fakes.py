from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kb_shared.kafka.record import OrderingKey, Record, TopicPartition

TOPIC = "events"


def record(offset: int, ordering_key: str = "a/1", *, partition: int = 0, value: bytes = b"v") -> Record:
    return Record(TOPIC, partition, offset, ordering_key.encode(), value, (), 0)


async def do_nothing(record: Record) -> None:
    pass


@dataclass
class FakeHandler:
    """Places a record by its key `group/key` and does to it what the test says."""

    effect: Callable[[Record], Awaitable[None]] = do_nothing
    tried: list[int] = field(default_factory=list)
    handled: list[int] = field(default_factory=list)

    def ordering_key(self, record: Record) -> OrderingKey:
        group, _, key = (record.key or b"").decode().partition("/")
        return OrderingKey(group, group, key)

    async def handle(self, record: Record) -> None:
        self.tried.append(record.offset)
        await self.effect(record)
        self.handled.append(record.offset)


@dataclass
class FakeDeadLetters:
    """Fails as often as told, then keeps what it gets."""

    failures: int = 0
    letters: list[tuple[int, str, str]] = field(default_factory=list)

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the broker is away")
        self.letters.append((record.offset, reason, detail))


@dataclass
class FakeBroker:
    """Remembers what was committed, unless told to refuse."""

    refuses: bool = False
    refused: int = 0
    committed: dict[TopicPartition, int] = field(default_factory=dict)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if self.refuses:
            self.refused += 1
            return False
        self.committed.update(offsets)
        return True
