"""Checks of documents: what is published and then projected, and what is shown of it."""

from typing import Any

from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    LEAVE,
    LEAVE_PAGES,
    LEAVE_TEXT,
    TRAVEL,
    UPLOADED_AT,
    StockedOrganization,
)
from tests.e2e.operations.stored_documents import stored_memberships

CHUNKS = {"content": "chunk_text", "chunk_id": "_id"}
WARNINGS = {"warnings": "metadata_warnings"}
GIVEN: dict[str, Any] = {
    "document_name": "Given",
    "tag_ids": [],
    "upload_date": UPLOADED_AT,
    "metadata": {"year": 2025},
    "content_type": "text/plain",
    "source_digest": "of the file",
}


async def new_document(organization: StockedOrganization, document_id: str) -> None:
    """Put a document that is in no KB, and wait until it is projected."""
    await organization.client.documents.put(document_id, text=document_id, **GIVEN)
    await organization.until_row("documents", document_id=document_id)


async def assert_accepted(organization: StockedOrganization, answer: Any, *, revision: int) -> None:
    """Compare an accepted change with the revisions that are stored for the document."""
    row = await organization.row("document_revisions", document_id=answer.document_id)
    assert_shows(answer, row | {"changed": True, "outdated": [], "warnings": answer.warnings})
    assert (row["accepted"], row["revision"]) == (revision, revision)


@checks("documents.put")
async def check_put(organization: StockedOrganization) -> None:
    answer = await organization.client.documents.put(
        "put", text="Put", pages=[{"page": 4, "start": 0, "end": 3}], revision=7, **GIVEN
    )
    await assert_accepted(organization, answer, revision=7)
    assert answer.warnings == []
    row = await organization.until_row("documents", document_id="put")
    assert_holds(row, alive=True, text_revision=7, tags_revision=7, metadata_revision=7, **GIVEN)
    text = await organization.row("document_texts", _id=row["text_id"])
    assert_holds(text, text="Put", pages=[[4, 0, 3]])


@checks("documents.get")
async def check_get(organization: StockedOrganization) -> None:
    answer = await organization.client.documents.get(LEAVE, wait="searchable", timeout_s=30)
    row = await organization.row("documents", document_id=LEAVE)
    revisions = await organization.row("document_revisions", document_id=LEAVE)
    kb = await organization.row("knowledge_bases", _id=organization.kb_id)
    derived = {
        "accepted_revision": revisions["accepted"],
        "unsendable_messages": [],
        "searchable": True,
        "knowledge_bases": [
            {name: value for name, value in each.items() if not name.startswith("document_")} | {"name": kb["name"]}
            for each in await stored_memberships(organization, LEAVE)
        ],
    }
    assert_shows(answer, row | derived, names=WARNINGS)


@checks("documents.delete")
async def check_delete(organization: StockedOrganization) -> None:
    await new_document(organization, "deleted")
    answer = await organization.client.documents.delete("deleted")
    await assert_accepted(organization, answer, revision=2)
    row = await organization.until_row("documents", document_id="deleted", alive=False)
    assert_holds(row, deleted_revision=answer.revision, tag_ids=[], metadata={})


@checks("documents.batch")
async def check_batch(organization: StockedOrganization) -> None:
    given = GIVEN | {"upload_date": UPLOADED_AT.isoformat()}
    await new_document(organization, "deleted-in-batch")
    answer = await organization.client.documents.batch(
        [
            {"document_id": "batched", "text": "Batched", **given, "metadata": given["metadata"] | {"none": None}},
            {"document_id": "not/an/id", "text": "Bad", **given},
            {"document_id": "deleted-in-batch", "action": "delete"},
        ]
    )
    assert (answer.accepted_count, answer.refused_count) == (2, 1)
    accepted, refused, deleted = answer.outcomes
    row = await organization.until_row("documents", document_id="deleted-in-batch", alive=False)
    assert_holds(row, deleted_revision=deleted.revision)
    row = await organization.row("document_revisions", document_id="batched")
    shown = {"changed": True, "outdated": [], "problem": None, "warnings": accepted.warnings}
    assert_shows(accepted, row | shown)
    assert [each.field for each in accepted.warnings] == ["metadata.none"]
    assert (refused.document_id, refused.revision) == (None, None)
    assert refused.problem is not None
    assert refused.problem.type == "validation-error"
    document = await organization.until_row("documents", document_id="batched")
    assert_holds(document, **GIVEN)
    assert (await organization.row("document_texts", _id=document["text_id"]))["text"] == "Batched"


