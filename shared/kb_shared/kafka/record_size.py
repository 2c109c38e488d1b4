from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kb_shared.kafka.headers import to_wire
from kb_shared.kafka.producer import ProducerMessage


def record_bytes(message: ProducerMessage) -> int:
    """Return the size of a message in a batch of its own, at most. Kafka limits this size, not that of the value."""
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, to_wire(message.headers))
    return size
