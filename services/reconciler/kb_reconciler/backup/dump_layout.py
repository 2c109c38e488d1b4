"""Files as `mongodump --gzip` writes them: `<database>/<collection>.bson.gz` and `<collection>.metadata.json.gz`.

Rows are BSON documents one after the other. A file may consist of several gzip streams, which gunzip and mongorestore
read as one.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bson import json_util
from bson.json_util import CANONICAL_JSON_OPTIONS
from pydantic import BaseModel, ConfigDict

from kb_reconciler.backup.errors import DamagedBackup

# Vectors, most of a backup, hardly compress: a higher level takes twice as long for a few percent.
_LEVEL: Final = 1
_PARTIAL: Final = ".partial"
_PIECE_BYTES: Final = 1_000_000
_LENGTH_BYTES: Final = 4
_SHORTEST_ROW: Final = 5
_LONGEST_ROW: Final = 17_000_000
"""Length in bytes above the 16 MiB that MongoDB stores, with its own additions."""


class FileEntry(BaseModel):
    """File of a backup, with what is needed to notice that it was truncated or altered."""

    model_config = ConfigDict(frozen=True)

    path: str
    """Path in the folder of the backup."""
    size: int
    """Size in bytes."""
    sha256: str
    rows: int = 0


def rows_path(database: str, collection: str) -> str:
    return f"{database}/{_escape(collection)}.bson.gz"


def metadata_path(database: str, collection: str) -> str:
    return f"{database}/{_escape(collection)}.metadata.json.gz"


def _escape(collection: str) -> str:
    return quote(collection, safe="")


def build_metadata(info: Mapping[str, Any], indexes: Sequence[Mapping[str, Any]]) -> bytes:
    """Build the metadata of a collection: canonical extended JSON, with the fields in mongodump's order.

    Args:
        info: as `listCollections` returns it.
        indexes: as `listIndexes` returns them.
    """
    options = info.get("options") or {}
    metadata = {
        **({"options": options} if options else {}),
        "indexes": list(indexes),
        "uuid": bytes(info["info"]["uuid"]).hex(),
        "collectionName": info["name"],
        "type": info["type"],
    }
    canonical = json.loads(json_util.dumps(metadata, json_options=CANONICAL_JSON_OPTIONS))
    return json.dumps(canonical, ensure_ascii=False, separators=(",", ":")).encode()


def read_metadata(folder: Path, entry: FileEntry) -> dict[str, Any]:
    """Return the metadata of a collection."""
    try:
        content = gzip.decompress((folder / entry.path).read_bytes())
        metadata: dict[str, Any] = json_util.loads(content.decode(), json_options=CANONICAL_JSON_OPTIONS)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DamagedBackup(f"{entry.path} can't be read ({type(error).__name__})") from None
    return metadata


class _NewFile:
    """File that computes size and SHA-256 of what is written to it, and gets its name when it is complete."""

    def __init__(self, folder: Path, path: str) -> None:
        self._path = path
        self._final = folder / path
        self._final.parent.mkdir(parents=True, exist_ok=True)
        self._partial = self._final.with_name(self._final.name + _PARTIAL)
        self._file = self._partial.open("wb")
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Flush the file, which gzip asks for."""
        self._file.flush()

    def finish(self, *, rows: int) -> FileEntry:
        """Write everything to the disk, and rename the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.rename(self._final)
        sync_folder(self._final.parent)
        return FileEntry(path=self._path, size=self._size, sha256=self._digest.hexdigest(), rows=rows)

    def abandon(self) -> None:
        """Delete what was written."""
        self._file.close()
        self._partial.unlink(missing_ok=True)


class DumpFile:
    """Compressed file of a backup while it is written."""

    def __init__(self, folder: Path, path: str) -> None:
        self._file = _NewFile(folder, path)
        self._gzip = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)
        self.rows = 0

    def write(self, data: bytes, *, rows: int = 0) -> None:
        self._gzip.write(data)
        self.rows += rows

    def finish(self) -> FileEntry:
        self._gzip.close()
        return self._file.finish(rows=self.rows)

    def abandon(self) -> None:
        self._file.abandon()


def write_file(folder: Path, path: str, *, content: bytes = b"") -> FileEntry:
    """Write a whole file, compressed."""
    file = DumpFile(folder, path)
    file.write(content)
    return file.finish()


def join_files(folder: Path, path: str, *, parts: Sequence[FileEntry]) -> FileEntry:
    """Write one file with the rows of all parts; their gzip streams follow one another."""
    if not parts:
        # Not even an empty file is gzip.
        return write_file(folder, path)
    file = _NewFile(folder, path)
    for part in parts:
        with (folder / part.path).open("rb") as source:
            while piece := source.read(_PIECE_BYTES):
                file.write(piece)
    return file.finish(rows=sum(part.rows for part in parts))


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def iterate_rows(folder: Path, entry: FileEntry) -> Iterator[bytes]:
    """Yield the rows of a file as BSON.

    Raises:
        DamagedBackup: the file is not gzip, ends within a row, or has another number of rows.
    """
    rows = 0
    try:
        with gzip.open(folder / entry.path) as file:
            while beginning := file.read(_LENGTH_BYTES):
                yield _read_row(entry, file, beginning)
                rows += 1
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedBackup(f"{entry.path} can't be read ({type(error).__name__})") from None
    if rows != entry.rows:
        raise DamagedBackup(f"{entry.path} has {rows} rows instead of {entry.rows}")


def _read_row(entry: FileEntry, file: gzip.GzipFile, beginning: bytes) -> bytes:
    length = int.from_bytes(beginning, "little", signed=True)
    if len(beginning) == _LENGTH_BYTES and _SHORTEST_ROW <= length <= _LONGEST_ROW:
        row = beginning + file.read(length - _LENGTH_BYTES)
        if len(row) == length and row.endswith(b"\0"):
            return row
    raise DamagedBackup(f"{entry.path} is not a sequence of BSON documents")


def check_file(folder: Path, entry: FileEntry) -> None:
    """Compare a file with its size and checksum.

    Raises:
        DamagedBackup: it is missing, truncated or altered.
    """
    file = folder / entry.path
    if not file.is_file():
        raise DamagedBackup(f"{entry.path} is missing")
    if (size := file.stat().st_size) != entry.size:
        raise DamagedBackup(f"{entry.path} has {size} bytes instead of {entry.size}: it was truncated or altered")
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != entry.sha256:
            raise DamagedBackup(f"{entry.path} has another SHA-256 than the manifest says: it was altered")


def count_rows(batch: bytes) -> tuple[int, bytes]:
    """Return how many BSON documents follow one another in `batch`, and the last of them."""
    rows, at, last = 0, 0, 0
    while at < len(batch):
        last = at
        at += int.from_bytes(batch[at : at + _LENGTH_BYTES], "little")
        rows += 1
    return rows, batch[last:]
