"""Reads a `.kbx` file that anyone may have written: in pieces, within limits, and checked.

Nothing is unpacked to the disk. A member is checked while it is read, so a whole pass over the file has to end before
anything in it is believed.
"""

import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from pydantic import ValidationError

from kb_contracts.reasons.field_reasons import describe
from kb_reconciler.export.kbx import (
    BYTES_PER_NUMBER,
    CONFIGURATION,
    DOCUMENTS,
    FLOATS,
    FORMAT,
    MANIFEST,
    MEMBERS,
    SCHEMA_VERSION,
    TAGS,
    TEXTS,
    VECTORS,
    DocumentLine,
    FileConfiguration,
    FileModel,
    KbxManifest,
    TagLine,
    TextLine,
    UnreadableFile,
    VectorLine,
)

MAX_RATIO: Final = 100
"""Limit of the unpacked size of a member, as a multiple of its size in the file; beyond `FREE_BYTES`."""
FREE_BYTES: Final = 100_000_000
_BYTES_OF_AN_ESCAPE: Final = 6
_LINE_BYTES: Final = {
    TAGS: 10_000,
    DOCUMENTS: 20_000_000,
    VECTORS: 1_000,
}
"""Limits of a line: the longest one that is allowed, with all characters escaped."""
_BYTES_OF_PAGES: Final = 5_000_000
_DOCUMENT_BYTES: Final = 1_000_000
_BUFFER_BYTES: Final = 1_048_576
_ENCRYPTED: Final = 0x1
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

M = TypeVar("M", bound=FileModel)


class KbxReader:
    """Open file. Entering it reads the manifest; each method reads a member from its beginning.

    Args:
        path: of the file.
        max_text_bytes: limit of a text in UTF-8.
    Raises:
        UnreadableFile: on entering and in each method: the file is not what docs/reference/kbx.md says.
    """

    def __init__(self, path: Path, *, max_text_bytes: int) -> None:
        self._path = path
        self._max_text_bytes = max_text_bytes
        self._line_bytes = {**_LINE_BYTES, TEXTS: max_text_bytes * _BYTES_OF_AN_ESCAPE + _BYTES_OF_PAGES}
        self.manifest: KbxManifest

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise UnreadableFile(f"{self._path} can't be opened: {error.strerror or type(error).__name__}") from None
        try:
            self._zip = zipfile.ZipFile(self._file)
            self.manifest = self._read_manifest()
            self._check_members()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
            self._file.close()
            raise UnreadableFile(f"{self._path} is not a zip file, so it is no .kbx file") from None
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The zip file would keep it open while a member is open.
        self._file.close()

    def configuration(self) -> FileConfiguration:
        with self._open(CONFIGURATION) as member:
            found = _parse(FileConfiguration, member.read_all(_DOCUMENT_BYTES), CONFIGURATION)
        for name in ("embedding_model", "embedding_dimensions", "text_normalization"):
            if getattr(found, name) != getattr(self.manifest, name):
                raise UnreadableFile(f"{CONFIGURATION}: {name} differs from that of {MANIFEST}")
        return found

    def tags(self) -> Iterator[TagLine]:
        yield from self._lines(TAGS, TagLine, key="tag_id", count=self.manifest.counts.tags)

    def documents(self) -> Iterator[tuple[DocumentLine, TextLine]]:
        """Yield each document with its text."""
        count = self.manifest.counts.documents
        lines = self._lines(DOCUMENTS, DocumentLine, key="document_id", count=count)
        texts = self._lines(TEXTS, TextLine, key="document_id", count=count)
        # Both have `count` lines, or one of them raises an error that says so.
        for number, (document, text) in enumerate(zip(lines, texts, strict=True), start=1):
            if document.document_id != text.document_id:
                raise UnreadableFile(f"{TEXTS} line {number}: the text of another document than in {DOCUMENTS}")
            _check_text(text, number, max_bytes=self._max_text_bytes)
            yield document, text

    def vectors(self) -> Iterator[tuple[VectorLine, bytes]]:
        """Yield each vector, as little-endian float32 numbers, with the hash of its text."""
        row_bytes = self.manifest.embedding_dimensions * BYTES_PER_NUMBER
        unpack = struct.Struct(f"<{self.manifest.embedding_dimensions}f").unpack
        count = self.manifest.counts.vectors
        if self.manifest.members[FLOATS].bytes != count * row_bytes:
            raise UnreadableFile(f"{FLOATS} does not have {count} rows of {row_bytes} bytes")
        with self._open(FLOATS) as floats:
            lines = self._lines(VECTORS, VectorLine, key="chunk_hash", count=count)
            for number, line in enumerate(lines, start=1):
                row = floats.read_exactly(row_bytes)
                if not _is_sound(unpack(row)):
                    raise UnreadableFile(f"{FLOATS} row {number}: not a vector of finite numbers other than 0")
                yield line, row
            floats.finish()

    @property
    def has_vectors(self) -> bool:
        return self.manifest.contents == "full"

    @property
    def has_documents(self) -> bool:
        return self.manifest.contents != "config-only"

    def _read_manifest(self) -> KbxManifest:
        names = [info.filename for info in self._zip.infolist()]
        if names.count(MANIFEST) != 1:
            raise UnreadableFile(f"{self._path} has no {MANIFEST}, so it is no .kbx file")
        with self._unpacked(MANIFEST) as stream:
            written = stream.read(_DOCUMENT_BYTES + 1)
        if len(written) > _DOCUMENT_BYTES:
            raise UnreadableFile(f"{MANIFEST} has more than {_DOCUMENT_BYTES} bytes")
        _check_version(written)
        return _parse(KbxManifest, written, MANIFEST)

    def _check_members(self) -> None:
        infos = [info for info in self._zip.infolist() if info.filename != MANIFEST]
        names = [info.filename for info in infos]
        wanted = MEMBERS[self.manifest.contents]
        if len(set(names)) != len(names):
            raise UnreadableFile(f"{self._path} has a member twice")
        for name in wanted:
            if name not in names or name not in self.manifest.members:
                raise UnreadableFile(f"{name} is missing")
        if len(names) != len(wanted) or len(self.manifest.members) != len(wanted):
            raise UnreadableFile(f"{self._path} has members other than {', '.join((MANIFEST, *wanted))}")
        for info in infos:
            _check_packing(info)
            if info.file_size != self.manifest.members[info.filename].bytes:
                raise UnreadableFile(f"{info.filename} has another size than {MANIFEST} says")

    def _lines(self, name: str, model: type[M], *, key: str, count: int) -> Iterator[M]:
        """Yield the lines of a member, which are in ascending order of `key`, each key once."""
        limit, previous, number = self._line_bytes[name], "", 0
        with self._open(name) as member:
            while line := member.read_line(limit):
                number += 1
                if len(line) > limit:
                    raise UnreadableFile(f"{name} line {number}: longer than {limit} bytes")
                parsed = _parse(model, line, f"{name} line {number}")
                if (current := str(getattr(parsed, key))) <= previous:
                    raise UnreadableFile(f"{name} line {number}: {key} is not greater than in the line before")
                previous = current
                yield parsed
            if number != count:
                raise UnreadableFile(f"{name} has {number} lines, and {MANIFEST} says {count}")

    @contextmanager
    def _open(self, name: str) -> Iterator["_Member"]:
        with self._unpacked(name) as stream:
            member = _Member(name, stream, self.manifest.members[name].sha256)
            yield member
            member.finish()

    @contextmanager
    def _unpacked(self, name: str) -> Iterator[io.BufferedReader]:
        try:
            with self._zip.open(name) as packed, io.BufferedReader(packed, _BUFFER_BYTES) as stream:  # type: ignore[type-var]  # typeshed wants a RawIOBase
                yield stream  # type: ignore[misc]  # likewise
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
            raise UnreadableFile(f"{name} is damaged") from None


