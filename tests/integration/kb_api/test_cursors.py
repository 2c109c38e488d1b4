"""Lists that grow without bound are read page by page with cursors: nothing is missing, and nothing comes twice."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId

from kb_shared.errors import MessageRefused
from kb_shared.messaging.unsendable_messages import mark_unsendable
from kb_shared.mongo import backfills, dead_letters, documents, outbox
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange, TagsFacet, TextFacet
from kb_shared.mongo.stored_time import now
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient

AT = datetime(2026, 1, 1, tzinfo=UTC)


async def read_pages(organization: OrganizationClient, path: str, field: str, **params: Any) -> list[dict[str, Any]]:
    """Read the list in pages of two."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    totals = set()
    while True:
        page = await organization.ok("GET", path, limit=2, **params, **cursor)
        found += page[field]
        totals.add(page["total_count"])
        if page["next_cursor"] is None:
            assert totals == {len(found)}
            return found
        cursor = {"cursor": page["next_cursor"]}


async def assert_pages_are_whole(
    organization: OrganizationClient, path: str, field: str, *, count: int, **params: Any
) -> None:
    whole = (await organization.ok("GET", path, limit=100, **params))[field]
    assert len(whole) == count
    assert await read_pages(organization, path, field, **params) == whole


async def project(organization: OrganizationClient, document_id: str, *, name: str | None, at: datetime) -> None:
    text = None if name is None else TextFacet(1, "d", "t", name, at)
    document = Document(organization.organization_id, document_id, text=text, tags=TagsFacet(1, "d", ("t",)))
    event = AppliedEvent("e", "test", 1, "", at)
    assert await documents.write_all(organization.database, [DocumentChange(document, event)])


NAMES: Sequence[tuple[str, str | None]] = (
    ("a", "same"),
    ("b", None),
    ("c", "$other"),
    ("d", "same"),
    ("e", None),
    ("f", "same"),
)


@pytest.mark.parametrize(
    "sort", ["document_id", "-document_id", "document_name", "-document_name", "upload_date", "-upload_date"]
)
async def test_documents_are_paged_in_any_order_also_those_without_a_name_and_with_equal_ones(
    organization: OrganizationClient, sort: str
) -> None:
    for document_id, name in NAMES:
        await project(organization, document_id, name=name, at=AT)
    await assert_pages_are_whole(organization, "/documents", "documents", count=6, sort=sort)


@pytest.mark.parametrize("status", [None, "all", "failed"])
async def test_documents_of_a_knowledge_base_are_paged(organization: OrganizationClient, status: str | None) -> None:
    kb_id = (await organization.create())["kb_id"]
    for n in range(3):
        await organization.index(kb_id, f"i{n}", name="n", chunks=1)
        await organization.failed_job(kb_id, f"f{n}", error_type="x", error_message="y")
    params = {} if status is None else {"status": status}
    count = 6 if status == "all" else 3
    await assert_pages_are_whole(
        organization, f"/knowledge-bases/{kb_id}/documents", "documents", count=count, **params
    )


async def test_jobs_dead_letters_and_unsendable_messages_are_paged(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    scan = await organization.database[backfills.NAME].find_one({"kb_id": kb_id})
    assert scan is not None
    await organization.database[backfills.NAME].insert_many([scan | {"_id": str(ObjectId())} for _ in range(4)])
    # Rows of AT would have expired.
    lately = now()
    letter = {
        "organization_id": organization.organization_id,
        "topic": "document-events",
        "partition": 0,
        "offset": 1,
        "document_id": None,
        "key": None,
        "reason": "not-json",
        "detail": "d",
        "size_bytes": None,
        "headers": [],
        "traceparent": None,
        "occurred_at": AT,
        "filed_at": lately,
        "redriven_at": None,
    }
    await organization.database[dead_letters.NAME].insert_many(
        [letter | {"_id": f"{organization.organization_id}-{n}"} for n in range(5)]
    )
    for n in range(5):
        body = {"document_name": "n", "tag_ids": [], "upload_date": AT.isoformat(), "text": "t"}
        await organization.ok("PUT", f"/documents/d{n}", json=body)
    messages = await outbox.find_unsent(organization.database, range(outbox.BUCKETS), limit=10_000)
    prefix = f"{organization.organization_id}/d".encode()
    for message in messages:
        if (message.key or b"").startswith(prefix):
            refusal = MessageRefused("too large", reason="too-large")
            await mark_unsendable(organization.database, message, refusal=refusal, size_bytes=1)
    of_organization = {"organization_id": organization.organization_id}
    await organization.database[outbox.NAME].update_many(of_organization, {"$set": {"unsendable_at": lately}})

    await assert_pages_are_whole(organization, f"/knowledge-bases/{kb_id}/jobs", "jobs", count=5)
    await assert_pages_are_whole(organization, "/dead-letters", "dead_letters", count=5)
    await assert_pages_are_whole(organization, "/unsendable-messages", "unsendable_messages", count=5)


async def test_a_page_shows_nothing_twice_when_something_is_added_before_it(organization: OrganizationClient) -> None:
    for document_id in ("b", "d", "f"):
        await project(organization, document_id, name="n", at=AT)
    first = await organization.ok("GET", "/documents", limit=2)
    await project(organization, "a", name="n", at=AT)
    second = await organization.ok("GET", "/documents", limit=2, cursor=first["next_cursor"])
    assert [each["document_id"] for each in second["documents"]] == ["f"]


async def test_a_cursor_is_of_one_list_and_one_organization_and_goes_without_skip(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    for document_id in ("a", "b"):
        await project(organization, document_id, name="n", at=AT)
    cursor = (await organization.ok("GET", "/documents", limit=1))["next_cursor"]
    wrong = (422, "validation-error")
    assert await organization.refused("GET", "/documents", cursor=cursor, skip=1) == wrong
    assert await organization.refused("GET", "/documents", cursor=cursor, sort="-document_id") == wrong
    assert await organization.refused("GET", "/dead-letters", cursor=cursor) == wrong
    assert await (await new_organization()).refused("GET", "/documents", cursor=cursor) == wrong
