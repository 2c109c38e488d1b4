"""Lists of words as people type them into forms: tags, ids, names of metadata."""

import re
from typing import Final

_SEPARATORS: Final = re.compile(r"[,\s]+")


def split_words(text: str) -> list[str]:
    """Split a text at commas and blanks."""
    return [word for word in _SEPARATORS.split(text) if word]
