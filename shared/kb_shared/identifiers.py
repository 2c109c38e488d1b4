"""Creates and checks ids of this system."""

import re

from bson import ObjectId

_KB_ID = re.compile(r"[0-9a-f]{24}")


def new_id() -> str:
    """Return a new id of 24 hex digits, which increase with time."""
    return str(ObjectId())


new_kb_id = new_id


def is_kb_id(value: str) -> bool:
    return _KB_ID.fullmatch(value) is not None
