"""An entry whose embedding text says something else than its content: found by both, shown as its content."""

from typing import Any, Final

import httpx
import pytest

from kb_api.request_document import reindex_document
from kb_shared.http.authentication import Caller
from kb_shared.mongo import spu_ledger
from tests.integration.knowledge.author import Author
from tests.waiting import until

CONTENT: Final = "A night in London may cost at most 220 euros."
QUESTION: Final = "How expensive is the hotel room?"


async def search(author: Author, http: httpx.AsyncClient, query: str, *, mode: str) -> list[dict[str, Any]]:
    kb = await author.knowledge_base()
    answer = await http.post(
        f"/v0/orgs/{author.organization_id}/knowledge-bases/{kb.kb_id}/search",
        json={"query": query, "mode": mode, "top_k": 2},
        headers={"Authorization": f"Bearer {author.key}"},
    )
    assert answer.status_code == 200, answer.text
    hits: list[dict[str, Any]] = answer.json()["results"]
    return hits


async def change(author: Author, **fields: Any) -> int:
    """Change the entry, have it indexed, and return what that cost."""
    before = await spu_ledger.sum_spus(author.database, author.organization_id)
    await author.ok("PATCH", "/hotels", json=fields)
    await author.index()
    assert await author.status("hotels") == "ready"
    return await spu_ledger.sum_spus(author.database, author.organization_id) - before


async def test_an_entry_is_found_by_its_embedding_text_and_by_words_of_both_and_shows_its_content(
    author: Author, search_http: httpx.AsyncClient
) -> None:
    for n in range(3):
        await author.write(f"Something else, number {n}.")
    written = await author.write(CONTENT, entry_id="hotels", embedding_text=QUESTION)
    assert (written["content"], written["embedding_text"]) == (CONTENT, QUESTION)
    await author.build_knowledge_base()
    await author.index()

    async def is_found(query: str, mode: str) -> bool:
        hits = await search(author, search_http, query, mode=mode)
        return bool(hits) and hits[0]["document_id"] == "entry-hotels"

    async def is_searchable() -> bool:
        return await is_found("220 euros", "text") and await is_found(QUESTION, "vector")

    await until(is_searchable, what="the entry in both indexes")
    [by_meaning, *_] = await search(author, search_http, QUESTION, mode="vector")
    assert by_meaning["relevance"] == pytest.approx(1, abs=1e-5)
    [by_words] = await search(author, search_http, "expensive", mode="text")
    for hit in (by_meaning, by_words):
        assert (hit["content"], hit["start"], hit["end"]) == (CONTENT, 0, len(CONTENT))
        assert "expensive" not in str(hit)
    [chunk] = (await author.ok("GET", "/hotels/chunks"))["chunks"]
    assert chunk["text"] == CONTENT


async def test_what_is_embedded_is_paid_for_once_and_what_is_shown_costs_nothing(author: Author) -> None:
    await author.write(CONTENT, entry_id="hotels", embedding_text=QUESTION)
    await author.build_knowledge_base()
    await author.index()
    assert await change(author, embedding_text="What may a bed for the night cost?") == 1
    assert await change(author, content=f"{CONTENT} With breakfast.") == 0
    assert [each["text"] for each in (await author.ok("GET", "/hotels/chunks"))["chunks"]] == [
        f"{CONTENT} With breakfast."
    ]
    assert await change(author, embedding_text=QUESTION) == 0
    assert await change(author, title="Beds") == 0
    kb = await author.knowledge_base()
    caller = Caller(author.organization_id, "test", frozenset())
    await reindex_document(author.database, caller, kb_id=kb.kb_id, document_id="entry-hotels")
    assert await change(author, title="Beds in London") == 0
    assert await change(author, embedding_text=None) == 1


async def test_with_an_embedding_text_both_texts_are_short_and_checked(author: Author) -> None:
    long = "x" * 8_001
    titled = {"title": "t", "content": "c"}
    assert await author.refused("POST", "", json=titled | {"embedding_text": long}) == (422, "validation-error")
    too_long = titled | {"content": long, "embedding_text": "y"}
    assert await author.refused("POST", "", json=too_long) == (422, "validation-error")
    secret = titled | {"embedding_text": "password = hunter2-Xy77-kk"}
    assert await author.refused("POST", "", json=secret) == (422, "sensitive-content")
    await author.write(long, entry_id="long")
    assert await author.refused("PATCH", "/long", json={"embedding_text": "y"}) == (422, "validation-error")
    await author.ok("PATCH", "/long", json={"embedding_text": "y", "content": "short"})
    assert await author.refused("PATCH", "/long", json={"content": long}) == (422, "validation-error")
    await author.ok("PATCH", "/long", json={"content": long, "embedding_text": None})
