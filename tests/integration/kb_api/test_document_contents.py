"""Documents of an organization: listed, read, and opened where a citation points."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_api import document_revisions
from kb_api.searchable_documents import SearchableDocuments
from kb_contracts.documents import DocumentDeleted, MetadataChanged, OcrCompleted, TagsChanged
from kb_local.python_server import SearchNodeProcess
from kb_shared.mongo import document_index, document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import AppliedEvent, Document, MetadataFacet, TagsFacet, TextFacet, chunk_metadata_digest
from kb_shared.mongo.keys import DocumentKey
from tests.conftest import RunningMongo
from tests.integration.indexer.support import CommandLog
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import TRACE, OrganizationClient
from tests.integration.kb_api.test_documents import BODY, accepted
from tests.integration.search import knowledge
from tests.integration.search.knowledge import JANUARY, DocumentToIndex, Knowledge
from tests.waiting import until

EMOJI_TEXT = "Über 🦊 naïve ﬁlters.\n\nSecond page — ends here."


async def listed(organization: OrganizationClient, **params: Any) -> list[str]:
    page = await organization.ok("GET", "/documents", **params)
    assert page["total_count"] >= len(page["documents"])
    return [document["document_id"] for document in page["documents"]]


async def hear(organization: OrganizationClient, document: Document) -> None:
    """As fan-out does after an event of a document."""
    event = AppliedEvent("e", "document.ocr_completed.v1", 1, TRACE, datetime.now(UTC))
    assert await documents.write_all(organization.database, [documents.DocumentChange(document, event)])


async def hear_of_text(
    organization: OrganizationClient,
    document_id: str,
    text: str,
    *,
    tag_ids: tuple[str, ...] = (),
    pages: tuple[tuple[int, int, int], ...] = (),
) -> Document:
    key = DocumentKey(organization.organization_id, document_id)
    text_id = await document_texts.put(organization.database, key, text, pages=pages)
    document = Document(
        organization.organization_id,
        document_id,
        text=TextFacet(3, "d", text_id, name=f"{document_id}.pdf", upload_date=JANUARY),
        tags=TagsFacet(3, "d", tag_ids),
    )
    await hear(organization, document)
    return document


async def test_documents_are_listed_by_tag_name_knowledge_base_and_state(organization: OrganizationClient) -> None:
    await organization.tag("a", "b")
    kb_id = (await organization.create(tag_ids=["a"]))["kb_id"]
    await organization.project("d1", name="Zebra report.pdf", tag_ids=("a",))
    await organization.project("d2", name="Ant REPORT.pdf", tag_ids=("a", "b"))
    await organization.project("d3", name="Memo.pdf", tag_ids=("b",))
    await hear(organization, Document(organization.organization_id, "d4", tags=TagsFacet(1, "d", ("a",))))
    await hear(organization, Document(organization.organization_id, "d5", deleted_revision=7))
    await organization.index(kb_id, "d1", name="Zebra report.pdf", chunks=2)
    await organization.failed_job(kb_id, "d2", error_type="document_unfit", error_message="3000 chunks")

    assert await listed(organization) == ["d1", "d2", "d3", "d4"]
    assert await listed(organization, sort="-document_id", skip=1, limit=2) == ["d3", "d2"]
    assert await listed(organization, name_search="report", sort="document_name") == ["d2", "d1"]
    assert await listed(organization, tag_id="b") == ["d2", "d3"]
    assert await listed(organization, kb_id=kb_id) == ["d1"]
    assert await listed(organization, status="indexed") == ["d1"]
    assert await listed(organization, status="failed", kb_id=kb_id) == ["d2"]
    assert await listed(organization, status="waiting_for_text") == ["d4"]
    assert await listed(organization, status="deleted") == ["d5"]
    assert await listed(organization, in_no_kb=True, status="available") == ["d2", "d3"]
    assert await organization.refused("GET", "/documents", in_no_kb=True, kb_id=kb_id) == (422, "validation-error")

    assert await listed(organization, id_prefix="d") == ["d1", "d2", "d3", "d4"]
    assert await listed(organization, id_prefix="d2", tag_id="a") == ["d2"]
    assert await listed(organization, id_prefix="d1", kb_id=kb_id) == ["d1"]
    assert await listed(organization, id_prefix="d2", kb_id=kb_id) == []
    assert await listed(organization, id_prefix="D") == []

    assert await listed(organization, document_ids="d3,d1,unknown") == ["d1", "d3"]
    assert await listed(organization, document_ids="d1,d2", kb_id=kb_id) == ["d1"]
    assert await listed(organization, document_ids="d1,d2", id_prefix="d2") == ["d2"]
    too_many = ",".join(["d1"] * 51)
    assert await organization.refused("GET", "/documents", document_ids=too_many) == (422, "validation-error")

    page = await organization.ok("GET", "/documents", limit=2)
    assert page["total_count"] == 4
    placements = [document["knowledge_bases"] for document in page["documents"]]
    places = [[(each["status"], each["error"]) for each in placement] for placement in placements]
    assert places == [[("indexed", None)], [("failed", {"type": "document_unfit", "message": "3000 chunks"})]]


async def test_an_organization_lists_none_of_the_documents_of_another_whose_name_it_begins_with(
    new_organization: NewOrganization,
) -> None:
    short = await new_organization()
    longer = await new_organization(organization_id=f"{short.organization_id}-2")
    await longer.project("d1", name="Secret.pdf")
    assert await listed(short) == []
    assert await listed(short, document_ids="d1") == []
    assert await listed(longer) == ["d1"]


async def test_a_prefix_of_ids_is_taken_literally(organization: OrganizationClient) -> None:
    document = Document(
        organization.organization_id,
        "a.b-1",
        text=TextFacet(1, "d", "t", name="B", upload_date=JANUARY, source_digest="5ff2eaebd7ff816a"),
    )
    await hear(organization, document)
    for document_id in ("axb-1", "a.bz", "a.c", "a-b"):
        await organization.project(document_id, name="Other.pdf")
    assert await listed(organization, id_prefix="a.b") == ["a.b-1", "a.bz"]
    assert await listed(organization, id_prefix=f"../{organization.organization_id}/") == []
    page = await organization.ok("GET", "/documents", id_prefix="a.b", limit=100)
    assert [each["source_digest"] for each in page["documents"]] == ["5ff2eaebd7ff816a", None]


async def test_a_part_of_a_text_is_counted_in_characters_whether_stored_in_a_row_or_a_file(
    organization: OrganizationClient,
) -> None:
    large = "🦊ü" * 200_000  # more than a megabyte in UTF-8, so that a file has it
    end_of_page = EMOJI_TEXT.index("Second")
    pages = ((1, 0, end_of_page), (2, end_of_page, len(EMOJI_TEXT)))
    await hear_of_text(organization, "small", EMOJI_TEXT, pages=pages)
    await hear_of_text(organization, "large", large)

    whole = await organization.ok("GET", "/documents/small/text")
    assert (whole["text"], whole["length"], whole["revision"]) == (EMOJI_TEXT, len(EMOJI_TEXT), 3)
    part = await organization.ok("GET", "/documents/small/text", start=5, end=12)
    assert (part["text"], part["start"], part["end"]) == (EMOJI_TEXT[5:12], 5, 12)
    assert part["pages"] == [{"page": 1, "start": 0, "end": end_of_page}]
    beyond = await organization.ok("GET", "/documents/small/text", start=10_000)
    assert (beyond["text"], beyond["start"], beyond["end"]) == ("", len(EMOJI_TEXT), len(EMOJI_TEXT))

    # Across the borders of the pieces of the file, which are within characters.
    read, start = "", 0
    while start < len(large):
        part = await organization.ok("GET", "/documents/large/text", start=start, end=start + 150_001)
        assert part["length"] == len(large)
        read, start = read + part["text"], part["end"]
    assert read == large

    assert await organization.refused("GET", "/documents/none/text") == (404, "not-found")
    assert await organization.refused("GET", "/documents/small/text", start=5, end=4) == (422, "validation-error")


async def test_a_text_that_is_replaced_whenever_it_is_read_has_to_be_read_later(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await hear_of_text(organization, "busy", EMOJI_TEXT)
    assert document.text is not None
    texts = organization.database[document_texts.NAME]
    await texts.delete_one({"_id": document.text.text_id})
    assert await organization.refused("GET", "/documents/busy/text") == (503, "unavailable")
    find_part = document_texts.find_part

    async def find_after_replacement(database: Database, organization_id: str, identity: str, **part: int) -> Any:
        key = {"organization_id": organization_id, "document_id": "busy"}
        await database[documents.NAME].update_one(key, {"$set": {"text_id": f"{identity}-newer"}})
        return await find_part(database, organization_id, identity, start=part["start"], end=part["end"])

    monkeypatch.setattr(document_texts, "find_part", find_after_replacement)
    assert await organization.refused("GET", "/documents/busy/text") == (503, "text-being-replaced")


async def test_a_citation_opens_until_its_document_changes_and_then_says_that_it_was_replaced(
    organization: OrganizationClient,
) -> None:
    made = await knowledge.create(organization.database, organization.organization_id, tag_ids=("a",), ready=False)
    texts = [f"Paragraph {n}" for n in range(9)]
    await made.index(DocumentToIndex("d", texts, name="D.pdf", metadata={"year": 2026}), searchable=False)
    await organization.project("d", name="D.pdf", tag_ids=("a",))
    chunks = f"/knowledge-bases/{made.kb.kb_id}/chunks"
    every = (await organization.ok("GET", chunks, document_id="d"))["chunks"]
    cited = every[4]["chunk_id"]

    opened = await organization.ok("GET", f"{chunks}/{cited}")
    assert (opened["content"], opened["chunk_index"], opened["document_id"]) == ("Paragraph 4", 4, "d")
    assert (opened["document_name"], opened["metadata"]) == ("D.pdf", {"year": 2026})
    assert opened["heading_path"] == ["Title", "Part 4"]

    around = await organization.ok("GET", "/documents/d/chunks", kb_id=made.kb.kb_id, around=cited, limit=3)
    assert [chunk["chunk_index"] for chunk in around["chunks"]] == [3, 4, 5]
    assert (around["skip"], around["total_count"]) == (3, 9)

    await made.index(DocumentToIndex("d", texts[:4], name="D.pdf"), searchable=False)
    # While the replaced chunk is still stored, and after it was deleted.
    for _ in range(2):
        gone = await organization.request("GET", f"{chunks}/{cited}")
        assert (gone.status_code, gone.json()["type"], gone.json()["document_id"]) == (410, "passage-replaced", "d")
        assert await organization.refused("GET", chunks, document_id="d", around=cited) == (410, "passage-replaced")
        await made.chunks.collection.delete_many({"until": {"$ne": None}})

    unknown = cited.replace("d:", "other:", 1)
    for never in (unknown, "none", f"{cited}x", cited.replace(":", ";")):
        assert await organization.refused("GET", f"{chunks}/{never}") == (404, "not-found")
    assert await organization.refused("GET", chunks, document_id="other", around=cited) == (404, "not-found")


@pytest.mark.parametrize(
    ("item", "shown"),
    [(None, "null"), ("d1", "a text of 2 characters"), (7, "7"), (["d1"], "a list of 1 item"), (True, "true")],
)
async def test_an_item_of_a_batch_that_is_no_object_does_not_refuse_the_others(
    organization: OrganizationClient, item: Any, shown: str
) -> None:
    good = {**BODY, "document_id": "d1", "revision": 5}
    answer = await organization.ok("POST", "/documents:batch", json={"documents": [item, good]})
    assert (answer["accepted_count"], answer["refused_count"]) == (1, 1)
    bad, accepted_one = answer["outcomes"]
    assert (bad["document_id"], bad["revision"], bad["changed"]) == (None, None, False)
    assert bad["problem"]["type"] == "validation-error"
    assert bad["problem"]["fields"] == [{"field": "value", "message": f"must be an object, not {shown}"}]
    assert accepted_one["problem"] is None


async def test_a_bad_document_of_a_batch_does_not_refuse_the_others(organization: OrganizationClient) -> None:
    good = [{**BODY, "document_id": f"d{n}", "revision": 5} for n in range(2)]
    bad = [
        {**BODY, "document_id": "not an id"},
        {**BODY, "document_id": "d9", "text_ref": "x"},
        {**BODY, "document_id": "d8", "colour": "red"},
        {**{k: v for k, v in BODY.items() if k != "text"}, "document_id": "d7", "text_ref": "unknown"},
    ]
    answer = await organization.ok("POST", "/documents:batch", json={"documents": [good[0], *bad, good[1]]})
    assert (answer["accepted_count"], answer["refused_count"]) == (2, 4)
    first, no_id, two_texts, unknown_field, no_text, last = answer["outcomes"]
    took = {"changed": True, "outdated": [], "problem": None, "warnings": []}
    assert first == {"document_id": "d0", "revision": 5, **took}
    assert last["document_id"] == "d1"
    assert (no_id["document_id"], no_id["problem"]["fields"][0]["field"]) == (None, "document_id")
    assert two_texts["problem"]["type"] == "validation-error"
    assert unknown_field["problem"]["fields"][0]["field"] == "colour"
    assert (no_text["problem"]["status"], no_text["problem"]["type"]) == (422, "unknown-text-ref")
    assert sorted(event.document_id for event, _ in await accepted(organization)) == ["d0", "d1"]

    # Sent again, as after a lost answer, it changes nothing: the revisions are the same.
    await organization.ok("PATCH", "/documents/d0/tags", json={"tag_ids": ["b"], "revision": 6})
    again = await organization.ok("POST", "/documents:batch", json={"documents": good})
    assert [outcome["revision"] for outcome in again["outcomes"]] == [5, 5]
    assert await organization.refused("POST", "/documents:batch", json={"documents": []}) == (422, "validation-error")
    assert await organization.refused("POST", "/documents:batch", json={"documents": [good[0]] * 101}) == (
        422,
        "validation-error",
    )


async def test_tags_of_several_documents_are_replaced_by_a_batch_without_their_texts(
    organization: OrganizationClient,
) -> None:
    for document_id in ("d0", "d1"):
        await organization.project(document_id, name=document_id, tag_ids=("a",))
    retag = {"action": "replace_tags", "tag_ids": ["b"]}
    entries = [
        {**retag, "document_id": "d0"},
        {**retag, "document_id": "unknown"},
        {**retag, "document_id": "d1", "document_name": "n"},
        {**retag, "document_id": "d1", "revision": 9},
        {**BODY, "document_id": "d2", "action": "put"},
        {**BODY, "document_id": "d3", "action": "rename"},
    ]
    answer = await organization.ok("POST", "/documents:batch", json={"documents": entries})
    problems = [outcome["problem"] and outcome["problem"]["type"] for outcome in answer["outcomes"]]
    assert problems == [None, "not-found", "validation-error", None, None, "validation-error"]
    assert answer["outcomes"][3]["revision"] == 9
    published = {event.document_id: event for event, _ in await accepted(organization)}
    assert sorted(published) == ["d0", "d1", "d2"]
    for document_id in ("d0", "d1"):
        event = published[document_id]
        assert isinstance(event, TagsChanged)
        assert event.tag_ids == ["b"]
    assert isinstance(published["d2"], OcrCompleted)


async def test_metadata_are_replaced_and_documents_deleted_by_a_batch_as_by_their_own_calls(
    organization: OrganizationClient,
) -> None:
    for document_id in ("d0", "d1"):
        await organization.project(document_id, name=document_id, tag_ids=("a",))
    entries = [
        {"action": "replace_metadata", "document_id": "d0", "metadata": {"year": 2026}},
        {"action": "replace_metadata", "document_id": "unknown", "metadata": {}},
        {"action": "replace_metadata", "document_id": "d0", "metadata": [1]},
        {"action": "delete", "document_id": "d1", "revision": 9},
        {"action": "delete", "document_id": "unknown"},
        {"action": "delete", "document_id": "d0", "tag_ids": []},
        {"action": "delete", "document_id": "d0"},
        {"action": ["delete"], "document_id": "d0"},
    ]
    answer = await organization.ok("POST", "/documents:batch", json={"documents": entries})
    problems = [outcome["problem"] and outcome["problem"]["type"] for outcome in answer["outcomes"]]
    wrong = "validation-error"
    assert problems == [None, "not-found", wrong, None, "not-found", wrong, None, wrong]
    replaced, _, _, deleted, _, _, last, _ = answer["outcomes"]
    assert (deleted["revision"], last["revision"]) == (9, replaced["revision"] + 1)
    published = [event for event, _ in await accepted(organization)]
    assert [(type(event), event.document_id) for event in sorted(published, key=lambda each: each.revision)] == [
        (MetadataChanged, "d0"),
        (DocumentDeleted, "d0"),
        (DocumentDeleted, "d1"),
    ]
    for method, path, json in (
        ("PATCH", "/documents/unknown/metadata", {"metadata": {}}),
        ("DELETE", "/documents/unknown", None),
    ):
        assert await organization.refused(method, path, json=json) == (404, "not-found")


async def test_a_wait_ends_when_both_search_indexes_have_the_document_and_many_waits_share_one_lookup(
    organization: OrganizationClient, search_node: RunningMongo | SearchNodeProcess
) -> None:
    made = await knowledge.create(organization.database, organization.organization_id, tag_ids=("a",))
    document = await hear_of_text(organization, "d", "Forty widgets.", tag_ids=("a",))
    log = CommandLog()

    def lookups() -> int:
        return log.names().count(f"find {document_revisions.NAME}")

    async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True, event_listeners=[log]) as client:
        waiting = SearchableDocuments(client[organization.database.name])
        waits = [asyncio.create_task(waiting.wait(document.key, timeout_s=60)) for _ in range(20)]
        await until(lambda: lookups() >= 4)
        # The first ones may join two lookups; 20 waits of their own would have made 80.
        assert lookups() <= 10
        to_index = DocumentToIndex("d", ["Forty widgets."], name="d.pdf", tag_ids=("a",))
        await made.index(to_index, searchable=False)
        assert not any(wait.done() for wait in waits)
        await set_indexed(made, document)
        assert await asyncio.gather(*waits) == [True] * 20
    assert await made.is_found(to_index)
    answer = await organization.ok("GET", "/documents/d", wait="searchable")
    assert (answer["searchable"], answer["knowledge_bases"][0]["status"]) == (True, "indexed")


async def set_indexed(made: Knowledge, document: Document) -> None:
    """State that what is indexed is the text of the document, as the indexer does in the swap itself."""
    assert document.text is not None
    row = {"kb_id": made.kb.kb_id, "document_id": document.document_id}
    indexed = {
        "content_digest": document.text.text_id,
        "config_hash": made.kb.config_hash,
        "snapshot_digest": chunk_metadata_digest(document),
        "text_revision": document.text.revision,
    }
    assert (await made.database[document_index.NAME].update_one(row, {"$set": indexed})).matched_count == 1


async def test_a_wait_ends_early_if_the_document_will_not_get_further(organization: OrganizationClient) -> None:
    await organization.tag("a")
    kb_id = (await organization.create(tag_ids=["a"]))["kb_id"]
    await organization.project("in-no-kb", name="D.pdf", tag_ids=("b",))
    await organization.project("failed", name="D.pdf", tag_ids=("a",))
    await organization.failed_job(kb_id, "failed", error_type="document_unfit", error_message="3000 chunks")
    for document_id in ("in-no-kb", "failed"):
        answer = await organization.ok("GET", f"/documents/{document_id}", wait="searchable", timeout_s=60)
        assert answer["searchable"] is False
    await organization.project("pending", name="D.pdf", tag_ids=("a",))
    assert (await organization.ok("GET", "/documents/pending", wait="searchable", timeout_s=0.1))["searchable"] is False
    assert (await organization.ok("GET", "/documents/pending"))["searchable"] is None
    assert await organization.refused("GET", "/documents/none", wait="searchable") == (404, "not-found")
    assert await organization.refused("GET", "/documents/pending", timeout_s=61) == (422, "validation-error")


async def test_metadata_keys_are_listed_with_types_and_values_of_the_documents_of_the_knowledge_base(
    new_organization: NewOrganization, organization: OrganizationClient
) -> None:
    await organization.tag("a")
    kb_id = (await organization.create(tag_ids=["a"], filterable_metadata=["year"]))["kb_id"]
    due = datetime(2026, 2, 28, tzinfo=UTC)
    given: list[dict[str, Any]] = [
        {"year": 2024, "lang": "en", "draft": True, "long": "x" * 101},
        {"year": 2026.5, "lang": "en", "due": due},
        {"year": "unknown", "lang": "de"},
    ]
    other = await new_organization()
    for owner, tag, values in [
        *((organization, "a", each) for each in given),
        (organization, "b", {"outside": 1}),
        (other, "a", {"foreign": 1}),
    ]:
        document = Document(
            owner.organization_id,
            f"d{id(values)}",
            text=TextFacet(1, "d", "t", name="d.pdf", upload_date=JANUARY),
            tags=TagsFacet(1, "d", (tag,)),
            metadata=MetadataFacet(1, "d", values),
        )
        await hear(owner, document)

    answer = await organization.ok("GET", f"/knowledge-bases/{kb_id}/metadata-keys")
    assert (answer["document_count"], answer["is_exact"]) == (3, True)
    keys = {each["key"]: each for each in answer["keys"]}
    assert list(keys) == ["lang", "year", "draft", "due", "long"]
    assert [each["key"] for each in answer["keys"] if each["filterable"]] == ["year"]
    numbers, strings = keys["year"]["types"]
    assert (numbers["type"], numbers["least"], numbers["greatest"]) == ("number", 2024, 2026.5)
    assert (strings["type"], strings["least"]) == ("string", None)
    assert keys["lang"]["types"][0]["top_values"] == [
        {"value": "en", "document_count": 2},
        {"value": "de", "document_count": 1},
    ]
    assert keys["due"]["types"][0]["least"] == "2026-02-28T00:00:00Z"
    assert keys["draft"]["types"][0]["top_values"] == [{"value": True, "document_count": 1}]
    assert (keys["long"]["document_count"], keys["long"]["types"][0]["top_values"]) == (1, [])
