"""Another organization's document never shows up, however it is asked for."""

from typing import Any

import pytest

from kb_shared.mongo.database import Database
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller
from tests.integration.search.knowledge import JANUARY, DocumentToIndex, Knowledge, create

CANARY = "canary7f3a"
SECRET = DocumentToIndex(
    "same-id", [f"{CANARY} kayak", f"{CANARY} next"], name=f"{CANARY}.pdf", tag_ids=["t1"], metadata={"year": 2025}
)
OWN = DocumentToIndex("same-id", ["my kayak", "my next"], name="mine.pdf", tag_ids=["t1"], metadata={"year": 2025})
FILTERS: list[dict[str, Any]] = [
    {},
    {"document_ids": ["same-id"]},
    {"tag_ids": ["t1"]},
    {"metadata_filter": {"year": 2025}},
    {"metadata_filter": {"year": {"$ne": 1999}}},
    {"metadata_filter": {"document_name": {"$ne": "no"}}},
    {"metadata_filter": {"document_name": SECRET.name}},
    {"metadata_filter": {"$or": [{"tag_ids": {"$nin": ["no"]}}, {"year": {"$gte": 0}}]}},
    {"metadata_filter": {"document_name": {"$gte": ""}}},
    {"upload_date_from": JANUARY.isoformat(), "upload_date_to": JANUARY.isoformat()},
]


@pytest.fixture
async def own(search_database: Database) -> Knowledge:
    """Create the KB of the searcher; the other organization has the same document, which matches the query better."""
    theirs = await create(search_database, "victim", filterable_metadata=("year",))
    await theirs.index(SECRET)
    own = await create(search_database, ORGANIZATION, filterable_metadata=("year",))
    await own.index(OWN)
    # As if rows had gone astray: in one collection they are still told apart by organization and KB.
    for name, right in (("a", {"kb_id": own.kb.kb_id}), ("b", {"organization_id": ORGANIZATION})):
        async for row in theirs.chunks.collection.find({}):
            stray = {"_id": f"same-id:{name}{row['chunk_index']}:0", **right}
            await own.chunks.collection.insert_one(row | stray)
    # The indexes have the strays by the time that they have this.
    await own.index(DocumentToIndex("marker", ["marker"]))
    return own


async def test_no_mode_and_no_filter_shows_another_organizations_document(
    searcher: SearchingCaller, new_searcher: NewSearcher, own: Knowledge
) -> None:
    several = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"
    shown = 0
    for mode in ("vector", "text", "hybrid"):
        for criteria in FILTERS:
            for path in (own.path, several):
                body = {"query": f"{CANARY} kayak", "mode": mode, "top_k": 20, "coalesce_neighbors": 2, **criteria}
                answer = await searcher.post(path, body)
                assert answer.status_code == 200, answer.text
                found = answer.json()
                shown += len(found["results"])
                # It holds the word because it was sent.
                found.pop("query")
                assert CANARY not in str(found), (mode, criteria)
    assert shown > 100, "own documents are found"
    elsewhere = await (await new_searcher("victim")).post(own.path, {"query": "kayak"})
    assert elsewhere.status_code == 404
