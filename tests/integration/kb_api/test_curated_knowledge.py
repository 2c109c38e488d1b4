"""What kb-api does with the documents, tags and the knowledge base of entries."""

from typing import Any

import pytest

from kb_contracts.knowledge.entry_fields import FILTERABLE_ENTRY_FIELDS
from kb_shared.mongo.knowledge_bases import KnowledgeBaseKind
from tests.integration.kb_api.organization import OrganizationClient

DOCUMENT = {"document_name": "n", "tag_ids": ["a"], "text": "text", "upload_date": "2026-01-31T00:00:00Z"}
RESERVED = (422, "reserved-id")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/documents/entry-e1", DOCUMENT),
        ("PUT", "/documents/d1", DOCUMENT | {"tag_ids": ["a", "kb.knowledge"]}),
        ("PATCH", "/documents/entry-e1/tags", {"tag_ids": ["a"]}),
        ("PATCH", "/documents/d1/tags", {"tag_ids": ["kb.x"]}),
        ("PATCH", "/documents/entry-e1/metadata", {"metadata": {}}),
        ("DELETE", "/documents/entry-e1", None),
        ("POST", "/tags", {"tag_id": "kb.x", "name": "n"}),
        ("PUT", "/tags/kb.x", {"name": "n"}),
        ("DELETE", "/tags/kb.knowledge", None),
        ("POST", "/knowledge-bases", {"name": "n", "tag_ids": ["kb.knowledge"]}),
        ("POST", "/knowledge-bases/preview", {"tag_ids": ["kb.knowledge"]}),
    ],
)
async def test_documents_and_tags_of_entries_are_refused(
    organization: OrganizationClient, method: str, path: str, body: Any
) -> None:
    assert await organization.refused(method, path, json=body) == RESERVED


async def test_texts_and_batches_cannot_name_entries_either(organization: OrganizationClient) -> None:
    headers = {"Authorization": f"Bearer {organization.key}", "Content-Type": "text/plain"}
    path = f"{organization.base}/documents/entry-e1/text"
    stored = await organization.http.put(path, content="text", headers=headers)
    assert (stored.status_code, stored.json()["type"]) == RESERVED
    batch = [DOCUMENT | {"document_id": "entry-e1"}, {"action": "delete", "document_id": "entry-e1"}]
    outcomes = (await organization.ok("POST", "/documents:batch", json={"documents": batch}))["outcomes"]
    assert [(each["problem"]["status"], each["problem"]["type"]) for each in outcomes] == [RESERVED, RESERVED]


async def knowledge_base_of_entries(organization: OrganizationClient) -> str:
    """Make a KB that of the entries, as the service `knowledge` stores it."""
    kb_id = str((await organization.create(name="Knowledge"))["kb_id"])
    await organization.database["knowledge_bases"].update_one(
        {"_id": kb_id},
        {
            "$set": {
                "kind": KnowledgeBaseKind.KNOWLEDGE,
                "tag_ids": ["kb.knowledge"],
                "filterable_metadata": [*FILTERABLE_ENTRY_FIELDS],
            }
        },
    )
    return kb_id


async def test_the_knowledge_base_of_entries_keeps_the_filters_of_searches_for_entries(
    organization: OrganizationClient,
) -> None:
    path = f"/knowledge-bases/{await knowledge_base_of_entries(organization)}"
    for kept in (0, len(FILTERABLE_ENTRY_FIELDS) - 1):
        fewer = {"filterable_metadata": [*FILTERABLE_ENTRY_FIELDS[:kept]]}
        refused = await organization.refused("PUT", path, json=fewer)
        assert refused == (409, "knowledge-kb-fixed")
    added = [*FILTERABLE_ENTRY_FIELDS, "year"]
    changed = await organization.ok("PUT", path, json={"filterable_metadata": added})
    assert changed["filterable_metadata"] == added


async def test_the_knowledge_base_of_entries_keeps_its_tag_and_is_not_deleted(
    organization: OrganizationClient,
) -> None:
    kb_id = await knowledge_base_of_entries(organization)
    path, fixed = f"/knowledge-bases/{kb_id}", (409, "knowledge-kb-fixed")
    assert await organization.refused("DELETE", path) == fixed
    assert await organization.refused("PUT", path, json={"tag_ids": []}) == fixed
    entries = [{"kb_id": kb_id, "action": "replace_tags", "tag_ids": ["a"]}]
    [outcome] = (await organization.ok("POST", "/knowledge-bases:batch", json={"entries": entries}))["outcomes"]
    assert (outcome["problem"]["status"], outcome["problem"]["type"]) == fixed
    changed = await organization.ok("PUT", path, json={"tag_ids": ["kb.knowledge"], "description": "Ours."})
    assert (changed["kind"], changed["tag_ids"], changed["description"]) == ("knowledge", ["kb.knowledge"], "Ours.")


@pytest.mark.parametrize("sort", ["name", "-name", "created_at", "-document_count"])
async def test_the_knowledge_base_of_entries_is_the_first_of_each_list(
    organization: OrganizationClient, sort: str
) -> None:
    await organization.create(name="A")
    await knowledge_base_of_entries(organization)
    await organization.create(name="Z")
    listed = (await organization.ok("GET", "/knowledge-bases", sort=sort))["knowledge_bases"]
    assert [kb["kind"] for kb in listed] == ["knowledge", "documents", "documents"]
