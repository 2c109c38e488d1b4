"""Deletes the oldest backups of a deployment beside the newest one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kb_reconciler.backup import manifest as manifests
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.folder import locked
from kb_reconciler.backup.manifest import BackupHeader, BackupJournal, read_manifest

_DELETING: Final = ".deleted-backup"


def delete_old_backups(folder: Path, header: BackupHeader, *, keep: int) -> list[Path]:
    """Delete backups beside `folder`, so that the newest `keep` finished ones are left.

    Only backups of the same deployment and scope are counted and deleted. An unfinished one is deleted if it began
    before all that are kept, and no process is writing it. A folder that can't be read as a backup is never touched.

    Args:
        folder: of a finished backup.
        header: its origin.
        keep: at least 1.

    Returns:
        The folders that are gone.
    """
    beside = folder.absolute().parent
    for rest in beside.glob(f"*{_DELETING}"):
        shutil.rmtree(rest)
    headers = {each: found for each in beside.iterdir() if (found := _read_header(each)) and _is_same(found, header)}
    finished = sorted((each.started_at for each in _finished(headers)), reverse=True)
    if len(finished) < keep:
        return []
    oldest_kept = finished[keep - 1]
    return [each for each in sorted(headers) if headers[each].started_at < oldest_kept and _delete(each)]


def _finished(headers: dict[Path, BackupHeader]) -> Iterator[BackupHeader]:
    return (header for folder, header in headers.items() if (folder / manifests.NAME).exists())


def _read_header(folder: Path) -> BackupHeader | None:
    if not folder.is_dir() or folder.is_symlink():
        return None
    try:
        if (folder / manifests.NAME).exists():
            return read_manifest(folder).header
        started = BackupJournal(folder).read()
    except (BackupRefused, PermissionError):
        # A new volume has a folder `lost+found` that only root may read.
        return None
    return None if started is None else started[0]


def _is_same(one: BackupHeader, other: BackupHeader) -> bool:
    # Not `oldest_reader`: the backups of an earlier version are backups of the same data.
    return (one.database, one.deployment, one.scope) == (other.database, other.deployment, other.scope)


def _delete(folder: Path) -> bool:
    """Delete a backup; return False if a process is writing it.

    It is renamed first: a crash leaves no half of a backup that looks like a whole one.
    """
    try:
        with locked(folder):
            renamed = folder.rename(folder.with_name(f"{folder.name}{_DELETING}"))
    except BackupRefused:
        return False
    shutil.rmtree(renamed)
    return True
