"""A knowledge base moves to another organization as a file: the same chunks, and nothing is embedded or charged."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kb_api.life_cycle import STEPS
from kb_contracts.documents import MetadataChanged, OcrCompleted
from kb_contracts.metadata import DateValue, MetadataValue, MetadataWarning
from kb_local.python_server import ModelServerProcess
from kb_reconciler.export.export_kb import export_knowledge_base
from kb_reconciler.export.id_mapping import IdMapping
from kb_reconciler.export.import_kb import KnowledgeBaseImport
from kb_reconciler.export.import_plan import BatchSizes, ImportLimits, ImportPlan, ImportRefused, ImportRequest
from kb_reconciler.export.kbx import FileContents, KbxManifest, UnreadableFile
from kb_reconciler.export.kbx_reader import KbxReader
from kb_shared.chunking import ChunkerType
from kb_shared.errors import NotFound
from kb_shared.mongo import api_keys, document_index, document_texts, documents, embedding_cache, knowledge_bases, tags
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey, KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.tags import Tag
from tests.drift.searching import document_search
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import DIMENSIONS, CommandLog, Replica, Tenant, paragraph, text_of
from tests.unit.reconciler import kbx_files
from tests.waiting import until

MODEL = f"hash-{DIMENSIONS}"
CHUNK_TOKENS = 50
"""Smallest size that kb-api allows."""
YESTERYEAR = datetime(2025, 1, 31, tzinfo=UTC)
TEXTS = {"d1": text_of(1, 2, 3), "d2": text_of(4, 5, 6), "d3": text_of(7), "d4": text_of(7)}
LARGE = text_of(*range(9)) + " " * 1_100_000
LIMITS = ImportLimits(max_knowledge_bases=20, max_chunks_per_document=2_000)


def ignore(_work: str, _done: int) -> None:
    pass


async def fill(tenant: Tenant, indexer: Replica, texts: dict[str, str] = TEXTS) -> KnowledgeBase:
    """Index the texts in a KB."""
    kb = await tenant.create_kb("a", chunk_size=CHUNK_TOKENS)
    await tags.put(tenant.database, tenant.organization_id, Tag("a", "Tag A"))
    await indexer.publish(*(tenant.ocr(document_id, text) for document_id, text in texts.items()))
    await indexer.work()
    return await knowledge_bases.get(tenant.database, kb.key)


async def delete(indexer: Replica, kb: KnowledgeBase) -> None:
    await indexer.begin_deletion_of_kb(kb)
    await indexer.finish_deletion_of_kb(kb)


async def export(kb: KnowledgeBase, database: Database, path: Path, *, contents: FileContents = "full") -> KbxManifest:
    return await export_knowledge_base(database, kb.key, path, contents=contents, note=ignore)


@pytest.fixture
async def target(shared_database: Database) -> Tenant:
    """Another organization, with an API key."""
    made = Tenant(shared_database)
    await give_key(made)
    return made


async def give_key(tenant: Tenant) -> None:
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(
        key_id=key_id,
        organization_id=tenant.organization_id,
        name="key",
        scopes=frozenset({Scope.ADMIN}),
        created_at=datetime.now(UTC),
        expires_at=None,
        revoked_at=None,
    )
    await api_keys.insert(tenant.database, key, whole_key=whole_key, pepper="pepper")


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def reading(path: Path) -> KbxReader:
    return KbxReader(path, max_text_bytes=20_000_000)


async def import_file(
    target: Tenant,
    path: Path,
    *,
    mapping: IdMapping | None = None,
    note: Callable[[str, int], None] = ignore,
    limits: ImportLimits = LIMITS,
    batches: BatchSizes | None = None,
    **options: Any,
) -> tuple[ImportPlan, KnowledgeBase]:
    request = ImportRequest(target.organization_id, mapping or IdMapping(), **options)
    with reading(path) as reader:
        running = KnowledgeBaseImport(
            target.database, reader, request, limits=limits, note=note, batches=batches or BatchSizes()
        )
        plan = await running.check()
        kb_id = await running.run(plan)
    return plan, await knowledge_bases.get(target.database, KnowledgeBaseKey(target.organization_id, kb_id))


async def build(indexer: Replica, kb: KnowledgeBase) -> KnowledgeBase:
    """Take the KB through its life cycle, as kb-api and the indexer do."""

    await STEPS[Status.CREATING](indexer.database, await knowledge_bases.get(indexer.database, kb.key))

    async def is_built() -> bool:
        current = await knowledge_bases.get(indexer.database, kb.key)
        return await STEPS[Status.BUILDING](indexer.database, current)

    await until(is_built)
    await indexer.scan()
    await indexer.work()
    assert await STEPS[Status.INDEXING](indexer.database, await knowledge_bases.get(indexer.database, kb.key))
    return await knowledge_bases.get(indexer.database, kb.key)


async def chunks(kb: KnowledgeBase, database: Database) -> list[dict[str, Any]]:
    """Return the chunks of a KB as searches see them, without what depends on the organization and the time."""
    left_out = dict.fromkeys(("organization_id", "kb_id", "indexed_at", "since"), 0)
    return await database[kb.vector_collection].find({"until": None}, left_out).sort("_id", 1).to_list()


async def find_all(kb: KnowledgeBase, database: Database, api_base: str) -> list[list[tuple[str, str, float]]]:
    """Search for each paragraph; return document, text and relevance of the results in their order."""
    async with document_search(database, api_base, organization_id=kb.organization_id) as search:

        async def everything_is_found() -> bool:
            found = await search.search(kb, "harvest")
            return len(found) + sum(len(hit["also_in"]) for hit in found) == len(await chunks(kb, database))

        await until(everything_is_found)
        found = [await search.search(kb, paragraph(number)) for number in range(1, 8)]
    return [[(hit["document_id"], hit["content"], hit["relevance"]) for hit in hits] for hits in found]


async def test_searches_find_the_same_after_an_export_the_deletion_and_an_import(
    tenant: Tenant, target: Tenant, indexer: Replica, model_server: ModelServerProcess, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    before = await find_all(kb, tenant.database, model_server.api_base)
    assert all(before)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    await delete(indexer, kb)
    for organization in (tenant, target):
        spus = await organization.spus()
        _, imported = await import_file(organization, tmp_path / "kb.kbx")
        built = await build(indexer, imported)
        assert await organization.spus() == spus
        assert await find_all(built, organization.database, model_server.api_base) == before


async def test_an_imported_knowledge_base_has_the_same_chunks_and_nothing_is_embedded_or_charged(
    tenant: Tenant, target: Tenant, indexer: Replica, provider: ModelControls, tmp_path: Path
) -> None:
    file = tmp_path / "kb.kbx"
    kb = await fill(tenant, indexer)
    # Above the size that is kept in the row.
    text_ref = await document_texts.put(
        tenant.database, DocumentKey(tenant.organization_id, "large"), LARGE, pages=[(1, 0, 100), (2, 100, 500)]
    )
    pushed = tenant.ocr("large", None, text_ref=text_ref).model_copy(update={"source_digest": "5ff2eaebd7ff816a"})
    await indexer.publish(pushed)
    dated: dict[str, MetadataValue] = {
        "year": 2024,
        "on": DateValue.model_validate({"$date": "2026-01-31T00:00:00Z"}),
        "x.y": True,
        "z": 1.5,
    }
    await indexer.publish(tenant.described("d1", dated, revision=7))
    await indexer.work()
    before = await chunks(kb, tenant.database)
    manifest = await export(kb, tenant.database, file)
    assert manifest.counts.documents == 5
    assert manifest.counts.chunks == len(before) > manifest.counts.distinct_chunks == manifest.counts.vectors
    await delete(indexer, kb)

    embedded = await provider.inputs()
    plan, imported = await import_file(target, file)
    assert (plan.documents_new, plan.spus_at_most, plan.vectors) == (5, 0, manifest.counts.vectors)
    built = await build(indexer, imported)

    assert built.status is Status.ACTIVE
    assert await chunks(built, target.database) == before
    assert await provider.inputs() == embedded
    assert await target.spus() == 0
    assert built.config_hash == kb.config_hash
    await target.assert_holds(built, TEXTS | {"large": LARGE})
    theirs = await documents.find(target.database, DocumentKey(target.organization_id, "d1"))
    ours = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d1"))
    assert theirs is not None
    assert ours is not None
    assert (theirs.metadata, theirs.tags) == (ours.metadata, ours.tags)
    # The next push from the same folder sends nothing.
    large = await documents.find(target.database, DocumentKey(target.organization_id, "large"))
    assert large is not None
    assert large.text is not None
    assert large.text.source_digest == pushed.source_digest
    found, _ = await tags.find_page(target.database, target.organization_id, skip=0, limit=9)
    assert found == [Tag("a", "Tag A")]


async def test_events_that_come_after_an_import_win_or_lose_by_their_revision(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    await import_file(target, tmp_path / "kb.kbx")
    key = DocumentKey(target.organization_id, "d1")
    imported = await documents.find(target.database, key)
    # The same event, published in this organization, too, is the same state.
    await indexer.publish(target.ocr("d1", TEXTS["d1"]))
    assert await documents.find(target.database, key) == imported
    await indexer.publish(target.ocr("d1", text_of(8), revision=2))
    changed = await documents.find(target.database, key)
    assert changed is not None
    assert changed.text is not None
    assert changed.text.revision == 2


async def test_what_was_left_out_of_documents_is_shown_after_an_import_until_another_text_or_metadata_come(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)

    def pushed(by: Tenant) -> OcrCompleted:
        return by.ocr("d2", TEXTS["d2"], revision=2).model_copy(update={"reading_warnings": ("4 sheets are hidden",)})

    def described(by: Tenant) -> MetadataChanged:
        left_out = (MetadataWarning(field="metadata.editors", message="must be text"),)
        changed = by.described("d2", {"year": 1998}, revision=3)
        return changed.model_copy(update={"metadata_warnings": left_out})

    await indexer.publish(pushed(tenant), described(tenant))
    await indexer.work()
    manifest = await export(kb, tenant.database, tmp_path / "kb.kbx")
    assert manifest.schema_version == 3, "programs of version 2 refuse it by its version"
    await import_file(target, tmp_path / "kb.kbx")
    key = DocumentKey(target.organization_id, "d2")
    imported = await documents.find(target.database, key)
    assert imported is not None
    assert [(each.field, each.message) for each in imported.warnings] == [
        ("text", "4 sheets are hidden"),
        ("metadata.editors", "must be text"),
    ]
    await indexer.publish(pushed(target), described(target))
    assert await documents.find(target.database, key) == imported, "the same events are the same state"
    await indexer.publish(target.ocr("d2", text_of(8), revision=4), target.described("d2", {}, revision=5))
    changed = await documents.find(target.database, key)
    assert changed is not None
    assert changed.warnings == ()


async def test_a_file_without_warnings_is_read_by_programs_of_version_2(
    tenant: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    manifest = await export(kb, tenant.database, tmp_path / "kb.kbx")
    assert manifest.schema_version == 2
    with zipfile.ZipFile(tmp_path / "kb.kbx") as zipped:
        assert b"_warnings" not in zipped.read("documents.jsonl")


async def test_without_vectors_all_chunks_are_embedded_and_charged(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    manifest = await export(kb, tenant.database, tmp_path / "small.kbx", contents="without-vectors")
    await export(kb, tenant.database, tmp_path / "full.kbx")
    plan, _ = await import_file(target, tmp_path / "full.kbx", use_vectors=False)
    assert plan.spus_at_most == manifest.counts.distinct_chunks > 0
    plan, imported = await import_file(target, tmp_path / "small.kbx")
    assert (plan.vectors, plan.documents_new, plan.documents_reused) == (0, 0, 4)
    await build(indexer, imported)
    assert await target.spus() == manifest.counts.distinct_chunks
    await target.assert_holds(imported, TEXTS)


async def test_a_configuration_alone_becomes_an_empty_knowledge_base(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    file = tmp_path / "config.kbx"
    await export(kb, tenant.database, file, contents="config-only")
    with zipfile.ZipFile(file) as zipped:
        assert set(zipped.namelist()) == {"manifest.json", "knowledge_base.json", "tags.jsonl"}
    _, imported = await import_file(target, file, name="Copy", mapping=IdMapping({"a": "b"}))
    assert (imported.name, imported.tag_ids, imported.status) == ("Copy", ("b",), Status.CREATING)
    same = replace(imported, **{name: getattr(kb, name) for name in ("chunk_size", "embedding_dimensions")})
    assert same.config_hash == kb.config_hash
    assert await target.database[documents.NAME].count_documents({"organization_id": target.organization_id}) == 0


async def test_ids_of_tags_and_documents_can_be_mapped(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    # Documents with the same ids and other texts do not conflict.
    await indexer.publish(target.ocr("d1", text_of(9), tags=["b"]))
    _, imported = await import_file(target, tmp_path / "kb.kbx", mapping=IdMapping({"a": "c"}, "old-"))
    await build(indexer, imported)
    await target.assert_holds(imported, {f"old-{document_id}": text for document_id, text in TEXTS.items()})
    assert await target.spus() == 0


async def test_vectors_of_an_unknown_provider_are_left_out(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    rows = {"organization_id": tenant.organization_id, "document_id": "d3"}
    await tenant.database[document_index.NAME].update_one(rows, {"$unset": {"vector_space": 1}})
    await tenant.database[document_index.NAME].update_one(
        {**rows, "document_id": "d2"}, {"$set": {"vector_space.model": "hash-17"}}
    )
    manifest = await export(kb, tenant.database, tmp_path / "kb.kbx")
    # Of `d4`, it is that of `d3`, whose chunk is the same.
    known = await tenant.database[kb.vector_collection].distinct("chunk_hash", {"document_id": "d1"})
    assert 0 < manifest.counts.vectors == len(known) < manifest.counts.distinct_chunks
    plan, _ = await import_file(target, tmp_path / "kb.kbx")
    assert plan.spus_at_most == manifest.counts.distinct_chunks - manifest.counts.vectors


async def test_a_file_has_nothing_of_other_knowledge_bases_and_organizations(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    # Another one has the same documents, and more.
    await tenant.create_kb("a", "other")
    kb = await fill(tenant, indexer)
    foreign = text_of(1, 2, 77, about="CANARY")
    await indexer.publish(tenant.ocr("of-other", foreign, tags=["other"]), target.ocr("d1", foreign, tags=["a"]))
    await tags.put(tenant.database, tenant.organization_id, Tag("other", "CANARY"))
    await indexer.work()
    # Rows of the same ids, and of other KBs and organizations.
    await fill(target, indexer, {"d1": foreign, "d7": foreign})
    file = tmp_path / "kb.kbx"
    await export(kb, tenant.database, file)
    with zipfile.ZipFile(file) as zipped:
        contents = b"".join(zipped.read(name) for name in zipped.namelist())
        listed = [json.loads(line)["document_id"] for line in zipped.read("documents.jsonl").splitlines()]
        hashes = {json.loads(line)["chunk_hash"] for line in zipped.read("vectors.jsonl").splitlines()}
    assert listed == sorted(TEXTS)
    for word in (b"CANARY", b"of-other", b'"other"', target.organization_id.encode()):
        assert word not in contents
    assert hashes == set(await tenant.database[kb.vector_collection].distinct("chunk_hash"))
    assert file.stat().st_mode & 0o077 == 0


async def test_documents_that_are_about_to_leave_are_left_out(tenant: Tenant, indexer: Replica, tmp_path: Path) -> None:
    kb = await fill(tenant, indexer)
    # Their removal is not carried out yet.
    await indexer.publish(tenant.tagged("d1", "b", revision=2), tenant.deleted("d2", revision=2))
    await indexer.publish(tenant.ocr("d3", text_of(6), revision=2))
    manifest = await export(kb, tenant.database, tmp_path / "kb.kbx")
    counts = manifest.counts
    assert (counts.documents, counts.documents_left_out, counts.documents_changed) == (2, 2, 1)


@pytest.mark.parametrize("stop_at", ["vectors", "documents"])
async def test_an_interrupted_import_is_continued_by_the_same_import(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path, stop_at: str
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    small_batches = BatchSizes(documents=2, vectors=2)

    def interrupt(work: str, _done: int) -> None:
        if work == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await import_file(target, tmp_path / "kb.kbx", note=interrupt, batches=small_batches)
    assert await knowledge_bases.count(target.database, target.organization_id) == 0, "the KB is written last"
    _, imported = await import_file(target, tmp_path / "kb.kbx")
    await build(indexer, imported)
    await target.assert_holds(imported, TEXTS)
    assert await target.spus() == 0


async def test_a_second_import_of_a_file_finds_the_knowledge_base_of_the_first(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    file = tmp_path / "kb.kbx"
    await export(kb, tenant.database, file)
    _, first = await import_file(target, file)
    with reading(file) as reader:
        request = ImportRequest(target.organization_id, IdMapping())
        running = KnowledgeBaseImport(target.database, reader, request, limits=LIMITS, note=ignore)
        plan = await running.check()
        assert plan.imported_before == first.kb_id
        # One that was checked before the first was committed.
        assert await running.run(replace(plan, imported_before=None)) == first.kb_id
    assert await knowledge_bases.count(target.database, target.organization_id) == 1
    _, other = await import_file(target, file, again=True)
    assert other.kb_id != first.kb_id


async def test_a_document_with_another_text_is_refused_by_name_before_anything_is_written(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    await indexer.publish(target.ocr("d2", text_of(9)), target.ocr("d3", TEXTS["d3"], tags=["z"]))
    with pytest.raises(ImportRefused, match="'d2' exists with another text; document 'd3' has none of the tags"):
        await import_file(target, tmp_path / "kb.kbx")
    for name in (knowledge_bases.NAME, documents.NAME, tags.NAME):
        rows = await target.database[name].find({"organization_id": target.organization_id}).to_list()
        assert {row.get("document_id") for row in rows} <= {"d2", "d3", None}
        assert not any(row.get("tag_id") == "a" and row["name"] for row in rows)
    assert await target.database[embedding_cache.NAME].count_documents({"scope": target.organization_id}) == 0


async def test_a_check_writes_nothing(
    tenant: Tenant, target: Tenant, indexer: Replica, command_log: CommandLog, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    command_log.clear()
    with reading(tmp_path / "kb.kbx") as reader:
        request = ImportRequest(target.organization_id, IdMapping())
        await KnowledgeBaseImport(target.database, reader, request, limits=LIMITS, note=ignore).check()
    assert {name.split()[0] for name in command_log.names()} <= {"find", "aggregate", "getMore"}


async def test_an_export_has_the_state_of_one_moment(
    tenant: Tenant, indexer: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await fill(tenant, indexer)
    expected = set(await tenant.database[kb.vector_collection].distinct("chunk_hash"))
    find_by_ids = documents.find_by_ids

    async def find_after_a_change(*arguments: Any, **options: Any) -> Any:
        await tenant.database[kb.vector_collection].delete_many({})
        await tenant.database[document_index.NAME].delete_many({"kb_id": kb.kb_id})
        return await find_by_ids(*arguments, **options)

    # After the first read of the export.
    monkeypatch.setattr("kb_shared.mongo.documents.find_by_ids", find_after_a_change)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    with reading(tmp_path / "kb.kbx") as reader:
        assert {line.chunk_hash for line, _ in reader.vectors()} == expected


async def test_a_document_that_was_deleted_comes_back(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    await indexer.publish(target.ocr("d1", text_of(9)), target.deleted("d1", revision=50))
    _, imported = await import_file(target, tmp_path / "kb.kbx")
    await build(indexer, imported)
    await target.assert_holds(imported, TEXTS)


async def test_cached_vectors_of_the_organization_are_not_replaced(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    await import_file(target, tmp_path / "kb.kbx")
    mine = {"scope": target.organization_id}
    await target.database[embedding_cache.NAME].update_many(mine, {"$set": {"created_at": YESTERYEAR}})
    await import_file(target, tmp_path / "kb.kbx", again=True)
    assert await target.database[embedding_cache.NAME].distinct("created_at", mine) == [YESTERYEAR]


async def test_what_the_organization_can_not_take_is_refused(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    kb = await fill(tenant, indexer)
    file = tmp_path / "kb.kbx"
    await export(kb, tenant.database, file)
    with pytest.raises(ImportRefused, match="there is no organization"):
        await import_file(Tenant(target.database), file)
    with pytest.raises(ImportRefused, match="KB_MAX_CHUNKS_PER_DOCUMENT"):
        await import_file(target, file, limits=replace(LIMITS, max_chunks_per_document=9))
    with pytest.raises(ImportRefused, match="KB_MAX_KNOWLEDGE_BASES"):
        await import_file(target, file, limits=replace(LIMITS, max_knowledge_bases=0))
    with pytest.raises(UnreadableFile, match="no embedding model is called 'magic'"):
        await import_file(target, renamed_model(tmp_path))
    with pytest.raises(UnreadableFile, match="the file has no tag 'typo'"):
        await import_file(target, file, mapping=IdMapping({"typo": "b"}))
    with pytest.raises(UnreadableFile, match="exists"):
        await export(kb, tenant.database, file)


def renamed_model(folder: Path) -> Path:
    """Write a file for a model that does not exist."""
    configuration = json.dumps(kbx_files.CONFIGURATION | {"embedding_model": "magic"}).encode()
    members = {**kbx_files.members(), "knowledge_base.json": configuration}
    (folder / "renamed").mkdir()
    described = kbx_files.manifest(members, embedding_model="magic")
    return kbx_files.write(folder / "renamed", members, described=described)


async def test_nothing_is_left_of_an_export_that_failed(tenant: Tenant, indexer: Replica, tmp_path: Path) -> None:
    kb = await fill(tenant, indexer)
    await tenant.database["document_texts"].delete_one({"organization_id": tenant.organization_id, "document_id": "d2"})
    with pytest.raises(UnreadableFile, match="the text of document 'd2' is not stored"):
        await export(kb, tenant.database, tmp_path / "kb.kbx")
    with pytest.raises(NotFound):
        await export(replace(kb, kb_id="0" * 24), tenant.database, tmp_path / "kb.kbx")
    assert files_in(tmp_path) == []


async def test_sentences_are_announced_where_the_chunker_embeds_them(
    tenant: Tenant, target: Tenant, indexer: Replica, tmp_path: Path
) -> None:
    await tenant.create_kb("a", chunker_type=ChunkerType.SEMANTIC, chunk_size=CHUNK_TOKENS)
    kb = next(iter(await knowledge_bases.find_of_organization(tenant.database, tenant.organization_id)))
    await indexer.publish(tenant.ocr("d1", TEXTS["d1"]))
    await indexer.work()
    await export(kb, tenant.database, tmp_path / "kb.kbx")
    plan, _ = await import_file(target, tmp_path / "kb.kbx")
    assert plan.embeds_sentences
