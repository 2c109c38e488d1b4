"""Writes a `.kbx` file in pieces. It appears under its name when it is complete."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from types import TracebackType
from typing import IO, Any, Final, Self

from kb_reconciler.export.kbx import FLOATS, MANIFEST, KbxManifest, MemberFacts, UnreadableFile

# The same content always gives the same bytes.
_DATE: Final = (2026, 1, 1, 0, 0, 0)


class KbxWriter:
    """File that is being written. Leaving it after an error leaves nothing behind.

    Raises:
        UnreadableFile: on entering: `path` exists, or its folder can't be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.members: dict[str, MemberFacts] = {}

    def __enter__(self) -> Self:
        if self._path.exists():
            raise UnreadableFile(f"{self._path} exists; choose another name, or delete it first")
        try:
            # Only for its owner, because it has the texts of an organization, and not that of another export.
            descriptor, partial = mkstemp(prefix=f"{self._path.name}.", suffix=".partial", dir=self._path.parent)
        except OSError as error:
            raise UnreadableFile(f"{self._path} can't be written: {error.strerror}") from None
        self._partial = Path(partial)
        self._file = os.fdopen(descriptor, "wb")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Only `finish` gives the file its name.
        with suppress(OSError, ValueError):
            self._zip.close()
        with suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)

    @contextmanager
    def member(self, name: str) -> Iterator["MemberWriter"]:
        """Open a member; one at a time."""
        info = zipfile.ZipInfo(name, _DATE)
        info.external_attr = 0o600 << 16
        # Vectors hardly shrink.
        info.compress_type = zipfile.ZIP_STORED if name == FLOATS else zipfile.ZIP_DEFLATED
        with self._zip.open(info, "w", force_zip64=True) as stream:
            writer = MemberWriter(stream)
            yield writer
        self.members[name] = writer.facts

    def finish(self, manifest: KbxManifest) -> None:
        """Write the manifest, and give the file its name once it is on the disk."""
        with self.member(MANIFEST) as member:
            member.write(manifest.model_dump_json(indent=2).encode())
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self._path)


class MemberWriter:
    """Member that is being written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        self._digest.update(data)
        self._bytes += len(data)

    def write_line(self, fields: Mapping[str, Any]) -> None:
        self.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    @property
    def facts(self) -> MemberFacts:
        return MemberFacts(bytes=self._bytes, sha256=self._digest.hexdigest())
