"""Why a document is in a KB or not, and what its chunks are."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kb_shared.mongo import documents
from kb_shared.mongo.documents import AppliedEvent
from kb_shared.mongo.keys import DocumentKey
from tests.integration.kb_api.organization import TRACE, OrganizationClient
from tests.integration.search import knowledge
from tests.integration.search.knowledge import DocumentToIndex


@pytest.fixture
async def kb_id(organization: OrganizationClient) -> str:
    await organization.tag("a")
    kb_id: str = (await organization.create(tag_ids=["a"]))["kb_id"]
    return kb_id


async def explain(organization: OrganizationClient, kb_id: str, document_id: str) -> dict[str, Any]:
    return await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents/{document_id}/explain")


async def test_a_document_without_a_tag_of_the_knowledge_base_says_so(
    organization: OrganizationClient, kb_id: str
) -> None:
    await organization.project("d", name="D.pdf", tag_ids=("b", "c"))
    explanation = await explain(organization, kb_id, "d")
    assert (explanation["status"], explanation["shared_tag_ids"], explanation["knowledge_base_tag_ids"]) == (
        "not_in_knowledge_base",
        [],
        ["a"],
    )
    assert explanation["reason"] == "It has none of the tags of this knowledge base."
    assert explanation["document"]["tag_ids"] == ["b", "c"]
    assert (explanation["indexed"], explanation["job"]) == (None, None)
    [event] = explanation["events"]
    assert (event["type"], event["trace_id"]) == ("document.ocr_completed.v1", TRACE.split("-")[1])


async def test_a_failed_document_shows_its_error_and_what_to_do(organization: OrganizationClient, kb_id: str) -> None:
    await organization.project("d", name="D.pdf", tag_ids=("a",))
    await organization.failed_job(kb_id, "d", error_type="document_unfit", error_message="3000 chunks")
    explanation = await explain(organization, kb_id, "d")
    assert (explanation["status"], explanation["job"]["error"]) == (
        "failed",
        {"type": "document_unfit", "message": "3000 chunks"},
    )
    assert (explanation["job"]["attempts"], explanation["job"]["reason"]) == (1, "backfill")
    assert "retry-failed" in explanation["reason"]


async def test_a_tagged_document_without_a_job_waits_for_the_reconciler(
    organization: OrganizationClient, kb_id: str
) -> None:
    await organization.project("d", name="D.pdf", tag_ids=("a",))
    assert "reconciler" in (await explain(organization, kb_id, "d"))["reason"]


async def test_an_indexed_document_that_lost_its_tag_has_to_leave(organization: OrganizationClient, kb_id: str) -> None:
    await organization.project("d", name="D.pdf", tag_ids=("b",))
    await organization.index(kb_id, "d", name="D.pdf", chunks=3)
    explanation = await explain(organization, kb_id, "d")
    assert explanation["status"] == "indexed"
    assert explanation["reason"].startswith("It must be removed: It has none of the tags")
    assert explanation["indexed"]["chunk_count"] == 3


async def test_an_unknown_document_is_not_found(organization: OrganizationClient, kb_id: str) -> None:
    path = f"/knowledge-bases/{kb_id}/documents/none/explain"
    assert await organization.refused("GET", path) == (404, "not-found")
    assert await organization.refused("GET", f"/knowledge-bases/{kb_id}/chunks", document_id="none") == (
        404,
        "not-found",
    )


async def test_only_the_last_events_of_a_document_are_remembered(organization: OrganizationClient, kb_id: str) -> None:
    await organization.project("d", name="D.pdf", tag_ids=("a",))
    for number in range(7):
        document = await documents.find(organization.database, DocumentKey(organization.organization_id, "d"))
        assert document is not None
        event = AppliedEvent(f"e{number}", "document.tags_changed.v1", number, TRACE, datetime.now(UTC))
        assert await documents.write_all(organization.database, [documents.DocumentChange(document, event)])
    explanation = await explain(organization, kb_id, "d")
    assert [event["event_id"] for event in explanation["events"]] == ["e6", "e5", "e4", "e3", "e2"]


async def test_chunks_are_paged_in_their_order_without_vectors_and_only_live_ones(
    organization: OrganizationClient,
) -> None:
    made = await knowledge.create(organization.database, organization.organization_id, tag_ids=("a",), ready=False)
    texts = [f"Paragraph {n}" for n in range(5)]
    await made.index(DocumentToIndex("d", ["gone", *texts[:2]], name="D.pdf", tag_ids=("a",)), searchable=False)
    await made.index(DocumentToIndex("d", texts, name="D.pdf", tag_ids=("a",)), searchable=False)
    path = f"/knowledge-bases/{made.kb.kb_id}/chunks"
    pages = [await organization.ok("GET", path, document_id="d", skip=skip, limit=2) for skip in (0, 2, 4)]
    chunks = [chunk for page in pages for chunk in page["chunks"]]
    assert [chunk["content"] for chunk in chunks] == texts
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(5))
    assert {page["total_count"] for page in pages} == {5}
    assert {page["version"] for page in pages} == {2}
    assert not any("embedding" in chunk for chunk in chunks)


async def test_a_document_without_any_chunk_has_an_empty_list(organization: OrganizationClient, kb_id: str) -> None:
    await organization.index(kb_id, "d", name="Blank.pdf", chunks=0)
    answer = await organization.ok("GET", f"/knowledge-bases/{kb_id}/chunks", document_id="d")
    assert (answer["chunks"], answer["total_count"]) == ([], 0)
