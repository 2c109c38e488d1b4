"""Search index commands for indexes of type search."""

from typing import Any

import pytest
from pymongo.operations import SearchIndexModel

from tests.conformance.atlas_search.deployment import (
    BAD_DEFINITION,
    Collection,
    Document,
    create_ready_texts,
    entry,
    eventually,
    mappings,
    model,
    refused,
    run,
    search_ids,
    text_model,
    vector_field,
    wait_ready,
)

NAME = "texts"
WORD = {"text": {"query": "word", "path": "s"}}


STANDARD = {"type": "standard"}


def string(**more: Any) -> Document:
    return {"s": {"type": "string", **more}}


def custom(name: str = "mine", **parts: Any) -> Document:
    """An index whose texts go through an analyzer of its own."""
    analyzer = {"name": name, "tokenizer": STANDARD, **parts}
    return mappings(string(), analyzer=name, analyzers=[analyzer])


async def test_a_new_text_index_becomes_ready_and_queryable(things: Collection) -> None:
    definition = mappings(string())
    await create_ready_texts(things, definition)
    found = await entry(things, NAME)
    assert found is not None
    assert (found["name"], found["status"], found["queryable"]) == (NAME, "READY", True)
    assert found["latestDefinition"]["mappings"]["fields"] == definition["mappings"]["fields"]


async def test_an_index_is_of_type_search_by_default(things: Collection) -> None:
    await things.insert_one({"_id": 1, "s": "word"})
    definition = {"mappings": {"dynamic": True}}
    await things.database.command(
        {"createSearchIndexes": things.name, "indexes": [{"name": NAME, "definition": definition}]}
    )
    await wait_ready(things, NAME)
    assert await search_ids(things, WORD) == [1]


async def test_the_same_name_with_another_type_is_refused(things: Collection) -> None:
    await create_ready_texts(things, mappings(dynamic=True))
    with refused(68, "already exists with a different definition. Drop it first if needed."):
        await things.create_search_index(model(vector_field(), name=NAME))


async def test_creating_a_text_index_twice_changes_nothing_unless_it_differs(things: Collection) -> None:
    await create_ready_texts(things, mappings(string()))
    before = await entry(things, NAME)
    await things.create_search_index(text_model(mappings(string())))
    assert before == await entry(things, NAME)
    with refused(68, "already exists with a different definition. Drop it first if needed."):
        await things.create_search_index(text_model(mappings(string(analyzer="lucene.english"))))


ACCEPTED: dict[str, Document] = {
    "a dynamic mapping": mappings(dynamic=True),
    "several types for a field": mappings({"s": [{"type": "string"}, {"type": "token", "normalizer": "lowercase"}]}),
    "analyzers of the index": mappings(string(), analyzer="lucene.simple", searchAnalyzer="lucene.whitespace"),
    "several analyzers for a string": mappings(string(multi={"en": {"type": "string", "analyzer": "lucene.english"}})),
    "documents in documents": mappings(
        {"a": {"type": "document", "fields": {"b": {"type": "document", "dynamic": True}}}}
    ),
    "options of strings": mappings(string(indexOptions="positions", store=False, norms="omit", ignoreAbove=100)),
    "an analyzer of its own": custom(charFilters=[{"type": "icuNormalize"}], tokenFilters=[{"type": "lowercase"}]),
    "an analyzer of its own for one field": mappings(
        string(analyzer="mine"), analyzers=[{"name": "mine", "tokenizer": {"type": "keyword"}}]
    ),
    "every part of an analyzer": custom(
        charFilters=[{"type": "icuNormalize"}],
        tokenFilters=[
            {"type": "englishPossessive"},
            {"type": "lowercase"},
            {"type": "stopword", "tokens": ["of", "the"]},
            {"type": "regex", "pattern": "^l'", "replacement": "", "matches": "first"},
            {"type": "snowballStemming", "stemmerName": "french"},
            {"type": "porterStemming"},
        ],
    ),
    "options of numbers": mappings({"n": {"type": "number", "representation": "int64", "indexDoubles": False}}),
}


@pytest.mark.parametrize("what", ACCEPTED)
async def test_a_text_index_may_have(things: Collection, what: str) -> None:
    await create_ready_texts(things, ACCEPTED[what])


