"""A search begins with the key and the KBs as they were when they were last read; callers do not notice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from fastapi import FastAPI

from kb_search.retrieval import search_knowledge_base
from kb_shared.errors import TransientError
from kb_shared.http.authentication import Authentication
from kb_shared.http.dependencies import get_provided
from kb_shared.mongo import api_keys, index_queries, knowledge_bases, spu_ledger
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import Status
from kb_shared.observability.metrics import SEARCH_RESTARTS
from tests.integration.indexer.support import CommandLog
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.waiting import until

QUERY = "kayak"
SEVERAL = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"


def stages_of(command_log: CommandLog) -> list[Any]:
    return [stage for command in command_log.commands for stage in command.get("pipeline", [])]


@pytest.fixture
async def library(knowledge: Knowledge) -> Knowledge:
    await knowledge.index(DocumentToIndex("d", ["kayak", "canoe"]))
    return knowledge


async def revoke(database: Database, searcher: SearchingCaller) -> None:
    key_id = api_keys.parse_key_id(searcher.key)
    assert key_id is not None
    assert await api_keys.revoke(database, ORGANIZATION, key_id=key_id)


async def delete(database: Database, library: Knowledge) -> None:
    await database[knowledge_bases.NAME].update_one({"_id": library.kb.kb_id}, {"$set": {"status": Status.DELETING}})


async def ask(searcher: SearchingCaller, library: Knowledge, path: str, **fields: Any) -> httpx.Response:
    several = {"kb_ids": [library.kb.kb_id]} if path == SEVERAL else {}
    return await searcher.post(path, {"query": QUERY, **several, **fields})


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
@pytest.mark.parametrize("query", [QUERY, "never asked before"])
async def test_a_revoked_key_is_refused_by_the_next_search_which_costs_nothing(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, *, mode: str, query: str, several: bool
) -> None:
    path = SEVERAL if several else library.path
    assert (await ask(searcher, library, path, mode=mode)).status_code == 200
    charges = search_database[spu_ledger.NAME]
    before = await charges.count_documents({})
    await revoke(search_database, searcher)
    for _ in range(2):
        answer = await ask(searcher, library, path, mode=mode, query=query)
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (401, "unauthenticated")
    assert await charges.count_documents({}) == before


async def test_a_revoked_key_is_refused_where_nothing_matches_and_where_there_is_no_kb(
    searcher: SearchingCaller, search_database: Database
) -> None:
    assert (await searcher.post(SEVERAL, {"query": QUERY})).json()["results"] == []
    empty = await create(search_database, ORGANIZATION)
    assert (await searcher.search(empty, "xyz", mode="text"))["results"] == []
    await revoke(search_database, searcher)
    assert (await ask(searcher, empty, empty.path, mode="text")).status_code == 401
    await search_database[knowledge_bases.NAME].delete_many({})
    assert (await searcher.post(SEVERAL, {"query": QUERY})).status_code == 401


Meanwhile = Callable[[Callable[[], Awaitable[object]]], None]


@pytest.fixture
def after_the_index_has_answered(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run something once, when the hits are known and not yet read."""
    query_vector_index = index_queries.query_vector_index

    def arm(action: Callable[[], Awaitable[object]]) -> None:
        async def and_then(*args: Any, **kwargs: Any) -> dict[str, float]:
            found = await query_vector_index(*args, **kwargs)
            monkeypatch.setattr(index_queries, "query_vector_index", query_vector_index)
            await action()
            return found

        monkeypatch.setattr(index_queries, "query_vector_index", and_then)

    return arm


FIRST, AGAIN, BOUGHT = "the first of its key", "asked again", "bought"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("search", [FIRST, AGAIN, BOUGHT])
async def test_a_key_revoked_while_its_search_is_under_way_gets_no_answer(
    searcher: SearchingCaller,
    library: Knowledge,
    search_database: Database,
    after_the_index_has_answered: Meanwhile,
    *,
    several: bool,
    search: str,
) -> None:
    path = SEVERAL if several else library.path
    if search != FIRST:
        assert (await ask(searcher, library, path)).status_code == 200
    after_the_index_has_answered(lambda: revoke(search_database, searcher))
    query = "never asked before" if search == BOUGHT else QUERY
    assert (await ask(searcher, library, path, query=query)).status_code == 401


