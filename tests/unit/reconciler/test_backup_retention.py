"""`kb backup --keep` deletes the oldest backups of the same deployment, and nothing else."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kb_reconciler.backup.folder import locked
from kb_reconciler.backup.manifest import BackupHeader, BackupJournal, Manifest, write_manifest
from kb_reconciler.backup.retention import delete_old_backups


def header(day: int, *, deployment: str = "d1", kb_id: str | None = None, oldest_reader: int = 1) -> BackupHeader:
    return BackupHeader(
        database="kb",
        deployment=deployment,
        organization_id=None,
        kb_id=kb_id,
        started_at=datetime(2026, 1, day, tzinfo=UTC),
        oldest_reader=oldest_reader,
    )


def finish(folder: Path, origin: BackupHeader) -> Path:
    folder.mkdir()
    (folder / "kb").mkdir()
    (folder / "kb" / "documents.bson.gz").write_bytes(b"rows")
    write_manifest(
        folder,
        Manifest(
            format=1,
            header=origin,
            finished_at=origin.started_at,
            server_version="8.0",
            files={},
            metadata={},
            cluster_times={},
            knowledge_bases=[],
            left_out={},
            provider_key_ids=[],
        ),
    )
    return folder


def begin(folder: Path, origin: BackupHeader) -> Path:
    folder.mkdir()
    BackupJournal(folder).start(origin)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_the_newest_backups_are_left(tmp_path: Path) -> None:
    # The names are in another order than the times.
    folders = [finish(tmp_path / name, header(day)) for name, day in (("c", 1), ("a", 2), ("d", 3), ("b", 4))]
    assert delete_old_backups(folders[-1], header(4), keep=2) == [tmp_path / "a", tmp_path / "c"]
    assert names(tmp_path) == ["b", "d"]


def test_nothing_is_deleted_while_there_are_fewer_than_to_be_kept(tmp_path: Path) -> None:
    newest = finish(tmp_path / "new", header(2))
    begin(tmp_path / "unfinished", header(1))
    assert delete_old_backups(newest, header(2), keep=2) == []
    assert names(tmp_path) == ["new", "unfinished"]


def test_an_unfinished_backup_counts_for_none_and_is_deleted_when_it_is_older_than_all_that_are_kept(
    tmp_path: Path,
) -> None:
    begin(tmp_path / "given-up", header(1))
    finish(tmp_path / "old", header(2))
    begin(tmp_path / "interrupted", header(3))
    newest = finish(tmp_path / "new", header(4))
    assert delete_old_backups(newest, header(4), keep=2) == [tmp_path / "given-up"]
    assert names(tmp_path) == ["interrupted", "new", "old"]


def test_a_backup_that_is_being_written_is_left(tmp_path: Path) -> None:
    slow = begin(tmp_path / "slow", header(1))
    newest = finish(tmp_path / "new", header(2))
    with locked(slow):
        assert delete_old_backups(newest, header(2), keep=1) == []
    assert names(tmp_path) == ["new", "slow"]


@pytest.mark.parametrize("other", [header(1, deployment="d2"), header(1, kb_id="0123456789abcdef01234567")])
def test_backups_of_another_deployment_or_scope_are_left(tmp_path: Path, other: BackupHeader) -> None:
    finish(tmp_path / "other", other)
    newest = finish(tmp_path / "new", header(2))
    assert delete_old_backups(newest, header(2), keep=1) == []
    assert names(tmp_path) == ["new", "other"]


def test_backups_of_an_earlier_version_are_deleted(tmp_path: Path) -> None:
    finish(tmp_path / "old", header(1, oldest_reader=1))
    newest = finish(tmp_path / "new", header(2, oldest_reader=2))
    assert delete_old_backups(newest, header(2, oldest_reader=2), keep=1) == [tmp_path / "old"]


def test_what_is_no_backup_is_left(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme").write_text("not a backup")
    (tmp_path / "file").write_text("not a folder")
    damaged = finish(tmp_path / "damaged", header(1))
    (damaged / "manifest.json").write_text("{}")
    link = tmp_path / "link"
    link.symlink_to(finish(tmp_path.parent / f"{tmp_path.name}-elsewhere", header(1)))
    newest = finish(tmp_path / "new", header(2))
    assert delete_old_backups(newest, header(2), keep=1) == []
    assert names(tmp_path) == ["damaged", "file", "link", "new", "notes"]


def test_a_deletion_that_was_interrupted_ends_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "old.deleted-backup").mkdir()
    newest = finish(tmp_path / "new", header(2))
    assert delete_old_backups(newest, header(2), keep=1) == []
    assert names(tmp_path) == ["new"]
