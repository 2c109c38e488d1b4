"""A file that is to be pushed, under the name that it keeps on every machine."""

import unicodedata
from dataclasses import dataclass
from pathlib import Path

from kb_client.files.document_ids import make_document_id


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: Path
    source: str
    """Name of the folder that ids are relative to."""
    relative_path: str
    """Path within that folder, with slashes and composed characters (NFC) on every system."""
    size_bytes: int
    modified_at_ns: int

    @property
    def document_id(self) -> str:
        return make_document_id(self.source, relative_path=self.relative_path)


def relative_name(path: Path, root: Path) -> str:
    return normalize_name(path.relative_to(root).as_posix())


def normalize_name(name: str) -> str:
    """Return a name in one form: macOS decomposes accents; bytes that are not UTF-8 become replacement characters."""
    readable = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return unicodedata.normalize("NFC", readable)
