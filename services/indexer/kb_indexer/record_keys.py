"""The key of a record against what the record carries: the key decides whose turn and whose order a record takes."""

from kb_contracts.errors import Rejected
from kb_shared.kafka.record import Record


def require_key(record: Record, expected: bytes) -> None:
    """Refuse a record whose key names something else than its data; one without a key names nothing.

    Raises:
        Rejected: `key-mismatch`; the detail repeats neither of both, as they may belong to different organizations.
    """
    if record.key is not None and record.key != expected:
        raise Rejected("key-mismatch", "the key of the record does not name what its data is about")
