"""Reads whose record it is, and refuses a record whose key is not that of its data.

The key decides the order of records and whose turn it is, so a wrong key would use up the turn of another organization.
"""

import json
from typing import Final

from kb_contracts.errors import Rejected
from kb_shared.kafka.record import Record

_MAX_COMMAND_BYTES: Final = 4_096
"""Size up to which a record is read. Commands have about 500 bytes."""


def read_organization_id(record: Record) -> str:
    """Return the organization that a command names; the empty string if it names none, which `decode` refuses later."""
    if record.value is None or len(record.value) > _MAX_COMMAND_BYTES:
        return ""
    try:
        organization_id = json.loads(record.value)["data"]["organization_id"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    return organization_id if isinstance(organization_id, str) else ""


def require_key(record: Record, expected: bytes) -> None:
    """Refuse a record whose key is not `expected`, the key of its data. A record without a key is accepted.

    Raises:
        Rejected: `key-mismatch`. The detail repeats neither key: they may belong to different organizations.
    """
    if record.key is not None and record.key != expected:
        raise Rejected("key-mismatch", "the key of the record does not name what its data is about")
