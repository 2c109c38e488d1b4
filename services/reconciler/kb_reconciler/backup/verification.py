"""Checks a backup before anything of it is restored."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kb_reconciler.backup.dump_layout import FileEntry, check_file, iterate_rows, read_metadata
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.manifest import BackedUpKnowledgeBase, Manifest, read_manifest
from kb_reconciler.backup.progress import ProgressDisplay
from kb_reconciler.backup.scope import OF_KNOWLEDGE_BASES, SHARED, BackupScope
from kb_shared.mongo.knowledge_bases import build_collection_name

_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """Backup whose files are as they were written."""

    folder: Path
    manifest: Manifest
    scope: BackupScope
    """Part of it that is restored."""
    knowledge_bases: Sequence[BackedUpKnowledgeBase]
    """KBs of this part."""

    @property
    def collections(self) -> list[str]:
        """Return the collections to restore, each after those that its rows refer to."""
        chunks = [kb.vector_collection for kb in self.knowledge_bases]
        known = [*OF_KNOWLEDGE_BASES, *SHARED, *chunks]
        unknown = [
            name
            for name in self.manifest.files
            if name not in known and not name.startswith(build_collection_name("")) and self.scope.is_whole
        ]
        return [name for name in (*known, *unknown) if name in self.manifest.files]

    @property
    def is_restored_whole(self) -> bool:
        """Return whether everything in the backup is restored."""
        return self.scope in (BackupScope(), self.manifest.header.scope)


async def verify(folder: Path, scope: BackupScope, *, progress: ProgressDisplay) -> VerifiedBackup:
    """Read the manifest and every file that `scope` needs.

    Args:
        folder: of a finished backup.
        scope: what is to be restored; without organization and KB, everything in the backup.

    Raises:
        BackupRefused: the backup has nothing of the scope, or was written by a later version.
        DamagedBackup: a file is missing, truncated or altered.
    """
    manifest = read_manifest(folder)
    manifest.header.check_version()
    wanted = manifest.header.scope if scope.is_whole else scope
    if not manifest.header.scope.covers(wanted):
        raise BackupRefused(f"the backup is of {manifest.header.scope}: it has nothing of {wanted}")
    kbs = [kb for kb in manifest.knowledge_bases if _is_in(kb, wanted)]
    if not kbs and not wanted.is_whole:
        raise BackupRefused(f"the backup has no knowledge base of {wanted}")
    backup = VerifiedBackup(folder, manifest, wanted, kbs)
    for name in backup.collections:
        progress.begin(f"checking {name}", rows=manifest.files[name].rows)
        check_file(folder, manifest.metadata[name])
        read_metadata(folder, manifest.metadata[name])
        await asyncio.to_thread(_check_rows, folder, manifest.files[name], progress)
    return backup


def _is_in(kb: BackedUpKnowledgeBase, scope: BackupScope) -> bool:
    return scope.kb_id in (None, kb.kb_id) and scope.organization_id in (None, kb.organization_id)


def _check_rows(folder: Path, entry: FileEntry, progress: ProgressDisplay) -> None:
    check_file(folder, entry)
    rows = 0
    for _ in iterate_rows(folder, entry):
        rows += 1
        if rows % _ROWS_AT_ONCE == 0:
            progress.advance(_ROWS_AT_ONCE)
    progress.advance(rows % _ROWS_AT_ONCE)
