"""The indexes of a knowledge base, as the services define them, do on this deployment what they are made for."""

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from pymongo.operations import SearchIndexModel

from kb_shared.mongo import chunk_indexes
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, IndexState
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text import text_normalization
from kb_shared.text.metadata_pairs import metadata_pairs
from tests.conformance.atlas_search.deployment import SEARCH_FAILED, Collection, eventually, refused, run
from tests.knowledge_bases import build_knowledge_base

READ = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
METADATA: list[dict[str, Any]] = [{"key": "text"}, {"key": 7}, {"key": 7.5}, {"key": True}, {"key": READ}, {}]


def knowledge_base(
    *filterable: str, analyzer: str = "lucene.english", normalization: int = text_normalization.CURRENT
) -> KnowledgeBase:
    return build_knowledge_base(
        embedding_dimensions=4,
        vector_collection="things",
        text_analyzer=analyzer,
        text_normalization=normalization,
        filterable_metadata=filterable,
    )


async def ready(collection: Collection, kb: KnowledgeBase) -> None:
    await chunk_indexes.ensure(collection, kb)

    async def is_ready() -> bool:
        return await chunk_indexes.read_state(collection, kb) is IndexState.READY

    await eventually(is_ready)


async def found(collection: Collection, *filters: dict[str, Any], query: str = "paddle") -> list[Any]:
    text = {"text": {"path": list(chunk_indexes.TEXT_PATHS), "query": query}}
    search = {"$search": {"index": TEXT_INDEX, "compound": {"must": [text], "filter": list(filters)}}}
    return sorted(row["_id"] for row in await run(collection, search, {"$project": {"_id": 1}}))


async def fill(collection: Collection) -> None:
    rows = [
        {
            "_id": number,
            "organization_id": "o",
            "kb_id": "k",
            "document_id": f"d{number}",
            "document_name": f"{number}.pdf",
            "tag_ids": ["even", "all"] if number % 2 == 0 else ["all"],
            "upload_date": READ + dt.timedelta(days=number),
            "chunk_text": "he was paddling",
            "heading_path": ["Boats", f"Part{number}"],
            "metadata_snapshot": metadata,
            "metadata_pairs": list(metadata_pairs(metadata)),
            "embedding": [1.0, 0.0, 0.0, float(number)],
        }
        for number, metadata in enumerate(METADATA)
    ]
    await collection.insert_many(rows)

    async def complete() -> bool:
        return len(await found(collection)) == len(rows)

    await eventually(complete)


async def test_words_are_found_in_texts_and_headings_and_every_filter_filters(things: Collection) -> None:
    await ready(things, knowledge_base("key"))
    await fill(things)
    assert await found(things, query="part3") == [3]
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"equals": {"path": "document_name", "value": "3.pdf"}}, [3]),
        ({"in": {"path": "tag_ids", "value": ["even", "no"]}}, [0, 2, 4]),
        ({"range": {"path": "document_name", "gte": "4"}}, [4, 5]),
        ({"range": {"path": "upload_date", "gte": READ, "lt": READ + dt.timedelta(days=2)}}, [0, 1]),
        ({"in": {"path": "metadata_pairs", "value": ["key=b:true"]}}, [3]),
        ({"range": {"path": "metadata_snapshot.key", "gt": 7}}, [2]),
        ({"range": {"path": "metadata_snapshot.key", "gte": "t"}}, [0]),
        ({"range": {"path": "metadata_snapshot.key", "lte": READ}}, [4]),
    ]
    for operator, expected in cases:
        assert await found(things, operator) == expected, operator
    with refused(SEARCH_FAILED, "needs to be indexed as token"):
        await found(things, {"equals": {"path": "chunk_text", "value": "he was paddling"}})


async def test_an_all_negative_query_also_finds_documents_without_a_value(things: Collection) -> None:
    await ready(things, knowledge_base())
    await fill(things)
    without = {"in": {"path": "metadata_pairs", "value": ["key=s:text", "key=n:7"]}}
    negative = {"compound": {"filter": [{"exists": {"path": "kb_id"}}], "mustNot": [without]}}
    assert await found(things, negative) == [2, 3, 4, 5]


@pytest.mark.parametrize("normalization", [1, 2, 3])
async def test_ensuring_twice_changes_nothing(things: Collection, normalization: int) -> None:
    kb = knowledge_base("key", normalization=normalization)
    await ready(things, kb)
    before = [dict(one) async for one in await things.list_search_indexes()]
    await chunk_indexes.ensure(things, kb)
    after = [dict(one) async for one in await things.list_search_indexes()]
    assert [one["latestDefinitionVersion"] for one in after] == [one["latestDefinitionVersion"] for one in before]


@pytest.mark.parametrize(("before", "after"), [((), ("key",)), (("key", "other"), ("key",)), (("key",), ())])
async def test_indexes_are_brought_up_to_date_for_other_keys(
    things: Collection, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    kb = knowledge_base(*before)
    await ready(things, kb)
    await fill(things)
    changed = replace(kb, filterable_metadata=after)
    assert await chunk_indexes.read_state(things, changed) is IndexState.MISSING
    await ready(things, changed)
    expected = [2] if after else []
    assert await found(things, {"range": {"path": "metadata_snapshot.key", "gt": 7}}) == expected


@pytest.mark.parametrize(
    "before",
    [
        knowledge_base("key", normalization=1),
        knowledge_base("key", analyzer="lucene.standard"),
        replace(knowledge_base("key"), embedding_dimensions=8),
    ],
    ids=["another normalization", "another analyzer", "other dimensions"],
)
async def test_an_index_that_is_defined_otherwise_is_brought_up_to_date(
    things: Collection, before: KnowledgeBase
) -> None:
    await ready(things, before)
    kb = knowledge_base("key")
    assert await chunk_indexes.read_state(things, kb) is IndexState.MISSING
    await ready(things, kb)
    await fill(things)
    assert await found(things, query="pad\u00addles") == [0, 1, 2, 3, 4, 5]


async def test_a_knowledge_base_without_normalization_keeps_the_analyzer_it_was_made_with(things: Collection) -> None:
    kb = knowledge_base("key", normalization=1)
    fields = chunk_indexes.build_text_index("lucene.english", ["key"]).document["definition"]["mappings"]["fields"]
    definition = {"analyzer": "lucene.english", "mappings": {"dynamic": False, "fields": fields}}
    await things.create_search_indexes(
        [
            SearchIndexModel(definition, TEXT_INDEX, type="search"),
            chunk_indexes.build_vector_index(kb.embedding_dimensions, ["key"]),
        ]
    )
    await ready(things, kb)
    versions = [one["latestDefinitionVersion"]["version"] async for one in await things.list_search_indexes()]
    assert versions == [0, 0]
    await fill(things)
    assert await found(things, query="pad\u00addles") == []
