"""A backup is restored as it was, into an empty database, or not at all."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from kb_reconciler.backup.errors import BackupRefused, DamagedBackup
from kb_reconciler.backup.progress import SilentProgress
from kb_reconciler.backup.restore import RestoredDatabase, load
from kb_reconciler.backup.scope import MARKER, TEXT_FILE_CHUNKS, BackupScope
from kb_reconciler.backup.verification import verify
from kb_shared import failpoints
from kb_shared.mongo import index_jobs, knowledge_bases, reconcile_plans, schema_version
from kb_shared.mongo.database import Database, Row
from tests.integration.reconciler.backups import (
    TEXTS,
    WHOLE,
    SourceDeployment,
    back_up_whole,
    digests,
    index_specs,
    values_in,
)
from tests.integration.reconciler.conftest import FinishedBackup

OF_A_LATER_VERSION: Final[Row] = {
    "_id": schema_version.ID,
    "schema_version": schema_version.SCHEMA_VERSION + 1,
    "oldest_reader": schema_version.SCHEMA_VERSION + 1,
}
OF_TENANT = ("'org-mine'", "org-mine/", "of org-mine'")
OF_STRANGER = ("org-mine-too",)


async def restore(folder: Path, target: Database, scope: BackupScope = WHOLE) -> RestoredDatabase:
    backup = await verify(folder, scope, progress=SilentProgress())
    return await load(target, backup, progress=SilentProgress())


@pytest.fixture
def copied(finished: FinishedBackup, tmp_path: Path) -> Path:
    """A backup that a test may alter."""
    return Path(shutil.copytree(finished.folder, tmp_path / "copy"))


async def test_a_restored_deployment_has_the_same_rows_and_indexes_and_no_drift(
    source: SourceDeployment, finished: FinishedBackup, target: Database
) -> None:
    restored = await restore(finished.folder, target)
    assert restored.forecast.found == {}
    outcome = await restored.repair()
    assert outcome.report.total.found == {}
    assert await digests(target) == await digests(source.database)
    before = await index_specs(source.database)
    assert {name: before[name] for name in await index_specs(target)} == await index_specs(target)
    assert MARKER not in await target.list_collection_names()
    assert (restored.api_keys, restored.provider_key_ids, restored.has_search) == (2, ["k1"], True)


@pytest.mark.parametrize("is_mine", [True, False])
async def test_an_organization_is_restored_out_of_a_whole_backup_without_anything_of_others(
    source: SourceDeployment, finished: FinishedBackup, target: Database, *, is_mine: bool
) -> None:
    """The id of one organization begins with that of the other."""
    tenant = source.tenant if is_mine else source.stranger
    restored = await restore(finished.folder, target, BackupScope(organization_id=tenant.organization_id))
    assert restored.forecast.found == {}
    found = await values_in(target)
    assert f"'{tenant.organization_id}'" in found
    assert await target[TEXT_FILE_CHUNKS].count_documents({}) > 1
    for other in OF_STRANGER if is_mine else OF_TENANT:
        assert other not in found
    for kb in (source.strange_kb,) if is_mine else (source.kb, source.sibling):
        assert kb.kb_id not in found


async def test_a_knowledge_base_is_restored_out_of_a_whole_backup_without_documents_of_others(
    source: SourceDeployment, finished: FinishedBackup, target: Database
) -> None:
    restored = await restore(finished.folder, target, BackupScope(kb_id=source.kb.kb_id))
    # The pass fills the embedding cache, which is not part of it, from the chunks.
    assert (restored.forecast.found, restored.forecast.spus_at_most) == ({"missing_embedding": len(TEXTS)}, 0)
    assert set(await target["documents"].distinct("document_id")) == TEXTS.keys()
    assert set(await target["document_texts"].distinct("document_id")) == TEXTS.keys()
    assert await target["document_revisions"].distinct("_id") == ["org-mine/d1"]
    assert source.kb.vector_collection in await target.list_collection_names()
    found = await values_in(target)
    for other in ("org-mine-too", source.sibling.kb_id, "api_keys-", "openai"):
        assert other not in found


@pytest.mark.parametrize("name", ["documents.bson.gz", "documents.metadata.json.gz", "manifest.json", "chunks"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
async def test_a_damaged_file_is_refused_before_anything_is_written(
    source: SourceDeployment, copied: Path, target: Database, name: str, damage: str
) -> None:
    file = f"{source.kb.vector_collection}.bson.gz" if name == "chunks" else name
    path = copied / file if name == "manifest.json" else copied / source.database.name / file
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[:-10])
    elif damage == "altered":
        # In the time of the gzip header, or in the version of the server: only a checksum notices it.
        at = content.index(b'"server_version": "') + 19 if name == "manifest.json" else 5
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    else:
        path.unlink()
    with pytest.raises(BackupRefused if damage == "missing" else DamagedBackup):
        await restore(copied, target)
    assert await target.list_collection_names() == []


async def test_a_backup_of_a_later_version_is_refused_before_anything_is_written(
    source: SourceDeployment, target: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.database[schema_version.NAME].insert_one(OF_A_LATER_VERSION)
    monkeypatch.setattr(schema_version, "SCHEMA_VERSION", OF_A_LATER_VERSION["oldest_reader"])
    await back_up_whole(source.database, tmp_path / "backup")
    monkeypatch.undo()
    await source.database[schema_version.NAME].delete_one({"_id": schema_version.ID})
    with pytest.raises(BackupRefused, match="later version"):
        await restore(tmp_path / "backup", target)
    assert await target.list_collection_names() == []


async def test_a_deployment_of_a_later_version_is_not_backed_up(target: Database, tmp_path: Path) -> None:
    await target[knowledge_bases.NAME].create_index("name")
    await target[schema_version.NAME].insert_one(OF_A_LATER_VERSION)
    with pytest.raises(BackupRefused, match="later version"):
        await back_up_whole(target, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


async def test_a_database_that_is_not_empty_is_refused_and_not_touched(
    finished: FinishedBackup, target: Database
) -> None:
    await target["mine"].insert_one({"_id": 1})
    with pytest.raises(BackupRefused, match="is not empty: it has the collections mine"):
        await restore(finished.folder, target)
    assert await target.list_collection_names() == ["mine"]


async def test_an_interrupted_restore_continues_and_no_other_one_begins(
    source: SourceDeployment, finished: FinishedBackup, target: Database
) -> None:
    loaded = 0

    async def crash() -> None:
        nonlocal loaded
        loaded += 1
        if loaded == 4:
            raise InterruptedError

    async with failpoints.during("restore.after_collection", crash):
        with pytest.raises(InterruptedError):
            await restore(finished.folder, target)
    with pytest.raises(BackupRefused, match="unfinished restore of another backup"):
        await restore(finished.folder, target, BackupScope(kb_id=source.kb.kb_id))
    restored = await restore(finished.folder, target)
    assert restored.marker.continues
    await restored.repair()
    assert await digests(target) == await digests(source.database)


async def test_an_unfinished_restore_is_no_source_of_a_backup_of_its_marker(
    finished: FinishedBackup, target: Database, tmp_path: Path
) -> None:
    await restore(finished.folder, target)
    with pytest.raises(BackupRefused, match=r"restore .* is not finished"):
        await back_up_whole(target, tmp_path / "backup")


async def test_a_scope_that_the_backup_does_not_have_is_refused(finished: FinishedBackup, target: Database) -> None:
    with pytest.raises(BackupRefused, match="no knowledge base of organization unknown"):
        await restore(finished.folder, target, BackupScope(organization_id="unknown"))


async def test_what_is_lost_is_forecast_with_its_cost_and_queued_and_removals_wait_for_a_person(
    source: SourceDeployment, finished: FinishedBackup, target: Database
) -> None:
    await restore(finished.folder, target)
    kb = await knowledge_bases.get(target, source.kb.key)
    chunks = target[kb.vector_collection]
    await chunks.delete_one({"document_id": "d1", "until": None})
    ghost = await chunks.find_one({"document_id": "d2"}, {"_id": 0})
    assert ghost is not None
    ghosts = [f"ghost-{n}" for n in range(21)]
    await chunks.insert_many([{**ghost, "_id": f"{name}:x:0", "document_id": name} for name in ghosts])
    row = await target["document_index"].find_one({"_id": f"{kb.kb_id}/d1"})
    assert row is not None

    restored = await restore(finished.folder, target)
    assert restored.forecast.found == {"incomplete": 1, "orphan_vectors": 21}
    assert restored.forecast.spus_at_most == row["chunk_count"]
    assert await target[index_jobs.NAME].count_documents({}) == 0, "a forecast changes nothing"
    outcome = await restored.repair()
    (job,) = await target[index_jobs.NAME].find().to_list()
    assert (job["document_id"], job["queued"]) == ("d1", True)
    (plan,) = await target[reconcile_plans.NAME].find().to_list()
    assert outcome.plan_ids == [plan["_id"]]
    assert await chunks.count_documents({"document_id": {"$in": ghosts}}) == 21


async def test_jobs_of_workers_that_no_longer_exist_are_free_after_a_restore(
    source: SourceDeployment, target: Database, tmp_path: Path
) -> None:
    jobs = source.database[index_jobs.NAME]
    await jobs.insert_one(
        {
            "_id": f"{source.kb.kb_id}/busy",
            "organization_id": source.kb.organization_id,
            "kb_id": source.kb.kb_id,
            "document_id": "busy",
            "state": "running",
            "lease_owner": "gone",
            "lease_until": source.kb.created_at.replace(year=2090),
            "next_attempt_at": source.kb.created_at.replace(year=2090),
        }
    )
    try:
        await back_up_whole(source.database, tmp_path / "backup")
    finally:
        await jobs.delete_many({})
    restored = await restore(tmp_path / "backup", target)
    assert restored.open_jobs == 1
    (job,) = await target[index_jobs.NAME].find().to_list()
    assert (job["state"], job["lease_owner"], job["lease_until"]) == ("pending", None, None)
    assert job["next_attempt_at"].year < 2090
