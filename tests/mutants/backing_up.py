"""Faults of backups and restores: data of others, damaged files that are restored, work that no worker takes up."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_BACKUP: Final = "services/reconciler/kb_reconciler/backup"
_TESTS: Final = "tests/integration/reconciler/test_backup.py"
_RETENTION_TESTS: Final = "tests/unit/reconciler/test_backup_retention.py"
_RESTORE_TESTS: Final = "tests/integration/reconciler/test_restore.py"

MUTANTS: Final = (
    Mutant(
        "restore-does-not-compare-checksums",
        f"{_BACKUP}/dump_layout.py",
        old='        if hashlib.file_digest(content, "sha256").hexdigest() != entry.sha256:\n',
        new="        if content.closed:\n",
        caught_by=in_file(_RESTORE_TESTS, "test_a_damaged_file_is_refused_before_anything_is_written"),
    ),
    Mutant(
        "restore-does-not-compare-the-checksum-of-the-manifest",
        f"{_BACKUP}/manifest.py",
        old="    if checksum != _checksum(content):\n",
        new="    if not checksum:\n",
        caught_by=in_file(_RESTORE_TESTS, "test_a_damaged_file_is_refused_before_anything_is_written"),
    ),
    Mutant(
        "restore-into-a-database-with-data",
        f"{_BACKUP}/marker.py",
        old="    if row is None and collections.keys() - {MARKER}:\n",
        new="    if row is None and not collections.keys() - {MARKER}:\n",
        caught_by=in_file(_RESTORE_TESTS, "test_a_database_that_is_not_empty_is_refused_and_not_touched"),
    ),
    Mutant(
        "restore-continues-another-one",
        f"{_BACKUP}/marker.py",
        old='    if row["backup"] != backup:\n',
        new='    if not row["backup"]:\n',
        caught_by=in_file(_RESTORE_TESTS, "test_an_interrupted_restore_continues_and_no_other_one_begins"),
    ),
    Mutant(
        "restored-jobs-keep-their-leases",
        f"{_BACKUP}/repair.py",
        old='no_lease = {"lease_owner": None, "lease_until": None}',
        new='no_lease = {"released": True}',
        caught_by=in_file(_RESTORE_TESTS, "test_jobs_of_workers_that_no_longer_exist_are_free_after_a_restore"),
    ),
    Mutant(
        "restore-publishes-commands",
        f"{_BACKUP}/repair.py",
        old='**{**options, "queued": True}',
        new="**options",
        caught_by=in_file(
            _RESTORE_TESTS,
            "test_what_is_lost_is_forecast_with_its_cost_and_queued_and_removals_wait_for_a_person",
        ),
    ),
    Mutant(
        "restored-knowledge-base-has-texts-of-others",
        f"{_BACKUP}/loading.py",
        old="if value in found]",
        new="if value]",
        caught_by=in_file(
            _RESTORE_TESTS, "test_a_knowledge_base_is_restored_out_of_a_whole_backup_without_documents_of_others"
        ),
    ),
    Mutant(
        "prefix-of-an-organization-admits-longer-names",
        f"{_BACKUP}/scope.py",
        old='    prefix = f"{organization_id}/"\n',
        new="    prefix = organization_id\n",
        caught_by=in_file(
            _RESTORE_TESTS, "test_an_organization_is_restored_out_of_a_whole_backup_without_anything_of_others"
        ),
    ),
    Mutant(
        "backup-reads-without-a-cluster-time",
        f"{_BACKUP}/snapshots.py",
        old='return {**super().document, "atClusterTime": self._time.timestamp}',
        new="return super().document",
        caught_by=in_file(_TESTS, "test_documents_that_are_indexed_meanwhile_are_in_it_as_a_whole_or_not_at_all"),
    ),
    Mutant(
        "damaged-files-of-an-interrupted-backup-are-kept",
        f"{_BACKUP}/folder.py",
        old="    except DamagedBackup:\n        return False\n",
        new="    except DamagedBackup:\n        return True\n",
        caught_by=in_file(_TESTS, "test_an_interrupted_backup_continues_with_the_files_that_are_intact"),
    ),
    Mutant(
        "retention-deletes-backups-of-others",
        f"{_BACKUP}/retention.py",
        old="    return (one.database, one.deployment, one.scope) == (other.database, other.deployment, other.scope)\n",
        new="    return one.database == other.database\n",
        caught_by=in_file(_RETENTION_TESTS, "test_backups_of_another_deployment_or_scope_are_left"),
    ),
    Mutant(
        "retention-keeps-only-the-newest",
        f"{_BACKUP}/retention.py",
        old="    oldest_kept = finished[keep - 1]\n",
        new="    oldest_kept = finished[0]\n",
        caught_by=in_file(_RETENTION_TESTS, "test_the_newest_backups_are_left"),
    ),
    Mutant(
        "retention-counts-unfinished-backups",
        f"{_BACKUP}/retention.py",
        old="    return (header for folder, header in headers.items() if (folder / manifests.NAME).exists())\n",
        new="    return (header for folder, header in headers.items() if folder.exists())\n",
        caught_by=in_file(
            _RETENTION_TESTS,
            "test_an_unfinished_backup_counts_for_none_and_is_deleted_when_it_is_older_than_all_that_are_kept",
        ),
    ),
)
