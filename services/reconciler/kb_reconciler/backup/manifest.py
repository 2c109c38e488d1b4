"""The manifest of a finished backup, and the journal of one that is not finished yet."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from kb_reconciler.backup.dump_layout import FileEntry, sync_folder
from kb_reconciler.backup.errors import BackupRefused, DamagedBackup
from kb_reconciler.backup.scope import BackupScope
from kb_reconciler.backup.snapshots import ClusterTime
from kb_shared.mongo import schema_version

NAME: Final = "manifest.json"
JOURNAL: Final = "journal.jsonl"
FORMAT: Final = 1
"""Version of the manifest. A restore refuses a newer one."""


class BackupHeader(BaseModel):
    """Origin of a backup: a backup that was interrupted continues only with the same one."""

    model_config = ConfigDict(frozen=True)

    database: str
    deployment: str
    """UUID of the collection of KBs: another deployment, or a restored one, has another."""
    organization_id: str | None
    kb_id: str | None
    started_at: datetime
    oldest_reader: int = schema_version.OLDEST_READER
    """Lowest schema version of code that may work with the rows."""

    @property
    def scope(self) -> BackupScope:
        return BackupScope(self.organization_id, self.kb_id)

    def check_version(self) -> None:
        """Check that this code knows all that the rows may contain.

        Raises:
            BackupRefused: they need a later version.
        """
        if self.oldest_reader > schema_version.SCHEMA_VERSION:
            raise BackupRefused(
                f"the data needs schema version {self.oldest_reader} or later, and this `kb` has schema version"
                f" {schema_version.SCHEMA_VERSION}: use the `kb` of a later version"
            )

    def has_same_origin(self, other: "BackupHeader") -> bool:
        return self.model_copy(update={"started_at": other.started_at}) == other


class BackedUpKnowledgeBase(BaseModel):
    """KB of a backup."""

    model_config = ConfigDict(frozen=True)

    kb_id: str
    organization_id: str
    vector_collection: str
    search_indexes: Sequence[Mapping[str, Any]] = ()
    """Definitions of its search indexes, for reference: a restore creates them from the row of the KB."""


class BackupPart(BaseModel):
    """Rows that were read at one cluster time: those of a KB, or a collection."""

    model_config = ConfigDict(frozen=True)

    name: str
    cluster_times: tuple[ClusterTime, ...]
    """Times at which it was read. Only a collection whose rows do not depend on each other may have several."""
    files: Mapping[str, FileEntry]
    """Files with rows, by collection."""
    metadata: Mapping[str, FileEntry]
    """Files with options and indexes, by collection."""
    knowledge_base: BackedUpKnowledgeBase | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())


class Manifest(BaseModel):
    """Contents of a finished backup."""

    model_config = ConfigDict(frozen=True)

    format: int
    header: BackupHeader
    finished_at: datetime
    server_version: str
    files: Mapping[str, FileEntry]
    """Files with rows, by collection."""
    metadata: Mapping[str, FileEntry]
    """Files with options and indexes, by collection."""
    cluster_times: Mapping[str, tuple[ClusterTime, ...]]
    """Times at which each part was read: `documents`, or `kb/{kb_id}` for all rows of a KB."""
    knowledge_bases: Sequence[BackedUpKnowledgeBase]
    left_out: Mapping[str, str]
    """Collections of the database that the backup does not have, each with the reason."""
    provider_key_ids: Sequence[str]
    """Ids of the keys of KB_PROVIDER_KEYS that provider keys are sealed with."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.size for file in (*self.files.values(), *self.metadata.values()))

    @property
    def has_one_time(self) -> bool:
        """Return whether everything is of one cluster time."""
        return len({time for times in self.cluster_times.values() for time in times}) <= 1


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Store the manifest, which makes the backup a finished one."""
    content = manifest.model_dump(mode="json")
    partial = folder / f"{NAME}.partial"
    with partial.open("w") as file:
        json.dump({**content, "checksum": _checksum(content)}, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(folder / NAME)
    sync_folder(folder)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a finished backup.

    Raises:
        BackupRefused: there is none, or it is of a newer version.
        DamagedBackup: it was truncated or altered.
    """
    if not (folder / NAME).is_file():
        raise BackupRefused(_no_manifest(folder))
    try:
        content = json.loads((folder / NAME).read_text())
        checksum = content.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise DamagedBackup(f"{NAME} was truncated or altered") from None
    if checksum != _checksum(content):
        raise DamagedBackup(f"{NAME} was altered: it has another checksum than it says")
    if content.get("format", 0) > FORMAT:
        raise BackupRefused(f"the backup is of a newer version (format {content['format']}): use that version's `kb`")
    return Manifest.model_validate(content)


def _no_manifest(folder: Path) -> str:
    if (folder / JOURNAL).is_file():
        return f"the backup in {folder} is not finished: run `kb backup` with the same folder again, it continues"
    return f"{folder} has no {NAME}: it is not a folder of `kb backup`"


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class BackupJournal:
    """Parts of a backup that are finished, one line each: what a later run need not read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / JOURNAL

    def read(self) -> tuple[BackupHeader, dict[str, BackupPart]] | None:
        """Return what was started, and its finished parts by name; None if nothing was.

        Raises:
            DamagedBackup: a line other than the last, which a crash may have cut, can't be read.
        """
        if not self._path.is_file():
            return None
        first, *lines = self._path.read_text().split("\n")
        if not lines:
            return None
        *complete, _ = lines
        try:
            header = BackupHeader.model_validate_json(first)
            parts = [BackupPart.model_validate_json(line) for line in complete]
        except ValidationError:
            raise DamagedBackup(f"{JOURNAL} was altered: begin a new backup in another folder") from None
        return header, {part.name: part for part in parts}

    def start(self, header: BackupHeader, parts: Sequence[BackupPart] = ()) -> None:
        """Write the header, and the parts that are kept of an earlier run."""
        partial = self._path.with_name(f"{JOURNAL}.partial")
        lines = [header.model_dump_json(), *(part.model_dump_json() for part in parts)]
        with partial.open("w") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self._path)
        sync_folder(self._folder)

    def add(self, part: BackupPart) -> None:
        """Note a finished part durably."""
        with self._path.open("a") as file:
            file.write(f"{part.model_dump_json()}\n")
            file.flush()
            os.fsync(file.fileno())

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)
