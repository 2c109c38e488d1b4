"""What an error of the client library means for a message, and for the client that it came from."""

from typing import Final

from aiokafka.errors import (
    BrokerResponseError,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    RecordListTooLargeError,
    UnknownProducerId,
    kafka_errors,
)

from kb_shared.errors import MessageRefused, TransientError


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]  # the library has no types
    """The record breaks a rule of its topic: one without a key in a compacted topic, for example."""

    errno = 87
    message = "INVALID_RECORD"


# The client library does not know this code, and so would report it as an unknown error, which may pass.
kafka_errors.setdefault(InvalidRecordError.errno, InvalidRecordError)

TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
REFUSALS: Final = (*TOO_LARGE, InvalidRecordError)
# The client library counts a batch that it gives up, the broker does not, and the client never begins again.
BEYOND_REPAIR: Final = (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)


def needs_new_client(error: KafkaError) -> bool:
    """Say whether the client that met this error will take no message any more, or none for some partition."""
    # The error itself and not a subclass is what the client library raises when its sending task has died.
    return isinstance(error, BEYOND_REPAIR) or type(error) is KafkaError


def as_ours(error: KafkaError) -> TransientError | MessageRefused:
    """Return what the sender of a message is told."""
    # The type alone: the client library's messages may quote what was sent.
    if isinstance(error, TOO_LARGE):
        return MessageRefused(f"the message is too large for Kafka ({type(error).__name__})", reason="too-large")
    if isinstance(error, InvalidRecordError):
        return MessageRefused("the message breaks a rule of its topic", reason="invalid-record")
    return TransientError(f"Kafka did not take the message ({type(error).__name__})")
