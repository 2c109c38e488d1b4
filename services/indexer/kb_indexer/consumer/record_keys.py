"""Reads whose record it is, and refuses a record whose key contradicts its data.

The key decides whose turn it is, so a wrong key would use up the turn of another organization.
"""

import json
from typing import Final

from kb_contracts.errors import Rejected
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.messaging.event_keys import (
    KEY_OF_ANOTHER_ORGANIZATION,
    NO_OWNER,
    read_content,
    read_key,
)

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


def ordering_key_of_event(record: Record) -> OrderingKey:
    """Return the ordering key of an event: by its key, or by its content if the key names nothing.

    A record that names nothing at all waits for no other one.
    """
    # A key with the name of another organization is refused later: it only waits in that one's queue first.
    named = read_key(record.key)
    owner = read_content(record.value, record.headers) if named == NO_OWNER else named
    place = f"{record.topic}/{record.partition}/{record.offset}"
    return OrderingKey(organization_id=owner.organization_id or "", group="", key=owner.key or place)


def require_key(record: Record, expected: bytes) -> None:
    """Refuse a command whose key is not `expected`, the key of its data. A record without a key is accepted.

    Raises:
        Rejected: `key-mismatch`. The detail repeats neither key: they may belong to different organizations.
    """
    if record.key is not None and record.key != expected:
        raise Rejected("key-mismatch", "the key of the record does not name what its data is about")


def refuse_contradicting_key(record: Record, expected: bytes) -> None:
    """Refuse an event whose key names another document or tag than its data. A key that names none is accepted.

    The order of events needs no key: revisions decide.

    Raises:
        Rejected: `key-mismatch`. The detail repeats no id of another organization.
    """
    named, key = read_key(record.key), expected.decode()
    if named == NO_OWNER or named.key == key:
        return
    if named.organization_id == key.partition("/")[0]:
        raise Rejected("key-mismatch", f"the key names another document or tag than the data; the data's key is {key}")
    raise Rejected("key-mismatch", KEY_OF_ANOTHER_ORGANIZATION)
