"""The tag of a knowledge base that is created without one."""

import re
from hashlib import sha256
from typing import Final

_TAG_CHARACTERS: Final = 60
_OTHER_CHARACTERS: Final = re.compile(r"[^a-z0-9]+")


def tag_named(name: str) -> str:
    """Return the id of the tag of a knowledge base with this name: the words of the name."""
    words = _OTHER_CHARACTERS.sub("-", name.lower()).strip("-")[:_TAG_CHARACTERS].strip("-")
    # Without Latin letters nothing is left.
    return words or f"kb-{digest_name(name)}"


def digest_name(name: str) -> str:
    """Return what tells apart the tags of knowledge bases whose names have the same words."""
    return sha256(name.encode()).hexdigest()[:12]
