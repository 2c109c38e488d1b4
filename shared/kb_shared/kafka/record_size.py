from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kb_shared.kafka.headers import to_wire
from kb_shared.kafka.producer import ProducerMessage


def record_bytes(message: ProducerMessage) -> int:
    """Return the most bytes that a message takes in a topic, alone in its batch; Kafka limits these, not the value."""
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, to_wire(message.headers))
    return size
