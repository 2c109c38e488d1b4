"""Text indexes of the node: late on purpose, there again after a restart, and clear about what they can't do."""

import itertools
from typing import Any

import pytest

from kb_local.mongod import Mongod
from kb_local.search_node.refresh import Delays
from kb_local.search_node.server import serve
from tests.conformance.atlas_search.deployment import (
    Collection,
    Document,
    connect,
    create_ready_texts,
    entry,
    eventually,
    mappings,
    own_collection,
    refused,
    run,
    search_ids,
    search_stage,
    text_model,
    wait_ready,
)
from tests.conformance.atlas_search.node.pace import no_build_begins, no_build_ends
from tests.waiting import until

NOT_IMPLEMENTED = 238
LOOPBACK = "127.0.0.1"
WORD = {"text": {"query": "word", "path": "s"}}
DEFINITION = mappings({"s": {"type": "string"}})
BATCH = 40


async def test_a_reader_of_a_text_index_sees_half_of_a_committed_transaction(mongod: Mongod) -> None:
    delays = Delays(lag_s=0.1, refresh_s=0.05, seed=1)
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port), delays=delays) as node,
        connect(node.uri) as client,
        own_collection(client) as things,
    ):
        await create_ready_texts(things, DEFINITION)
        batches = itertools.count()

        async def sees_partial_transaction() -> bool:
            """Look at one more transaction until all of it can be seen: a slow reader may miss its half."""
            batch, seen = next(batches), set[int]()
            async with client.start_session() as session, await session.start_transaction():
                documents = [{"_id": f"{batch}:{number}", "s": "word"} for number in range(BATCH)]
                await things.insert_many(documents, session=session)

            async def all_visible() -> bool:
                seen.add(len(await search_ids(things, WORD)))
                return BATCH * (batch + 1) in seen

            await eventually(all_visible)
            return any(count % BATCH for count in seen)

        await until(sees_partial_transaction)


async def test_a_text_index_answers_only_when_it_is_built_and_by_the_old_definition_while_updated(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node,
        connect(node.uri) as client,
        own_collection(client) as things,
    ):
        await things.insert_one({"_id": 1, "s": "words"})
        async with no_build_begins(node):
            await things.create_search_index(text_model(DEFINITION))
            assert await search_ids(things, WORD) == []
        await wait_ready(things, "texts")
        async with no_build_ends(node, monkeypatch):
            english = mappings({"s": {"type": "string", "analyzer": "lucene.english"}})
            await things.update_search_index("texts", english)
            found = await entry(things, "texts")
            assert found is not None
            assert (found["type"], found["status"], found["queryable"]) == ("search", "BUILDING", True)
            assert await search_ids(things, WORD) == []
        await wait_ready(things, "texts")
        assert await search_ids(things, WORD) == [1]


async def test_after_a_restart_of_the_node_the_first_text_query_waits_for_the_index(mongod: Mongod) -> None:
    async with connect(mongod.uri) as direct, own_collection(direct) as collection:
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node, connect(node.uri) as client:
            things = client[collection.database.name][collection.name]
            await things.insert_many([{"_id": number, "s": "word"} for number in range(1000)])
            await create_ready_texts(things, DEFINITION)
        await collection.delete_many({"_id": {"$lt": 500}})
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node, connect(node.uri) as client:
            things = client[collection.database.name][collection.name]
            assert set(await search_ids(things, WORD)) == set(range(500, 1000))


async def test_hits_that_are_gone_do_not_shorten_a_limited_answer(mongod: Mongod) -> None:
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port), delays=Delays(lag_s=3600)) as node,
        connect(node.uri) as client,
        own_collection(client) as things,
    ):
        await things.insert_many([{"_id": number, "s": "word"} for number in range(50)])
        await create_ready_texts(things, DEFINITION)
        await things.delete_many({"_id": {"$lt": 15}})
        hits = await run(things, search_stage(WORD), {"$limit": 5})
        assert len({hit["_id"] for hit in hits} & {*range(15, 50)}) == 5


def own_analyzer(**parts: Any) -> Document:
    analyzer = {"name": "own", "tokenizer": {"type": "standard"}} | parts
    return mappings(dynamic=True, analyzers=[analyzer])


DEFINITIONS: dict[str, Document] = {
    "another character filter": own_analyzer(charFilters=[{"type": "htmlStrip"}]),
    "another tokenizer": own_analyzer(tokenizer={"type": "nGram", "minGram": 1, "maxGram": 2}),
    "a shorter longest word": own_analyzer(tokenizer={"type": "standard", "maxTokenLength": 10}),
    "another token filter": own_analyzer(tokenFilters=[{"type": "icuFolding"}]),
    "another stemmer": own_analyzer(tokenFilters=[{"type": "snowballStemming", "stemmerName": "irish"}]),
    "references to groups": own_analyzer(
        tokenFilters=[{"type": "regex", "pattern": "(a)", "replacement": "$1", "matches": "all"}]
    ),
    "synonyms": mappings(dynamic=True, synonyms=[{"name": "own"}]),
    "stored source": mappings(dynamic=True, storedSource=True),
    "type sets": {"mappings": {"dynamic": {"typeSet": "own"}}},
    "another similarity": mappings({"s": {"type": "string", "similarity": {"type": "boolean"}}}),
    "strings without positions": mappings({"s": {"type": "string", "indexOptions": "docs"}}),
    "an analyzer for Japanese": mappings(dynamic=True, analyzer="lucene.kuromoji"),
    **{
        f"fields of type {name}": mappings({"s": {"type": name}})
        for name in ("autocomplete", "embeddedDocuments", "geo", "knnVector", "stringFacet")
    },
}


@pytest.mark.parametrize("what", DEFINITIONS)
async def test_an_index_is_refused_that_the_node_can_not_build_with(texts: Collection, what: str) -> None:
    with refused(NOT_IMPLEMENTED, "is not implemented by this local search node"):
        await texts.create_search_index(text_model(DEFINITIONS[what], "refused"))


QUERIES: dict[str, Document] = {
    **{
        name: {name: {"path": "text", "query": "a"}}
        for name in ("autocomplete", "moreLikeThis", "queryString", "regex", "wildcard", "near", "vectorSearch")
    },
    "facets": {"facet": {"operator": {"exists": {"path": "text"}}, "facets": {}}},
    "highlights": {**WORD, "highlight": {"path": "s"}},
    "stored source": {**WORD, "returnStoredSource": True},
    "details of scores": {**WORD, "scoreDetails": True},
    "a page after a token": {**WORD, "searchAfter": "token"},
    "synonyms": {"text": {"query": "a", "path": "s", "synonyms": "own"}},
    "a score by a function": {"text": {"query": "a", "path": "s", "score": {"function": {"constant": 1}}}},
    "a boost by a path": {"text": {"query": "a", "path": "s", "score": {"boost": {"path": "n"}}}},
    "dismax": {"compound": {"should": [WORD], "score": {"dismax": {"tieBreakerScore": 1}}}},
}


@pytest.mark.parametrize("what", QUERIES)
async def test_a_search_is_refused_that_the_node_can_not_do(texts: Collection, what: str) -> None:
    with refused(NOT_IMPLEMENTED, "is not implemented by this local search node"):
        await search_ids(texts, QUERIES[what])


async def test_options_that_only_matter_to_atlas_are_accepted(texts: Collection) -> None:
    ignored: dict[str, Any] = {"concurrent": True, "returnStoredSource": False, "scoreDetails": False}
    assert await search_ids(texts, {"text": {"query": "lazy", "path": "text"}}, **ignored) == [0]
