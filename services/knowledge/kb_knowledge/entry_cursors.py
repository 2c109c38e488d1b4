"""Cursors of the list of entries: base64url of the time and the id at which a page ended, and of its filters' hash."""

import base64
import binascii
import hashlib
import json
from dataclasses import asdict
from typing import Final

from kb_shared.errors import RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.knowledge_entries import EntryFilter
from kb_shared.mongo.time_position import TimePosition

_HASH_CHARACTERS: Final = 16


def create_cursor(position: TimePosition, wanted: EntryFilter) -> str:
    """Return the cursor of the page after `position`."""
    return base64.urlsafe_b64encode(f"{position} {_hash(wanted)}".encode()).rstrip(b"=").decode()


def read_cursor(cursor: str, wanted: EntryFilter) -> TimePosition:
    """Return the position of a cursor.

    Raises:
        RequestError: 422 `validation-error`; `cursor-of-other-filters` if it is of a list with other filters.
    """
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        position, _, filters = decoded.rpartition(" ")
        parsed = TimePosition.parse(position)
    except (binascii.Error, ValueError):
        raise _unusable() from None
    if parsed.at.tzinfo is None:
        raise _unusable()
    if filters != _hash(wanted):
        raise RequestError(
            422,
            "cursor-of-other-filters",
            "The cursor is of a list with other filters. Send those of the page that it comes from, or begin without a "
            "cursor.",
        )
    return parsed


def _unusable() -> RequestError:
    return invalid_field("cursor", "must be `next_cursor` of a page of this list, with the same filters")


def _hash(wanted: EntryFilter) -> str:
    filters = json.dumps(asdict(wanted), sort_keys=True, default=str)
    return hashlib.sha256(filters.encode()).hexdigest()[:_HASH_CHARACTERS]
