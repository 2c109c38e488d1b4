"""Document ids of files: the same for the same path in the same folder, on every machine.

An id is `{source}.{words of the path}-{digest of the path}`, such as `handbook.guides-install-1f0c5a9be2d77c40`. The
source has no dot, so all ids of a folder share a prefix that no id of another folder has.
"""

import hashlib
import re
import unicodedata
from typing import Final

_PLAIN_SOURCE: Final = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*")
_SOURCE_CHARACTERS: Final = 40
_SOURCE_DIGEST_CHARACTERS: Final = 8
_WORDS_CHARACTERS: Final = 60
_PATH_DIGEST_CHARACTERS: Final = 16


class AmbiguousSource(Exception):
    """Two pushed folders have the same name, so their documents would be mixed up. The message says what to do."""


def make_document_id(source: str, *, relative_path: str) -> str:
    """Return an identifier. Paths that differ in any character have different ids."""
    words = _words(relative_path.rsplit(".", 1)[0], _WORDS_CHARACTERS)
    digest = _digest(relative_path, _PATH_DIGEST_CHARACTERS)
    return id_prefix(source) + "-".join(part for part in (words, digest) if part)


def id_prefix(source: str) -> str:
    """Return what the ids of all documents of a folder begin with, and no others do."""
    if len(source) <= _SOURCE_CHARACTERS and _PLAIN_SOURCE.fullmatch(source):
        return f"{source}."
    words = _words(source, _SOURCE_CHARACTERS - _SOURCE_DIGEST_CHARACTERS - 1)
    return "-".join(part for part in (words, _digest(source, _SOURCE_DIGEST_CHARACTERS)) if part) + "."


def _words(name: str, limit: int) -> str:
    """Return the readable part of a name, in lower-case ASCII letters, digits and hyphens; its end if it is long."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(words) > limit:
        end = words[-limit:]
        # Not in the middle of a word, if there is a later beginning.
        words = end.partition("-")[2] or end
    return words.strip("-")


def _digest(name: str, characters: int) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:characters]
