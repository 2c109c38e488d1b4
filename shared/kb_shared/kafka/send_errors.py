"""Classifies errors of the client library: may the message be sent again, and must the client be replaced?"""

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
    """Record that breaks a rule of its topic, such as one without a key in a compacted topic."""

    errno = 87
    message = "INVALID_RECORD"


# The client library does not know this code and would report an unknown error, which counts as transient.
kafka_errors.setdefault(InvalidRecordError.errno, InvalidRecordError)

TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
REFUSALS: Final = (*TOO_LARGE, InvalidRecordError)
# After a batch that the client has given up, its sequence numbers and the broker's differ for ever.
UNRECOVERABLE: Final = (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)


def needs_new_client(error: KafkaError) -> bool:
    """Return whether the client can send no more messages after this error, to all or to some partitions."""
    # The client library raises KafkaError itself, not a subclass, when its sending task has died.
    return isinstance(error, UNRECOVERABLE) or type(error) is KafkaError


def translate_error(error: KafkaError) -> TransientError | MessageRefused:
    """Return the error that the sender of a message gets."""
    # Only the type: the client library's messages may quote the message that was sent.
    if isinstance(error, TOO_LARGE):
        return MessageRefused(f"the message is too large for Kafka ({type(error).__name__})", reason="too-large")
    if isinstance(error, InvalidRecordError):
        return MessageRefused("the message breaks a rule of its topic", reason="invalid-record")
    return TransientError(f"Kafka did not take the message ({type(error).__name__})")
