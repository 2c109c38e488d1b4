"""Entries of a source that was deleted: lists, totals and searches agree on what they are."""

from typing import Any

import httpx

from kb_knowledge.remove_source_kinds import SourceKindRemover
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.sources.source_items import SourceItem
from kb_knowledge.store import knowledge_sources
from kb_knowledge.store.keys import SourceKey
from kb_knowledge.store_source_entries import EntriesOfSource
from kb_knowledge.write_entries import EntryWriter
from kb_shared.mongo import spu_ledger
from tests.integration.knowledge.author import Author
from tests.integration.knowledge.calls import answer

KIND = "file_upload"


async def new_source(author: Author, writer: EntryWriter) -> str:
    """Create a source, with an entry for each of two files; return its id."""
    file = await answer(author, "POST", "/knowledge-sources/files?filename=a.md", content=b"A night costs 140 euros.")
    config = {"filename": "a.md", "file_id": file["file_id"]}
    created = await answer(
        author, "POST", "/knowledge-sources", json={"label": "Files", "kind": KIND, "config": config}
    )
    source_id: str = created["source_id"]
    source = await knowledge_sources.get(author.database, SourceKey(author.organization_id, source_id))
    entries = EntriesOfSource(author.database, writer, source, max_entries=0)
    for name in ("tunnel", "bridge"):
        await entries.write(SourceItem(key=name, title=name, text=f"The {name} closes at ten.", url=None))
    return source_id


async def listed(author: Author, source_type: str) -> tuple[set[str], dict[str, int]]:
    page = await author.ok("GET", "", params={"source_type": source_type})
    return {entry["title"] for entry in page["entries"]}, page["totals"]["by_source_type"]


async def found(author: Author, http: httpx.AsyncClient, source_type: str) -> set[str]:
    response = await http.get(
        f"/v0/orgs/{author.organization_id}/knowledge/search",
        params={"q": "When does it close?", "types": source_type},
        headers={"Authorization": f"Bearer {author.key}"},
    )
    hits: list[dict[str, Any]] = response.raise_for_status().json()["hits"]
    return {hit["entry_title"] for hit in hits}


async def test_lists_totals_and_searches_agree_on_the_kind_before_and_after(
    author: Author, search_http: httpx.AsyncClient, settings: KnowledgeSettings
) -> None:
    both = {"tunnel", "bridge"}
    writer = EntryWriter(author.database, settings)
    source_id = await new_source(author, writer)
    await author.build_knowledge_base()
    await author.index()
    assert await found(author, search_http, KIND) == both
    spus = await spu_ledger.sum_spus(author.database, author.organization_id)

    await answer(author, "DELETE", f"/knowledge-sources/{source_id}")
    # They belong to no source, and are what the index says that they are.
    page = await author.ok("GET", "")
    assert {(entry["source_id"], entry["source_type"]) for entry in page["entries"]} == {(None, KIND)}
    assert await listed(author, KIND) == (both, {KIND: 2})

    remover = SourceKindRemover(author.database, writer)
    assert await remover.remove_batch() == 2
    assert await remover.remove_batch() == 0
    await author.index()
    assert await listed(author, KIND) == (set(), {})
    assert await listed(author, "reference") == (both, {"reference": 2})
    assert await found(author, search_http, KIND) == set()
    assert await found(author, search_http, "reference") == both
    assert await spu_ledger.sum_spus(author.database, author.organization_id) == spus
