"""Checks of knowledge bases: their settings, statistics and documents."""

from collections import Counter
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_api.text_language import analyzer_warning
from kb_client.problems import NotFoundError
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    LEAVE,
    LONG,
    STRICT_TAG,
    TAG,
    TRAVEL,
    UNUSED_TAG,
    StockedOrganization,
)
from tests.e2e.operations.stored_documents import stored_membership
from tests.e2e.system import CHUNK_SIZE, MODEL

KB_ID = {"kb_id": "_id"}
CHUNKS = {"content": "chunk_text", "chunk_id": "_id"}


async def stored_knowledge_base(organization: StockedOrganization, kb_id: str) -> Row:
    """Return the row of a KB with its size, and with what is shown of other collections."""
    row = await organization.row("knowledge_bases", _id=kb_id)
    slots = await organization.rows("kb_slots", kb_id=kb_id)
    dead = await organization.rows("tags", tag_id={"$in": row["tag_ids"]}, deleted=True)
    of_analyzer = analyzer_warning(row["text_analyzer"], row["text_language"])
    return {
        **row,
        "document_count": sum(slot["documents"] for slot in slots),
        "chunk_count": sum(slot["chunks"] for slot in slots),
        "dead_tag_ids": [tag["tag_id"] for tag in dead],
        "warnings": [*row["warnings"], *([of_analyzer] if of_analyzer else [])],
        "rate_limits": {"requests_per_minute": None, "tokens_per_minute": None} | row["rate_limits"],
    }


async def new_knowledge_base(organization: StockedOrganization) -> str:
    created = await organization.client.knowledge_bases.create(name="New", tag_ids=[UNUSED_TAG], embedding_model=MODEL)
    return created.kb_id


@checks("knowledge_bases.create")
async def check_create(organization: StockedOrganization) -> None:
    given: dict[str, Any] = {
        "name": "Created",
        "description": "About nothing",
        "tag_ids": [UNUSED_TAG],
        "chunker_type": "sentence",
        "chunk_size": 60,
        "chunk_overlap": 5,
        "embedding_model": MODEL,
        "coalesce_neighbors": 1,
        "min_score": 0.25,
        "text_analyzer": "lucene.english",
        "filterable_metadata": ["year"],
        "max_chunks_per_document": 7,
        "refuse_sensitive": True,
        "rate_limits": {"requests_per_minute": 30},
    }
    answer = await organization.client.knowledge_bases.create(**given)
    stored = await stored_knowledge_base(organization, answer.kb_id)
    assert_holds(await organization.row("knowledge_bases", _id=answer.kb_id), **given)
    assert answer.updated_by == answer.created_by == organization.key_id
    # The rest of its life cycle may have begun.
    as_created = {"status": "creating", "status_reason": None, "updated_at": answer.created_at}
    assert_shows(answer, stored | as_created, names=KB_ID)
    await organization.client.knowledge_bases.delete(answer.kb_id)


@checks("knowledge_bases.list")
async def check_list(organization: StockedOrganization) -> None:
    async def stored() -> list[Row]:
        rows = await organization.rows("knowledge_bases", status={"$ne": "deleting"})
        newest_first = sorted(rows, key=lambda row: (row["created_at"], row["_id"]), reverse=True)
        return [await stored_knowledge_base(organization, row["_id"]) for row in newest_first]

    answer, rows = await undisturbed(lambda: organization.client.knowledge_bases.list(limit=100), stored)
    assert answer.total_count == len(rows)
    for kb, row in zip(answer.knowledge_bases, rows, strict=True):
        assert_shows(kb, row, names=KB_ID)


@checks("knowledge_bases.get")
async def check_get(organization: StockedOrganization) -> None:
    answer, row = await undisturbed(
        lambda: organization.client.knowledge_bases.get(organization.kb_id),
        lambda: stored_knowledge_base(organization, organization.kb_id),
    )
    assert_shows(answer, row, names=KB_ID)
    assert answer.document_count == len({LEAVE, TRAVEL})