class _Member:
    """Member that is being read, with the checksum of what was read."""

    def __init__(self, name: str, stream: io.BufferedReader, sha256: str) -> None:
        self._name = name
        self._stream = stream
        self._expected = sha256
        self._digest = hashlib.sha256()

    def read_line(self, limit: int) -> bytes:
        """Return the next line, or the first `limit + 1` bytes of a longer one; empty at the end."""
        return self._noted(self._stream.readline(limit + 1))

    def read_exactly(self, size: int) -> bytes:
        found = self._noted(self._stream.read(size))
        if len(found) != size:
            raise UnreadableFile(f"{self._name} is too short")
        return found

    def read_all(self, limit: int) -> bytes:
        found = self._noted(self._stream.read(limit + 1))
        if len(found) > limit:
            raise UnreadableFile(f"{self._name} has more than {limit} bytes")
        return found

    def finish(self) -> None:
        """Check that the member has ended, and was not altered."""
        if self._stream.read(1):
            raise UnreadableFile(f"{self._name} is longer than it should be")
        if self._digest.hexdigest() != self._expected:
            raise UnreadableFile(f"{self._name} was altered: its SHA-256 is not that of {MANIFEST}")

    def _noted(self, found: bytes) -> bytes:
        self._digest.update(found)
        return found


def _check_packing(info: zipfile.ZipInfo) -> None:
    if info.flag_bits & _ENCRYPTED:
        raise UnreadableFile(f"{info.filename} is encrypted; decrypt the file first")
    if info.compress_type not in _COMPRESSIONS:
        raise UnreadableFile(f"{info.filename} is compressed by another method than deflate")
    if info.file_size > FREE_BYTES + MAX_RATIO * info.compress_size:
        raise UnreadableFile(f"{info.filename} unpacks to more than {MAX_RATIO} times its size")


def _check_version(written: bytes) -> None:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{MANIFEST} is not JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UnreadableFile(f"{MANIFEST} names another format than {FORMAT!r}")
    version = found.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnreadableFile(f"{MANIFEST} has no schema_version")
    if version > SCHEMA_VERSION:
        raise UnreadableFile(
            f"the file has schema version {min(version, 10**9)}, and this version of kb reads up to {SCHEMA_VERSION}: "
            "update kb"
        )


def _check_text(line: TextLine, number: int, *, max_bytes: int) -> None:
    # Quick for a text that is short enough in any case.
    if len(line.text) * 4 > max_bytes and len(line.text.encode()) > max_bytes:
        raise UnreadableFile(
            f"{TEXTS} line {number}: the text of document {line.document_id!r} has more than {max_bytes} bytes"
        )
    end = 0
    for page in line.pages:
        if not end <= page.start <= page.end <= len(line.text):
            raise UnreadableFile(
                f"{TEXTS} line {number}: the pages of document {line.document_id!r} overlap or are not in its text"
            )
        end = page.end


def _is_sound(numbers: tuple[float, ...]) -> bool:
    # Of zeros, no search can compute the cosine.
    return any(numbers) and all(map(math.isfinite, numbers))


def _parse(model: type[M], written: bytes, where: str) -> M:
    try:
        return model.model_validate_json(written)
    except ValidationError as error:
        raise UnreadableFile(f"{where}: {describe(error, model, whole='JSON', most=3)}") from None
    except (ValueError, RecursionError, OverflowError):
        raise UnreadableFile(f"{where}: not JSON") from None
