"""What the analyzers make of texts, seen through what is found."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_shared.mongo.text_analyzers import folding
from tests.conformance.atlas_search.deployment import (
    Collection,
    Document,
    create_ready_texts,
    eventually,
    mappings,
    own_collection,
    search_ids,
)

ANALYZERS = ("standard", "english", "simple", "whitespace", "keyword", "german", "french", "spanish")
TEXTS = {
    "mixed": "Don't STOP e-mailing me: 3.14 files, foo_bar and v2.0!",
    "english": "The generalization's oscillators were running through archaeological laboratories",
    "japanese": "東京タワーは高いです",
    "korean": "서울 타워",
    "accents": "Café naïve Ünïcode",
    "german": "Die Häuser stehen aufeinander",
    "french": "Les continuations nationales",
    "spanish": "Los niños corriendo",
    "stopped": "of the and",
}


@pytest.fixture(scope="module")
async def analyzed(atlas: AsyncMongoClient[Document]) -> AsyncIterator[Collection]:
    async with own_collection(atlas) as collection:
        multi = {name: {"type": "string", "analyzer": f"lucene.{name}"} for name in ANALYZERS}
        searched = {"type": "string", "analyzer": "lucene.english", "searchAnalyzer": "lucene.keyword"}
        await collection.insert_many([{"_id": name, "text": text, "searched": text} for name, text in TEXTS.items()])
        await create_ready_texts(
            collection, mappings({"text": {"type": "string", "multi": multi}, "searched": searched})
        )

        async def complete() -> bool:
            return len(await search_ids(collection, {"exists": {"path": "text"}})) == len(TEXTS)

        await eventually(complete)
        yield collection


FOUND: list[tuple[str, str, set[str]]] = [
    ("standard", "don't", {"mixed"}),
    ("standard", "don", set()),
    ("standard", "stop", {"mixed"}),
    ("standard", "mailing", {"mixed"}),
    ("standard", "e-mailing", {"mixed"}),
    ("standard", "3.14", {"mixed"}),
    ("standard", "14", set()),
    ("standard", "foo_bar", {"mixed"}),
    ("standard", "foo", set()),
    ("standard", "v2.0", {"mixed"}),
    ("standard", "the", {"english", "stopped"}),
    ("standard", "generalization", set()),
    ("standard", "generalization's", {"english"}),
    ("standard", "東", {"japanese"}),
    ("standard", "タワー", {"japanese"}),
    ("standard", "高い", {"japanese"}),
    ("standard", "타워", {"korean"}),
    ("standard", "café", {"accents"}),
    ("standard", "CAFÉ", {"accents"}),
    ("standard", "cafe", set()),
    ("english", "generalize", {"english"}),
    ("english", "oscillate", {"english"}),
    ("english", "runs", {"english"}),
    ("english", "archaeology", {"english"}),
    ("english", "laboratory", {"english"}),
    ("english", "the", set()),
    ("english", "of and", set()),
    ("english", "stopped", {"mixed"}),
    ("english", "京", {"japanese"}),
    ("simple", "don", {"mixed"}),
    ("simple", "foo", {"mixed"}),
    ("simple", "v", {"mixed"}),
    ("simple", "14", set()),
    ("whitespace", "me:", {"mixed"}),
    ("whitespace", "STOP", {"mixed"}),
    ("whitespace", "stop", set()),
    ("keyword", "of the and", {"stopped"}),
    ("keyword", "of", set()),
    ("german", "haus", {"german"}),
    ("french", "continuation national", {"french"}),
    ("spanish", "corriendo", {"spanish"}),
]


@pytest.mark.parametrize(("analyzer", "query", "expected"), FOUND)
async def test_an_analyzed_text_is_found(analyzed: Collection, analyzer: str, query: str, expected: set[str]) -> None:
    path: Any = {"value": "text", "multi": analyzer}
    assert set(await search_ids(analyzed, {"text": {"query": query, "path": path}})) == expected


async def test_a_phrase_of_ideographs_is_found_within_a_run_of_them(analyzed: Collection) -> None:
    found = await search_ids(analyzed, {"phrase": {"query": "東京", "path": "text"}})
    assert found == ["japanese"]
    assert await search_ids(analyzed, {"phrase": {"query": "京東", "path": "text"}}) == []


async def test_a_query_is_analyzed_by_the_search_analyzer(analyzed: Collection) -> None:
    # What was indexed is a stem, and what is asked for is taken as it is.
    assert await search_ids(analyzed, {"text": {"query": "runs", "path": "searched"}}) == []
    assert await search_ids(analyzed, {"text": {"query": "run", "path": "searched"}}) == ["english"]


TYPESET = {
    "ligature": "\ufb01lters of co\ufb00ee",
    "plain": "filters of coffee",
    "hyphenated": "fil\u00adters",
    "wide": "\uff26ilters",
    "elided": "l\u2019avion",
    "dutch": "zij is gelopen",
    "german": "zwei Lehrerinnen",
    "swedish": "husets tak",
}


@pytest.fixture(scope="module")
async def folded(atlas: AsyncMongoClient[Document]) -> AsyncIterator[Collection]:
    """Texts analyzed as new knowledge bases have them analyzed, by the path `text` with one name a language."""
    async with own_collection(atlas) as collection:
        languages = ("standard", "english", "french", "dutch", "german", "swedish")
        analyzers = [folding(f"lucene.{language}") for language in languages]
        names = {language: one["name"] for language, one in zip(languages, analyzers, strict=True)}
        multi = {language: {"type": "string", "analyzer": name} for language, name in names.items()}
        definition = mappings({"text": {"type": "string", "multi": multi}}, analyzers=analyzers)
        await collection.insert_many([{"_id": name, "text": text} for name, text in TYPESET.items()])
        await create_ready_texts(collection, definition)

        async def complete() -> bool:
            return len(await search_ids(collection, {"exists": {"path": "text"}})) == len(TYPESET)

        await eventually(complete)
        yield collection


FOLDED: list[tuple[str | None, str, set[str]]] = [
    (None, "filters", {"plain"}),
    ("standard", "filters", {"ligature", "plain", "hyphenated", "wide"}),
    ("standard", "\ufb01lters", {"ligature", "plain", "hyphenated", "wide"}),
    ("standard", "FIL\u00adTERS", {"ligature", "plain", "hyphenated", "wide"}),
    ("standard", "filter", set()),
    ("standard", "of", {"ligature", "plain"}),
    ("english", "\ufb01ltering", {"ligature", "plain", "hyphenated", "wide"}),
    ("english", "co\ufb00ee's", {"ligature", "plain"}),
    ("english", "of", set()),
    ("french", "avion", {"elided"}),
    ("french", "l'avion", {"elided"}),
    # Lucene's rules leave `ge`, `inn` and the genitive of a definite noun where they are; newer ones of Snowball don't.
    ("dutch", "gelopen", {"dutch"}),
    ("dutch", "lopen", set()),
    ("german", "lehrerinnen", {"german"}),
    ("german", "lehrer", set()),
    ("swedish", "husets", {"swedish"}),
    ("swedish", "hus", set()),
]


@pytest.mark.parametrize(("analyzer", "query", "expected"), FOLDED)
async def test_a_text_is_found_however_it_is_typeset(
    folded: Collection, analyzer: str | None, query: str, expected: set[str]
) -> None:
    path: Any = "text" if analyzer is None else {"value": "text", "multi": analyzer}
    assert set(await search_ids(folded, {"text": {"query": query, "path": path}})) == expected