@checks("documents.replace_tags")
async def check_replace_tags(organization: StockedOrganization) -> None:
    await new_document(organization, "tagged")
    answer = await organization.client.documents.replace_tags("tagged", tag_ids=["replaced"])
    await assert_accepted(organization, answer, revision=2)
    row = await organization.until_row("documents", document_id="tagged", tags_revision=2)
    assert_holds(row, tag_ids=["replaced"], text_revision=1, metadata=GIVEN["metadata"])


@checks("documents.replace_metadata")
async def check_replace_metadata(organization: StockedOrganization) -> None:
    await new_document(organization, "described")
    answer = await organization.client.documents.replace_metadata(
        "described", metadata={"language": "de", "authors": ["a"]}
    )
    await assert_accepted(organization, answer, revision=2)
    row = await organization.until_row("documents", document_id="described", metadata_revision=2)
    assert_holds(row, metadata={"language": "de"}, text_revision=1, tags_revision=1)
    assert [each.field for each in answer.warnings] == ["metadata.authors"]
    assert_holds(row, metadata_warnings=answer.warnings)


@checks("documents.store_text")
async def check_store_text(organization: StockedOrganization) -> None:
    answer = await organization.client.documents.store_text("stored", "A text that nothing refers to yet: é.")
    row = await organization.row("document_texts", document_id="stored")
    assert_shows(answer, row, names={"text_ref": "_id"})
    assert_holds(row, text="A text that nothing refers to yet: é.")


@checks("documents.get_text")
async def check_get_text(organization: StockedOrganization) -> None:
    document = await organization.row("documents", document_id=LEAVE)
    row = await organization.row("document_texts", _id=document["text_id"])
    start, end = 2, len(LEAVE_PAGES[0]) - 1
    answer = await organization.client.documents.get_text(LEAVE, start=start, end=end)
    first_page = dict(zip(("page", "start", "end"), row["pages"][0], strict=True))
    stored = {
        "document_id": LEAVE,
        "text": row["text"][start:end],
        "start": start,
        "end": end,
        "length": len(row["text"]),
        "revision": document["text_revision"],
        "pages": [first_page],
    }
    assert_shows(answer, stored)
    assert row["text"] == LEAVE_TEXT


@checks("documents.list")
async def check_list(organization: StockedOrganization) -> None:
    async def stored() -> list[Row]:
        rows = await organization.rows("documents", **{"$or": [{"alive": True}, {"deleted_revision": None}]})
        return [await _summary(organization, row) for row in rows]

    answer, rows = await undisturbed(lambda: organization.client.documents.list(limit=100), stored)
    assert answer.total_count == len(rows)
    assert {LEAVE, TRAVEL} <= {row["document_id"] for row in rows}
    for document, row in zip(answer.documents, rows, strict=True):
        assert_shows(document, row)


async def _summary(organization: StockedOrganization, row: Row) -> Row:
    memberships = await stored_memberships(organization, row["document_id"])
    placements = [{name: each[name] for name in ("kb_id", "status", "error")} for each in memberships]
    texts = await organization.rows("document_texts", _id=row.get("text_id"))
    return {
        **row,
        "state": "available" if row["alive"] else "waiting_for_text",
        "text_bytes": texts[0]["bytes"] if texts else None,
        "knowledge_bases": placements,
        "has_warnings": bool(row.get("metadata_warnings")),
    }


@checks("documents.list_chunks")
async def check_list_chunks(organization: StockedOrganization) -> None:
    answer = await organization.client.documents.list_chunks(LEAVE, kb_id=organization.kb_id, skip=1, limit=1)
    chunks = await organization.chunks(organization.kb_id, LEAVE)
    indexed = await organization.row("document_index", kb_id=organization.kb_id, document_id=LEAVE)
    assert (answer.document_id, answer.version) == (LEAVE, indexed["version"])
    assert (answer.skip, answer.total_count) == (1, len(chunks))
    [chunk] = answer.chunks
    assert_shows(chunk, chunks[1], names=CHUNKS)