REFUSED: dict[str, tuple[Document, str]] = {
    "no mappings": ({}, '.mappings" is required'),
    "mappings that are no document": ({"mappings": True}, '.mappings" must be a document'),
    "a dynamic that is neither": ({"mappings": {"dynamic": "yes"}}, '.mappings.dynamic" must be a boolean or document'),
    "a field without a type": (mappings({"s": {}}), '.mappings.fields.s.type" is required'),
    "a field that is null": (mappings({"s": None}), '.mappings.fields.s" cannot be null'),
    "an unknown type": (mappings({"s": {"type": "text"}}), '.mappings.fields.s.type" must be one of'),
    "an unknown option": (mappings(string(surprise=1)), 'unrecognized field "surprise"'),
    "a type twice": (mappings({"s": [{"type": "token"}, {"type": "token"}]}), 'contained multiple "[token]"'),
    "an analyzer that is not there": (mappings(string(analyzer="lucene.klingon")), "lucene.klingon"),
    "an analyzer that has a name of Atlas's": (custom("lucene.mine"), "lucene."),
    "two analyzers of one name": (
        mappings(string(), analyzers=[{"name": "mine", "tokenizer": STANDARD}] * 2),
        "mine",
    ),
    "an analyzer without a tokenizer": (mappings(string(), analyzers=[{"name": "mine"}]), '.tokenizer" is required'),
    "a part of an analyzer with an unknown option": (
        custom(charFilters=[{"type": "icuNormalize", "form": "nfc"}]),
        'unrecognized field "form"',
    ),
    "an empty analyzer": (mappings(string(), analyzer=""), "analyzer"),
    "another normalizer": (
        mappings({"s": {"type": "token", "normalizer": "upper"}}),
        "must be one of [lowercase, none]",
    ),
    "an ignoreAbove of nothing": (mappings(string(ignoreAbove=0)), '.ignoreAbove" must be positive'),
    "numbers of no kind": (
        mappings({"n": {"type": "number", "indexDoubles": False, "indexIntegers": False}}),
        "indexDoubles and indexIntegers may not both be false",
    ),
    "multi of multi": (
        mappings(string(multi={"a": {"type": "string", "multi": {"b": {"type": "string"}}}})),
        "multi definition cannot contain nested multi definition",
    ),
    "multi of a token": (mappings(string(multi={"a": {"type": "token"}})), "multi definition must be string field"),
    "a multi with a dot": (mappings(string(multi={"a.b": {"type": "string"}})), 'multi path cannot contain "."'),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_text_index_is_refused_that_has(things: Collection, what: str) -> None:
    definition, complaint = REFUSED[what]
    with refused(BAD_DEFINITION, complaint):
        await things.create_search_index(text_model(definition, "bad"))
    assert await entry(things, "bad") is None


async def test_an_unknown_type_of_index_is_refused(things: Collection) -> None:
    with refused(BAD_DEFINITION, "must be one of [search, vectorSearch]"):
        await things.create_search_index(SearchIndexModel(mappings(dynamic=True), "bad", type="fullText"))


async def test_an_updated_text_index_searches_by_its_new_definition_once_it_is_ready(things: Collection) -> None:
    await things.insert_one({"_id": 1, "s": "words"})
    await create_ready_texts(things, mappings(string()))
    assert await search_ids(things, WORD) == []
    await things.update_search_index(NAME, mappings(string(analyzer="lucene.english")))

    async def updated() -> bool:
        found = await entry(things, NAME)
        assert found is not None
        assert found["queryable"]
        return (found["status"], found["latestDefinitionVersion"]["version"]) == ("READY", 1)

    await eventually(updated)
    assert await search_ids(things, WORD) == [1]


async def test_a_text_index_is_not_updated_to_a_definition_of_vectors(things: Collection) -> None:
    await create_ready_texts(things, mappings(string()))
    with refused(BAD_DEFINITION):
        await things.update_search_index(NAME, {"fields": [vector_field()]})


@pytest.mark.parametrize("how", ["drop index", "drop collection", "rename"])
async def test_a_text_index_that_is_gone_finds_nothing(things: Collection, how: str) -> None:
    await things.insert_one({"_id": 1, "s": "word"})
    await create_ready_texts(things, mappings(string()))
    if how == "drop index":
        await things.drop_search_index(NAME)
    elif how == "drop collection":
        await things.drop()
    else:
        await things.rename("renamed")

    async def gone() -> bool:
        # It may answer for a second after it is gone from the list.
        return await entry(things, NAME) is None and await search_ids(things, WORD) == []

    await eventually(gone)


async def test_a_collection_has_indexes_of_both_types(things: Collection) -> None:
    await things.insert_one({"_id": 1, "s": "word", "embedding": [1.0, 0.0, 0.0, 0.0]})
    await things.create_search_indexes([model(vector_field()), text_model(mappings(string()))])
    await wait_ready(things, "vectors")
    await wait_ready(things, NAME)
    rows = await run(things, {"$listSearchIndexes": {}}, {"$project": {"_id": 0, "name": 1}})
    assert sorted(row["name"] for row in rows) == [NAME, "vectors"]
    assert await search_ids(things, WORD) == [1]
