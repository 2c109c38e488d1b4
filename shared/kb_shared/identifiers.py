"""The shapes of ids, checked at every edge."""

import re

from bson import ObjectId

_KB_ID = re.compile(r"[0-9a-f]{24}")


def new_id() -> str:
    """24 hex digits, rising with time."""
    return str(ObjectId())


new_kb_id = new_id


def is_kb_id(value: str) -> bool:
    return _KB_ID.fullmatch(value) is not None
