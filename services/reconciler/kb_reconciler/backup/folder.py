"""The folder of a backup: empty, or with a backup that continues."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_reconciler.backup import manifest as manifests
from kb_reconciler.backup.dump_layout import check_file
from kb_reconciler.backup.errors import BackupRefused, DamagedBackup
from kb_reconciler.backup.manifest import BackupHeader, BackupJournal, BackupPart
from kb_reconciler.backup.progress import ProgressDisplay


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder, readable only by its owner, and keep other processes from writing to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BackupRefused(f"another process is writing a backup into {folder}") from None
    finally:
        os.close(descriptor)


def begin(
    folder: Path, journal: BackupJournal, header: BackupHeader, *, progress: ProgressDisplay
) -> dict[str, BackupPart]:
    """Return the finished parts of an earlier run by name, whose files are still as they were written."""
    if (folder / manifests.NAME).exists():
        raise BackupRefused(f"{folder} has a finished backup: choose another folder, or delete it")
    started = journal.read()
    if started is None:
        if any(each.name != f"{manifests.JOURNAL}.partial" for each in folder.iterdir()):
            raise BackupRefused(f"{folder} is not empty, and has no backup that could be continued")
        journal.start(header)
        return {}
    earlier, parts = started
    if not header.has_same_origin(earlier):
        raise BackupRefused(
            f"{folder} has an unfinished backup of {earlier.scope} in database {earlier.database!r} of"
            f" {earlier.started_at:%Y-%m-%d %H:%M} UTC, of another scope or deployment than this one: choose another"
            " folder, or delete it"
        )
    kept = {name: part for name, part in parts.items() if _is_intact(folder, part)}
    journal.start(earlier, [*kept.values()])
    progress.say(f"continuing the backup of {earlier.started_at:%Y-%m-%d %H:%M} UTC: {len(kept)} parts are finished")
    return kept


def _is_intact(folder: Path, part: BackupPart) -> bool:
    try:
        for file in (*part.files.values(), *part.metadata.values()):
            check_file(folder, file)
    except DamagedBackup:
        return False
    return True
