"""Passages are found however they and the query are typeset."""

import pytest

from kb_shared.mongo.database import Database
from kb_shared.text.text_normalization import AS_WRITTEN
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.integration.search.test_modes import contents
from tests.integration.search.test_several import search

TYPESET = "the co\ufb00ee \ufb01l\u00adter     hums"
PLAIN = "the coffee filter  hums"
OTHER = "nothing of the kind"


@pytest.mark.parametrize("query", ["coffee filter", "co\ufb00ee \ufb01lter", "cof\u00adfee \uff46ilter"])
@pytest.mark.parametrize(("written", "analyzer"), [(TYPESET, "lucene.standard"), (PLAIN, "lucene.english")])
async def test_words_are_found_however_they_are_typeset(
    searcher: SearchingCaller, search_database: Database, query: str, written: str, analyzer: str
) -> None:
    knowledge = await create(search_database, ORGANIZATION, text_analyzer=analyzer)
    await knowledge.index(DocumentToIndex("d", [OTHER, written]))
    assert contents(await searcher.search(knowledge, query, mode="text")) == [written]


async def test_a_query_is_embedded_as_the_texts_of_the_knowledge_base_are(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d", [OTHER, TYPESET]))
    for number, query in enumerate((PLAIN, TYPESET)):
        answer = await searcher.search(knowledge, query, mode="vector", top_k=1)
        assert contents(answer) == [TYPESET]
        assert answer["results"][0]["relevance"] == pytest.approx(1)
        assert answer["spu_charged"] == int(number == 0)


async def test_a_knowledge_base_without_normalization_is_searched_as_before(
    searcher: SearchingCaller, search_database: Database, knowledge: Knowledge
) -> None:
    older = await create(search_database, ORGANIZATION, text_normalization=AS_WRITTEN)
    await older.index(DocumentToIndex("d", [OTHER, TYPESET], normalization=AS_WRITTEN))
    await knowledge.index(DocumentToIndex("e", [OTHER, TYPESET]))
    assert (await searcher.search(older, "coffee", mode="text"))["results"] == []
    answer = await searcher.search(older, TYPESET, mode="vector", top_k=1)
    assert answer["results"][0]["relevance"] == pytest.approx(1)
    # Together each is asked in its own way.
    both = await search(searcher, older, knowledge, query=TYPESET, mode="vector", top_k=2)
    best = both["results"][0]
    assert best["relevance"] == pytest.approx(1)
    assert len({best["kb_id"], *(copy["kb_id"] for copy in best["also_in"])}) == 2, "one text, found in both"
    assert both["spu_charged"] == 1
