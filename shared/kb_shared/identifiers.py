"""The shapes of ids, checked at every edge."""

import re
from typing import Annotated

from bson import ObjectId
from pydantic import StringConstraints

IDENTIFIER_PATTERN = r"^[A-Za-z0-9._-]{1,128}$"
Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER_PATTERN)]
"""Of an organization, a document or a tag."""

_KB_ID = re.compile(r"[0-9a-f]{24}")


def is_identifier(value: str) -> bool:
    return re.fullmatch(IDENTIFIER_PATTERN, value) is not None


def new_id() -> str:
    """24 hex digits, rising with time."""
    return str(ObjectId())


new_kb_id = new_id


def is_kb_id(value: str) -> bool:
    return _KB_ID.fullmatch(value) is not None