@checks("knowledge_bases.update")
async def check_update(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    given: dict[str, Any] = {"description": "Changed", "min_score": 0.5, "rate_limits": {"tokens_per_minute": 10**6}}
    answer = await organization.client.knowledge_bases.update(kb_id, **given)
    assert_shows(answer, await stored_knowledge_base(organization, kb_id), names=KB_ID)
    assert_holds(await organization.row("knowledge_bases", _id=kb_id), **given)


@checks("knowledge_bases.delete")
async def check_delete(organization: StockedOrganization) -> None:
    kb_id = await new_knowledge_base(organization)
    answer = await organization.client.knowledge_bases.delete(kb_id)
    assert "deleted" in answer.message
    with pytest.raises(NotFoundError):
        await organization.client.knowledge_bases.get(kb_id)
    await organization.until_none("knowledge_bases", _id=kb_id)
    assert f"kb_vectors_{kb_id}" not in await organization.database.list_collection_names()


@checks("knowledge_bases.list_documents")
async def check_list_documents(organization: StockedOrganization) -> None:
    for kb_id, document_ids in ((organization.kb_id, [LEAVE, TRAVEL]), (organization.strict_kb_id, [LONG])):
        await organization.until_active(kb_id)
        answer = await organization.client.knowledge_bases.list_documents(kb_id, status="all")
        assert answer.total_count == len(document_ids)
        for document, document_id in zip(answer.documents, document_ids, strict=True):
            row = await stored_membership(organization, kb_id, document_id)
            assert row is not None
            assert_shows(document, row | {"has_warnings": False})


@checks("knowledge_bases.get_stats")
async def check_stats(organization: StockedOrganization) -> None:
    kb_id = organization.kb_id
    answer = await organization.client.knowledge_bases.get_stats(kb_id)
    row = await stored_knowledge_base(organization, kb_id)
    indexed = await organization.rows("document_index", kb_id=kb_id)
    charges = await organization.rows("spu_ledger", kb_id=kb_id)
    work = [each["work"] for each in indexed]
    cached, embeddings = (sum(each[name] for each in work) for name in ("cached", "embeddings"))
    stored = {
        "document_count": row["document_count"],
        "chunk_count": row["chunk_count"],
        "total_documents_with_tags": len(await organization.rows("documents", tag_ids=TAG, alive=True)),
        "states": dict.fromkeys(type(answer.states).model_fields, 0) | {"indexed": len(indexed)},
        "progress": 1.0,
        "remaining_chunk_count": 0,
        "more_arriving": False,
        "last_indexed_at": max(each["indexed_at"] for each in indexed),
        "mean_indexing_s": pytest.approx(sum(each["duration_s"] for each in work) / len(work), abs=0.001),
        "cache_hit_ratio": cached / (cached + embeddings),
        "spus": sum(charge["count"] for charge in charges),
        "usd": sum(charge["nano_usd"] for charge in charges) / 10**9,
        # The system has just been started.
        "spus_this_month": answer.spus,
        "usd_this_month": answer.usd,
        "storage": answer.storage,
        "search_indexes": await _search_indexes(organization, kb_id),
    }
    assert_shows(answer, stored)
    assert answer.storage is not None
    assert set(answer.storage.indexes) == set(await organization.database[f"kb_vectors_{kb_id}"].index_information())
    [failed] = [(await organization.client.knowledge_bases.get_stats(organization.strict_kb_id)).states.failed]
    assert failed == len(await organization.rows("index_jobs", kb_id=organization.strict_kb_id, state="failed"))


async def _search_indexes(organization: StockedOrganization, kb_id: str) -> list[Row]:
    """Ask MongoDB as the services see it: the database of the tests has no search."""
    stack = organization.running.system.stack
    async with AsyncMongoClient[dict[str, Any]](stack.mongo_uri) as mongo:
        found = await mongo[stack.database][f"kb_vectors_{kb_id}"].list_search_indexes()
        return [{name: index[name] for name in ("name", "status", "queryable")} async for index in found]


@checks("knowledge_bases.preview")
async def check_preview(organization: StockedOrganization) -> None:
    before = await organization.rows("spu_ledger")
    answer = await organization.client.knowledge_bases.preview(
        tag_ids=[TAG], document_id=LEAVE, embedding_model=MODEL, chunk_size=CHUNK_SIZE, chunk_overlap=0
    )
    chunks = await organization.chunks(organization.kb_id, LEAVE)
    others = await organization.chunks(organization.kb_id, TRAVEL)
    assert answer.documents is not None
    assert answer.text is not None
    for shown, chunk in zip(answer.text.chunks, chunks, strict=True):
        assert_shows(shown, chunk | {"context": ""}, names=CHUNKS)
    assert answer.text.chunk_count == len(chunks)
    settings = await organization.row("knowledge_bases", _id=organization.kb_id)
    default = answer.settings.max_chunks_per_document
    assert_shows(answer.settings, settings | {"max_chunks_per_document": default})
    assert answer.documents.document_count == len({LEAVE, TRAVEL})
    assert answer.documents.chunk_count == len(chunks) + len(others)
    # All of it is embedded already, with the text by which the dimensions are found, and a preview charges nothing.
    assert answer.documents.cached_count == answer.documents.embedding_count == answer.documents.chunk_count + 1
    assert (answer.documents.spus, answer.text.spus) == (0, 0)
    assert await organization.rows("spu_ledger") == before


@checks("knowledge_bases.get_tool")
async def check_tool(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_bases.get_tool(organization.kb_id)
    row = await organization.row("knowledge_bases", _id=organization.kb_id)
    assert answer.type == "function"
    assert answer.function.name == f"search_{row['name'].lower()}"
    assert answer.function.description == f"Search {row['name']} knowledge base"
    described = answer.function.parameters["properties"]["metadata_filter"]["description"]
    assert all(key in described for key in row["filterable_metadata"])


@checks("knowledge_bases.list_metadata_keys")
async def check_metadata_keys(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_bases.list_metadata_keys(organization.kb_id)
    kb = await organization.row("knowledge_bases", _id=organization.kb_id)
    documents = await organization.rows("documents", tag_ids=TAG, alive=True)
    assert (answer.document_count, answer.is_exact) == (len(documents), True)
    counts = Counter(key for document in documents for key in document["metadata"])
    assert {key.key: key.document_count for key in answer.keys} == counts
    for shown in answer.keys:
        assert shown.filterable is (shown.key in kb["filterable_metadata"])
        [of_type] = shown.types
        values = Counter(row["metadata"][shown.key] for row in documents if shown.key in row["metadata"])
        assert {top.value: top.document_count for top in of_type.top_values} == values
        is_number = of_type.type == "number"
        assert (of_type.least, of_type.greatest) == ((min(values), max(values)) if is_number else (None, None))


@checks("knowledge_bases.explain_document")
async def check_explain_document(organization: StockedOrganization) -> None:
    kb_id = organization.strict_kb_id
    await organization.until_active(kb_id)
    answer = await organization.client.knowledge_bases.explain_document(kb_id, document_id=LONG)
    document = await organization.row("documents", document_id=LONG)
    job = await organization.row("index_jobs", kb_id=kb_id, document_id=LONG)
    assert (answer.kb_id, answer.document_id, answer.status) == (kb_id, LONG, job["state"])
    assert (answer.knowledge_base_tag_ids, answer.shared_tag_ids) == ([STRICT_TAG], [STRICT_TAG])
    kb = await organization.row("knowledge_bases", _id=kb_id)
    assert (answer.knowledge_base_name, answer.knowledge_base_paused_at) == (kb["name"], None)
    assert answer.document is not None
    assert_shows(answer.document, document, names={"warnings": "metadata_warnings"})
    for event, row in zip(answer.events, document["events"], strict=True):
        assert_shows(event, row | {"trace_id": row["traceparent"].split("-")[1]})
    assert answer.indexed is None
    assert answer.job is not None
    error = {"type": job["error_type"], "message": job["error_message"]}
    derived = {"error": error, "forced": job["force"], "trace_id": job["traceparent"].split("-")[1]}
    assert_shows(answer.job, job | derived)
    indexed = (
        await organization.client.knowledge_bases.explain_document(organization.kb_id, document_id=LEAVE)
    ).indexed
    assert indexed is not None
    assert_shows(indexed, await organization.row("document_index", kb_id=organization.kb_id, document_id=LEAVE))


@checks("knowledge_bases.list_chunks")
async def check_list_chunks(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_bases.list_chunks(organization.kb_id, document_id=LEAVE)
    chunks = await organization.chunks(organization.kb_id, LEAVE)
    indexed = await organization.row("document_index", kb_id=organization.kb_id, document_id=LEAVE)
    assert (answer.document_id, answer.version, answer.total_count) == (LEAVE, indexed["version"], len(chunks))
    for chunk, row in zip(answer.chunks, chunks, strict=True):
        assert_shows(chunk, row, names=CHUNKS)


@checks("knowledge_bases.get_chunk")
async def check_get_chunk(organization: StockedOrganization) -> None:
    row = (await organization.chunks(organization.kb_id, LEAVE))[1]
    answer = await organization.client.knowledge_bases.get_chunk(organization.kb_id, chunk_id=row["_id"])
    assert_shows(answer, row, names={**CHUNKS, "metadata": "metadata_snapshot"})