@pytest.mark.parametrize("search", [FIRST, AGAIN, BOUGHT])
async def test_a_kb_that_goes_while_it_is_searched_is_not_answered_from(
    searcher: SearchingCaller,
    library: Knowledge,
    search_database: Database,
    after_the_index_has_answered: Meanwhile,
    search: str,
) -> None:
    if search != FIRST:
        await searcher.search(library, QUERY)
    after_the_index_has_answered(lambda: delete(search_database, library))
    query = "never asked before" if search == BOUGHT else QUERY
    assert (await ask(searcher, library, library.path, query=query)).status_code == 404


async def test_a_search_that_restarts_is_charged_once(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, after_the_index_has_answered: Meanwhile
) -> None:
    rows = search_database[knowledge_bases.NAME]
    after_the_index_has_answered(lambda: rows.update_one({"_id": library.kb.kb_id}, {"$set": {"name": "Renamed"}}))
    restarts = SEARCH_RESTARTS._value.get()
    answer = await searcher.search(library, QUERY)
    assert (answer["spu_charged"], len(answer["results"])) == (1, 2)
    assert await search_database[spu_ledger.NAME].count_documents({}) == 1
    assert SEARCH_RESTARTS._value.get() == restarts + 1


async def test_a_search_of_a_kb_that_changes_all_the_time_is_given_up(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_vector_index, rows, names = index_queries.query_vector_index, search_database[knowledge_bases.NAME], count()

    async def renamed(*args: Any, **kwargs: Any) -> dict[str, float]:
        found = await query_vector_index(*args, **kwargs)
        await rows.update_one({"_id": library.kb.kb_id}, {"$set": {"name": str(next(names))}})
        return found

    monkeypatch.setattr(index_queries, "query_vector_index", renamed)
    assert (await ask(searcher, library, library.path)).status_code == 503
    assert next(names) == 5


async def test_a_kb_that_is_being_deleted_is_not_paid_for(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    await searcher.search(library, QUERY)
    before = await search_database[spu_ledger.NAME].count_documents({})
    await delete(search_database, library)
    assert (await ask(searcher, library, library.path, query="never asked before")).status_code == 404
    assert await search_database[spu_ledger.NAME].count_documents({}) == before


async def test_a_key_is_refused_when_its_time_is_over(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_at = datetime.now(UTC) + timedelta(hours=1)
    await search_database[api_keys.NAME].update_many({}, {"$set": {"expires_at": ends_at}})
    assert (await ask(searcher, library, library.path)).status_code == 200

    monkeypatch.setattr(api_keys, "datetime", Mock(now=Mock(return_value=ends_at)))
    assert (await ask(searcher, library, library.path)).status_code == 401


async def test_a_kb_that_is_being_deleted_is_gone_for_the_next_search(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    other = await create(search_database, ORGANIZATION)
    await other.index(DocumentToIndex("d", ["kayak"]))
    both = {"query": QUERY, "kb_ids": [library.kb.kb_id, other.kb.kb_id]}
    for _ in range(2):
        await searcher.search(library, QUERY)
        assert (await searcher.post(SEVERAL, both)).json()["failures"] == []
    await delete(search_database, library)
    answer = (await searcher.post(SEVERAL, both)).json()
    assert [(one["kb_id"], one["status"]) for one in answer["failures"]] == [(library.kb.kb_id, 404)]
    assert {one["kb_id"] for one in answer["results"]} == {other.kb.kb_id}
    assert (await ask(searcher, library, library.path)).status_code == 404


async def test_a_change_of_a_kb_applies_to_the_next_search(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    assert len((await searcher.search(library, QUERY, mode="vector"))["results"]) == 2
    rows = search_database[knowledge_bases.NAME]
    await rows.update_one({"_id": library.kb.kb_id}, {"$set": {"min_score": 0.99, "status": Status.ERROR}})
    for path in (library.path, SEVERAL):
        answer = (await ask(searcher, library, path, mode="vector")).json()
        assert [one["content"] for one in answer["results"]] == ["kayak"]
    assert (await searcher.search(library, QUERY))["kb_status"] == "error"


async def test_noting_the_time_of_a_search_does_not_restart_another_search(
    watched: SearchingCaller, library: Knowledge, search_database: Database, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY, mode="text")
    organization_id, kb_id = library.kb.organization_id, library.kb.kb_id
    await knowledge_bases.note_search(search_database, KnowledgeBaseKey(organization_id, kb_id), at=datetime.now(UTC))
    command_log.clear()
    await watched.search(library, QUERY, mode="text")
    assert command_log.names().count(f"aggregate {library.chunks.collection.name}") == 2


async def test_new_queries_of_one_moment_look_at_key_and_kbs_together(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog, search_database: Database
) -> None:
    others = [await create(search_database, ORGANIZATION) for _ in range(3)]
    body = {"kb_ids": [each.kb.kb_id for each in (library, *others)], "mode": "vector"}
    assert (await watched.post(SEVERAL, {"query": QUERY, **body})).status_code == 200
    command_log.clear()
    new = [watched.post(SEVERAL, {"query": f"never asked before {n}", **body}) for n in range(8)]
    assert {answer.status_code for answer in await asyncio.gather(*new)} == {200}
    names = command_log.names()
    assert 1 <= names.count("find api_keys") <= 4
    assert 1 <= names.count("find knowledge_bases") <= 4


async def test_a_search_over_several_reads_their_rows_with_one_stage(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog, search_database: Database
) -> None:
    others = [await create(search_database, ORGANIZATION) for _ in range(3)]
    body = {"query": QUERY, "kb_ids": [each.kb.kb_id for each in (library, *others)], "mode": "text"}
    first = (await watched.post(SEVERAL, body)).json()
    command_log.clear()
    assert (await watched.post(SEVERAL, body)).json()["results"] == first["results"] != []
    assert not {"find api_keys", "find knowledge_bases"} & set(command_log.names())
    united = [stage["$unionWith"]["coll"] for stage in stages_of(command_log) if "$unionWith" in stage]
    assert (united.count(api_keys.NAME), united.count(knowledge_bases.NAME)) == (1, 1)


async def test_a_new_query_looks_at_key_and_kb_before_it_is_paid_for(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY)
    command_log.clear()
    assert (await watched.search(library, "never asked before"))["spu_charged"] == 1
    names = command_log.names()
    paid = names.index(f"insert {spu_ledger.NAME}")
    for looked_at in ("find api_keys", "find knowledge_bases"):
        assert names.count(looked_at) == 1
        assert names.index(looked_at) < paid


async def test_a_failure_is_raised_at_once_and_not_tried_again(
    searcher: SearchingCaller, library: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    await searcher.search(library, QUERY)
    attempts = 0

    async def away(*_: Any, **__: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise TransientError("away")

    monkeypatch.setattr(search_knowledge_base, "embed_query", away)
    assert (await ask(searcher, library, library.path)).status_code == 503
    assert attempts == 1


@pytest.mark.parametrize("index", [VECTOR_INDEX, TEXT_INDEX])
async def test_a_revoked_key_gets_401_and_not_the_error_of_its_search(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, index: str
) -> None:
    await library.chunks.collection.drop_search_index(index)

    async def is_gone() -> bool:
        return (await ask(searcher, library, library.path)).status_code == 503

    await until(is_gone, what="the index to be gone")
    await revoke(search_database, searcher)
    assert (await ask(searcher, library, library.path)).status_code == 401


async def test_a_filter_that_is_wrong_is_not_explained_to_a_revoked_key(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    wrong = {"metadata_filter": {"year": {"$where": 1}}}
    assert (await ask(searcher, library, library.path)).status_code == 200
    assert (await ask(searcher, library, library.path, **wrong)).status_code == 422
    await revoke(search_database, searcher)
    assert (await ask(searcher, library, library.path, **wrong)).status_code == 401


async def test_a_key_known_to_be_right_opens_no_other_organization(
    new_searcher: NewSearcher, searcher: SearchingCaller, library: Knowledge
) -> None:
    stranger = await new_searcher("other")
    own = await create(library.database, "other")
    await own.index(DocumentToIndex("d", ["kayak"]))
    assert (await ask(stranger, library, own.path)).status_code == 200
    assert (await ask(searcher, library, library.path)).status_code == 200
    foreign = (
        library.path,
        SEVERAL,
        library.path.replace(ORGANIZATION, "other"),
        own.path.replace("other", ORGANIZATION),
    )
    for path in foreign * 2:
        assert (await ask(stranger, library, path)).status_code == 404
        assert (await ask(stranger, library, own.path)).status_code == 200


async def test_a_key_that_may_not_search_is_refused_again_and_again(
    new_searcher: NewSearcher, searcher: SearchingCaller, library: Knowledge
) -> None:
    reader = await new_searcher(scope=Scope.READ)
    # Paid for, so that the key is not looked at on that account.
    assert (await ask(searcher, library, library.path)).status_code == 200
    for path in (library.path, SEVERAL) * 2:
        assert (await ask(reader, library, path)).status_code == 403


async def test_a_wrong_secret_after_a_right_one_is_refused(searcher: SearchingCaller, library: Knowledge) -> None:
    assert (await ask(searcher, library, library.path)).status_code == 200
    wrong = SearchingCaller(searcher.http, searcher.key[:-1] + ("a" if searcher.key[-1] != "a" else "b"))
    assert (await ask(wrong, library, library.path)).status_code == 401
    assert (await ask(searcher, library, library.path)).status_code == 200


async def test_a_kb_that_is_created_after_a_404_is_found(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    rows = search_database[knowledge_bases.NAME]
    row = await rows.find_one({"_id": library.kb.kb_id})
    assert row is not None
    await rows.delete_one({"_id": library.kb.kb_id})
    assert (await ask(searcher, library, library.path)).status_code == 404
    await rows.insert_one(row)
    assert (await ask(searcher, library, library.path)).status_code == 200


@pytest.mark.parametrize("body", [b"{", b"{}", b" " * 70_000 + b"{}"])
async def test_a_body_that_is_wrong_is_not_explained_to_a_revoked_key(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, body: bytes
) -> None:
    await searcher.search(library, QUERY)
    assert (await searcher.post_bytes(library.path, body)).status_code in {400, 422}
    await revoke(search_database, searcher)
    assert (await searcher.post_bytes(library.path, body)).status_code == 401


async def test_no_large_body_is_read_for_a_revoked_key(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    await searcher.search(library, QUERY)
    await revoke(search_database, searcher)
    was_read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal was_read
        was_read = True
        yield b"{}"

    headers = {"Authorization": f"Bearer {searcher.key}", "Content-Type": "application/json"}
    for declared in ({"Content-Length": "1000000"}, {}):
        answer = await searcher.http.post(library.path, content=body(), headers={**headers, **declared})
        assert (answer.status_code, was_read) == (401, False)


async def test_a_key_that_was_found_to_be_revoked_is_not_presumed_again(
    searcher: SearchingCaller, library: Knowledge, search_database: Database, app: FastAPI
) -> None:
    await searcher.search(library, QUERY)
    assert get_provided(app, Authentication).find_cached(searcher.key) is not None
    await revoke(search_database, searcher)
    assert (await ask(searcher, library, library.path)).status_code == 401
    assert get_provided(app, Authentication).find_cached(searcher.key) is None
