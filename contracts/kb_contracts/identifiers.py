"""The identifiers that travel in messages and requests."""

import re
from typing import Annotated

from pydantic import StringConstraints

IDENTIFIER_PATTERN = r"^[A-Za-z0-9._-]{1,128}$"
Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER_PATTERN)]
"""Identifier of an organization, a document or a tag."""


def is_identifier(value: str) -> bool:
    return re.fullmatch(IDENTIFIER_PATTERN, value) is not None
