"""A backup is of one cluster time, is laid out as mongodump does it, continues, and has nothing of others."""

import gzip
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import bson
import pytest

from kb_reconciler.backup.backup import back_up
from kb_reconciler.backup.deployments import list_collections
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.manifest import Manifest
from kb_reconciler.backup.progress import SilentProgress
from kb_reconciler.backup.scope import LEFT_OUT, OF_KNOWLEDGE_BASES, SHARED, TEXT_FILE_CHUNKS, TEXT_FILES, BackupScope
from kb_shared import failpoints
from kb_shared.mongo import document_index
from kb_shared.mongo.database import Database, Row
from tests.integration.indexer.support import Replica, text_of
from tests.integration.reconciler.backups import SourceDeployment, back_up_whole
from tests.integration.reconciler.conftest import FinishedBackup

ROOT = Path(__file__).parents[3]
SNAPSHOT_TOO_OLD = 239


def rows_of(folder: Path, manifest: Manifest, name: str) -> list[Row]:
    return bson.decode_all(gzip.decompress((folder / manifest.files[name].path).read_bytes()))


def text_in(folder: Path) -> str:
    """Return the content of all files of a backup, decompressed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    contents = [path.read_bytes() for path in files]
    plain = [
        gzip.decompress(each) if path.suffix == ".gz" else each for path, each in zip(files, contents, strict=True)
    ]
    return "".join(f"{path}{each!r}" for path, each in zip(files, plain, strict=True))


@asynccontextmanager
async def lost_history(
    database: Database, collection: str, *, times: int, command: str = "find"
) -> AsyncIterator[None]:
    """Let the next reads of a collection fail as they do once the server has lost the history."""
    failing = {
        "failCommands": [command],
        "errorCode": SNAPSHOT_TOO_OLD,
        "namespace": f"{database.name}.{collection}",
    }
    admin = database.client.admin

    async def let_cluster_time_advance() -> None:
        await database["organizations"].update_one({"_id": "org-mine"}, {"$inc": {"writes": 1}})

    await admin.command({"configureFailPoint": "failCommand", "mode": {"times": times}, "data": failing})
    try:
        async with failpoints.during("backup.after_part", let_cluster_time_advance):
            yield
    finally:
        await admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def collections_in_code() -> set[str]:
    """Return the collections that the code names in `database[NAME]`, or with another constant."""
    found = {TEXT_FILES, TEXT_FILE_CHUNKS}  # GridFS names them
    for source in (*ROOT.glob("services/**/*.py"), *ROOT.glob("shared/**/*.py")):
        code = source.read_text()
        for constant in set(re.findall(r"database\[([A-Z_]+)\]", code)):
            found |= set(re.findall(rf'^{constant}(?:: Final)? = "(\w+)"$', code, re.MULTILINE))
    return found


async def test_every_collection_of_the_deployment_is_backed_up_or_left_out_for_a_reason(
    source: SourceDeployment, finished: FinishedBackup
) -> None:
    """A collection that is new is unknown in a backup of a part: say in `scope.py` which of its rows belong to whom."""
    stored = {name for name in await list_collections(source.database) if not name.startswith("kb_vectors_")}
    named = collections_in_code()
    assert {"leases", "threads", "document_revisions", "organizations", "reconciler_state", "budgets"} <= named
    listed = [*SHARED, *OF_KNOWLEDGE_BASES, *LEFT_OUT]
    assert (stored | named) - set(listed) == set()
    assert len(set(listed)) == len(listed)
    assert finished.manifest.has_one_time


async def test_files_are_as_mongodump_writes_them(source: SourceDeployment, finished: FinishedBackup) -> None:
    folder, database = finished.folder / source.database.name, source.database
    rows = [bson.encode(row) async for row in database["documents"].find().sort("_id")]
    assert gzip.decompress((folder / "documents.bson.gz").read_bytes()) == b"".join(rows)
    uuid = (await list_collections(database))["documents"]["info"]["uuid"]
    assert gzip.decompress((folder / "documents.metadata.json.gz").read_bytes()).decode() == (
        '{"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},'
        '{"v":{"$numberInt":"2"},"key":{"organization_id":{"$numberInt":"1"},"tag_ids":{"$numberInt":"1"},'
        '"document_id":{"$numberInt":"1"}},"name":"organization_id_1_tag_ids_1_document_id_1"},'
        '{"v":{"$numberInt":"2"},"key":{"changed_at":{"$numberInt":"1"}},"name":"changed_at_1"}],'
        f'"uuid":"{bytes(uuid).hex()}","collectionName":"documents","type":"collection"}}'
    )
    expected = {f"{name}{suffix}" for name in finished.manifest.files for suffix in (".bson.gz", ".metadata.json.gz")}
    assert {path.name for path in folder.iterdir()} == expected
    assert {path.name for path in finished.folder.iterdir()} == {database.name, "manifest.json"}


async def test_the_manifest_has_the_search_indexes_and_the_ids_of_the_keys_of_providers(
    source: SourceDeployment, finished: FinishedBackup
) -> None:
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    mine = next(kb for kb in manifest["knowledge_bases"] if kb["kb_id"] == source.kb.kb_id)
    assert {index["name"] for index in mine["search_indexes"]} == {"kb_vector_index", "kb_text_index"}
    assert manifest["provider_key_ids"] == ["k1"]
    assert manifest["left_out"].keys() >= {"leases", "rate_limits"}


async def test_documents_that_are_indexed_meanwhile_are_in_it_as_a_whole_or_not_at_all(
    source: SourceDeployment, source_indexer: Replica, tmp_path: Path
) -> None:
    revision = 10

    async def index() -> None:
        nonlocal revision
        revision += 1
        text = text_of(*range(revision, revision + revision % 3 + 1))
        await source_indexer.publish(source.tenant.ocr("d1", text, revision=revision, tags=("a", "b")))
        await source_indexer.handle_commands()

    async with failpoints.during("backup.after_part", index), failpoints.during("backup.after_chunks", index):
        manifest = await back_up_whole(source.database, tmp_path / "backup")
    assert revision > 15
    assert manifest.has_one_time
    for kb in (source.kb, source.sibling):
        rows = [row for row in rows_of(tmp_path / "backup", manifest, document_index.NAME) if row["kb_id"] == kb.kb_id]
        live = [row for row in rows_of(tmp_path / "backup", manifest, kb.vector_collection) if row["until"] is None]
        assert {row["document_id"] for row in rows} == {row["document_id"] for row in live}
        for row in rows:
            chunks = [each for each in live if each["document_id"] == row["document_id"]]
            assert sorted(each["chunk_index"] for each in chunks) == list(range(row["chunk_count"]))
    documents = {row["_id"]: row for row in rows_of(tmp_path / "backup", manifest, "documents")}
    row = next(
        each for each in rows_of(tmp_path / "backup", manifest, document_index.NAME) if each["document_id"] == "d1"
    )
    assert row["text_revision"] == documents["org-mine/d1"]["text_revision"]


@pytest.mark.parametrize("scope", [BackupScope(organization_id="org-mine-too"), None], ids=["organization", "kb"])
async def test_a_backup_of_a_part_has_nothing_of_others(
    source: SourceDeployment, tmp_path: Path, scope: BackupScope | None
) -> None:
    of = scope or BackupScope(kb_id=source.strange_kb.kb_id)
    manifest = await back_up(source.database, tmp_path / "backup", of, progress=SilentProgress())
    found = text_in(tmp_path / "backup")
    assert source.strange_kb.kb_id in found
    for other in ("'org-mine'", "org-mine/", "of org-mine'", source.kb.kb_id, source.sibling.kb_id, "\\x0borg-mine"):
        assert other not in found
    of_files = TEXT_FILES in manifest.files and len(rows_of(tmp_path / "backup", manifest, TEXT_FILE_CHUNKS)) > 1
    assert of_files == (scope is not None)
    assert [row["document_id"] for row in rows_of(tmp_path / "backup", manifest, "document_index")] == ["theirs"]


async def test_an_interrupted_backup_continues_with_the_files_that_are_intact(
    source: SourceDeployment, tmp_path: Path
) -> None:
    parts = 0

    async def crash() -> None:
        nonlocal parts
        parts += 1
        if parts == 8:
            raise InterruptedError

    folder = tmp_path / "backup"
    async with failpoints.during("backup.after_part", crash):
        with pytest.raises(InterruptedError):
            await back_up_whole(source.database, folder)
    of_database = folder / source.database.name
    (of_database / "documents.bson.gz").write_bytes(b"damaged")
    written_before = (of_database / "tags.bson.gz").stat().st_mtime_ns
    with pytest.raises(BackupRefused, match="of another scope or deployment"):
        await back_up(source.database, folder, BackupScope(kb_id=source.kb.kb_id), progress=SilentProgress())
    async with failpoints.during("backup.before_manifest", crash):
        manifest = await back_up_whole(source.database, folder)
    assert (of_database / "tags.bson.gz").stat().st_mtime_ns == written_before
    assert len(rows_of(folder, manifest, "documents")) == await source.database["documents"].count_documents({})
    assert len(rows_of(folder, manifest, "document_index")) == await source.database["document_index"].count_documents(
        {}
    )
    with pytest.raises(BackupRefused, match="has a finished backup"):
        await back_up_whole(source.database, folder)


async def test_a_knowledge_base_is_of_one_time_even_if_the_server_has_lost_the_history(
    source: SourceDeployment, tmp_path: Path
) -> None:
    chunks = source.sibling.vector_collection
    async with lost_history(source.database, chunks, times=1):
        manifest = await back_up_whole(source.database, tmp_path / "backup")
    assert not manifest.has_one_time
    times = {name: each for name, each in manifest.cluster_times.items() if name.startswith("kb/")}
    assert all(len(each) == 1 for each in times.values())
    live = {row["_id"] for row in rows_of(tmp_path / "backup", manifest, chunks) if row["until"] is None}
    assert live == set(await source.database[chunks].distinct("_id", {"until": None}))


async def test_a_collection_that_takes_longer_than_the_history_continues_where_it_was(
    source: SourceDeployment, tmp_path: Path
) -> None:
    log = source.database["query_log"]
    await log.insert_many([{"organization_id": "org-mine", "asked_at": datetime.now(UTC)} for _ in range(300)])
    async with lost_history(source.database, log.name, times=1, command="getMore"):
        manifest = await back_up_whole(source.database, tmp_path / "backup")
    assert len(manifest.cluster_times[log.name]) == 2
    ids = [row["_id"] for row in rows_of(tmp_path / "backup", manifest, log.name)]
    assert sorted(ids, key=str) == sorted(await log.distinct("_id"), key=str)


async def test_a_history_that_is_always_too_short_ends_in_what_to_set(source: SourceDeployment, tmp_path: Path) -> None:
    async with lost_history(source.database, source.kb.vector_collection, times=3):
        with pytest.raises(BackupRefused, match="minSnapshotHistoryWindowInSeconds"):
            await back_up_whole(source.database, tmp_path / "backup")


async def test_a_folder_with_something_else_is_refused(source: SourceDeployment, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BackupRefused, match="is not empty"):
        await back_up_whole(source.database, tmp_path)
    with pytest.raises(BackupRefused, match="has no knowledge base of organization unknown"):
        await back_up(
            source.database, tmp_path / "b", BackupScope(organization_id="unknown"), progress=SilentProgress()
        )
