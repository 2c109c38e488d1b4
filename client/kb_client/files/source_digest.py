"""Digest of a file by which the next push knows, without parsing it, that the server has it already."""

import hashlib
from pathlib import Path
from typing import Final

from kb_client.files.extraction import UnreadableDocument
from kb_client.files.file_problem import FileProblem
from kb_client.files.found_file import FoundFile
from kb_client.files.limits import ParseLimits

READER_VERSION: Final = 4
"""Version of the parsers. Raise it when a change gives better texts, so that the next push sends all files again."""

_DIGEST_CHARACTERS: Final = 32


def digest_bytes(data: bytes) -> str:
    """Return the digest of the contents of a file. Its modification time does not count: a checkout changes it."""
    digest = hashlib.sha256(f"{READER_VERSION}\n".encode())
    digest.update(data)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def digest_file(found: FoundFile, limits: ParseLimits | None = None) -> str | FileProblem:
    """Read a file and return the digest of its contents."""
    try:
        return digest_bytes(read_bounded(found.path, limits or ParseLimits()))
    except UnreadableDocument as error:
        return FileProblem(found.path, error.reason, error.remedy)


def read_bounded(path: Path, limits: ParseLimits) -> bytes:
    """Read a whole file. Raises UnreadableDocument if that fails or it is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.file_bytes + 1)
    except OSError as error:
        raise UnreadableDocument(
            f"it can't be read ({error.strerror})", "check that it exists and its permissions"
        ) from None
    if len(data) > limits.file_bytes:
        raise UnreadableDocument(
            f"it has more than {limits.file_bytes // 1_000_000} MB", "split it, or export its text"
        )
    return data
