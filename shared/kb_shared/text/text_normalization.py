"""Normalizes texts before they are embedded, so that it makes no difference how a text was typeset. Pure.

A knowledge base stores how its texts are normalized (`text_normalization`). That never changes, because another
normalization would give other vectors, which cost SPUs.
"""

import hashlib
import re
from typing import Final

AS_WRITTEN: Final = 1
"""Normalization of knowledge bases from before version 2 existed: models are given the text as it is."""
FOLDED: Final = 2
"""Normalization with ligatures as letters, without soft hyphens and without long white space."""
SPELLED: Final = 3
"""Normalization as with 2; the text index also has other usual spellings of the words (`spellings`)."""
CURRENT: Final = SPELLED
"""Normalization of a new knowledge base."""

_LETTERS: Final = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
    "\u00ad": "",
}
"""Letters that replace ligatures and the soft hyphen."""
_LONG_GAP: Final = re.compile(r"(\s\s)\s+")


def for_model(text: str, text_normalization: int) -> str:
    """Return what is embedded of `text`; `text` itself where nothing would be left of it.

    Args:
        text: a chunk with all that is embedded with it, or a query.
        text_normalization: the one of the knowledge base.
    """
    if text_normalization == AS_WRITTEN:
        return text
    # Providers refuse a text that is blank, and with it its document.
    return text if is_blank(folded := fold(text)) else folded


def hash_passage(chunk_hash: str, text: str, text_normalization: int, *, embedding_text: str | None = None) -> str:
    """Return the hash that a chunk's id contains: equal only for chunks with the same `chunk_hash` and text.

    Args:
        chunk_hash: SHA-256 in hex of what is embedded of the chunk.
        text: the chunk as it is in its document.
        text_normalization: the one of the knowledge base.
        embedding_text: text that is embedded in place of `text`, as it was written.
    """
    if embedding_text is not None:
        # Only words are found by it besides. No text contains NUL, so no other passage has this hash.
        return hashlib.sha256(f"{chunk_hash}{text}\x00{embedding_text}".encode()).hexdigest()
    if text_normalization == AS_WRITTEN:
        # Ids of these knowledge bases were always made of the hash of what is embedded.
        return chunk_hash
    return hashlib.sha256((chunk_hash + text).encode()).hexdigest()


def fold(text: str) -> str:
    """Return `text` with ligatures as letters, no soft hyphens, and of each white space no more than two characters."""
    if not text.isascii():
        for typeset, letters in _LETTERS.items():
            text = text.replace(typeset, letters)
    return _LONG_GAP.sub(r"\1", text)


def is_blank(text: str) -> bool:
    """Tell whether `text` has nothing but white space."""
    return not text or text.isspace()
