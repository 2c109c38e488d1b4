"""A search begins with the key and the KBs as they were when they were last looked at; nobody is to notice."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from kb_search import search_knowledge_base
from kb_shared.errors import TransientError
from kb_shared.mongo import api_keys, index_queries, knowledge_bases, spu_ledger
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import Status
from tests.integration.indexer.support import CommandLog
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, Searcher
from tests.integration.search.knowledge import Document, Knowledge, create

QUERY = "kayak"
SEVERAL = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"


@pytest.fixture
async def library(knowledge: Knowledge) -> Knowledge:
    await knowledge.index(Document("d", ["kayak", "canoe"]))
    return knowledge


async def revoke(database: Database, searcher: Searcher) -> None:
    key_id = api_keys.key_id_of(searcher.key)
    assert key_id is not None
    assert await api_keys.revoke(database, ORGANIZATION, key_id)


async def ask(searcher: Searcher, library: Knowledge, path: str, **fields: Any) -> httpx.Response:
    several = {"kb_ids": [library.kb.kb_id]} if path == SEVERAL else {}
    return await searcher.post(path, {"query": QUERY, **several, **fields})


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
@pytest.mark.parametrize("query", [QUERY, "never asked before", "zzz"])
async def test_a_revoked_key_is_refused_by_the_next_search_which_costs_nothing(
    searcher: Searcher, library: Knowledge, search_database: Database, mode: str, query: str
) -> None:
    charges = search_database[spu_ledger.NAME]
    for path in (library.path, SEVERAL):
        assert (await ask(searcher, library, path, mode=mode)).status_code == 200
    before = await charges.count_documents({})
    await revoke(search_database, searcher)
    for path in (library.path, SEVERAL, library.path):
        answer = await ask(searcher, library, path, mode=mode, query=query)
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (401, "unauthenticated")
    assert await charges.count_documents({}) == before


@pytest.mark.parametrize("several", [False, True])
async def test_a_key_revoked_while_its_search_is_under_way_gets_no_answer(
    searcher: Searcher, library: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    path = SEVERAL if several else library.path
    assert (await ask(searcher, library, path)).status_code == 200
    nearest = index_queries.nearest

    async def then_revoked(*args: Any, **kwargs: Any) -> dict[str, float]:
        found = await nearest(*args, **kwargs)
        monkeypatch.setattr(index_queries, "nearest", nearest)
        await revoke(search_database, searcher)
        return found

    monkeypatch.setattr(index_queries, "nearest", then_revoked)
    assert (await ask(searcher, library, path)).status_code == 401


async def test_a_key_is_refused_when_its_time_is_over(
    searcher: Searcher, library: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_at = datetime.now(UTC) + timedelta(hours=1)
    await search_database[api_keys.NAME].update_many({}, {"$set": {"expires_at": ends_at}})
    assert (await ask(searcher, library, library.path)).status_code == 200

    monkeypatch.setattr(api_keys, "datetime", Mock(now=Mock(return_value=ends_at)))
    assert (await ask(searcher, library, library.path)).status_code == 401


async def test_a_kb_that_is_being_deleted_is_gone_for_the_next_search(
    searcher: Searcher, library: Knowledge, search_database: Database
) -> None:
    other = await create(search_database, ORGANIZATION)
    await other.index(Document("d", ["kayak"]))
    both = {"query": QUERY, "kb_ids": [library.kb.kb_id, other.kb.kb_id]}
    for _ in range(2):
        await searcher.search(library, QUERY)
        assert (await searcher.post(SEVERAL, both)).json()["failures"] == []
    rows = search_database[knowledge_bases.NAME]
    await rows.update_one({"_id": library.kb.kb_id}, {"$set": {"status": Status.DELETING}})
    answer = (await searcher.post(SEVERAL, both)).json()
    assert [(one["kb_id"], one["status"]) for one in answer["failures"]] == [(library.kb.kb_id, 404)]
    assert {one["kb_id"] for one in answer["results"]} == {other.kb.kb_id}
    assert (await ask(searcher, library, library.path)).status_code == 404


async def test_what_was_changed_of_a_kb_holds_for_the_next_search(
    searcher: Searcher, library: Knowledge, search_database: Database
) -> None:
    assert len((await searcher.search(library, QUERY, mode="vector"))["results"]) == 2
    rows = search_database[knowledge_bases.NAME]
    await rows.update_one({"_id": library.kb.kb_id}, {"$set": {"min_score": 0.99, "status": Status.ERROR}})
    for path in (library.path, SEVERAL):
        answer = (await ask(searcher, library, path, mode="vector")).json()
        assert [one["content"] for one in answer["results"]] == ["kayak"]
    assert (await searcher.search(library, QUERY))["kb_status"] == "error"


async def test_that_a_kb_was_searched_is_no_reason_to_search_it_again(
    watched: Searcher, library: Knowledge, search_database: Database, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY, mode="text")
    organization_id, kb_id = library.kb.organization_id, library.kb.kb_id
    await knowledge_bases.touch_searched(search_database, organization_id, kb_id, datetime.now(UTC))
    command_log.clear()
    await watched.search(library, QUERY, mode="text")
    assert command_log.names().count(f"aggregate {library.chunks.collection.name}") == 2


async def test_a_new_query_looks_at_key_and_kb_before_it_is_paid_for_and_not_again(
    watched: Searcher, library: Knowledge, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY)
    command_log.clear()
    assert (await watched.search(library, "never asked before"))["spu_charged"] == 1
    names = command_log.names()
    paid = names.index(f"insert {spu_ledger.NAME}")
    for looked_at in ("find api_keys", "find knowledge_bases"):
        assert names.count(looked_at) == 1
        assert names.index(looked_at) < paid
    united = [
        stage["$unionWith"]["coll"]
        for command in command_log.commands
        for stage in command.get("pipeline", [])
        if "$unionWith" in stage
    ]
    assert not {api_keys.NAME, knowledge_bases.NAME} & set(united)


async def test_a_failure_is_told_at_once_and_not_tried_again(
    searcher: Searcher, library: Knowledge, monkeypatch: pytest.MonkeyPatch
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
async def test_what_goes_wrong_for_a_revoked_key_is_not_told_to_it(
    searcher: Searcher, library: Knowledge, search_database: Database, index: str
) -> None:
    assert (await ask(searcher, library, library.path)).status_code == 200
    await library.chunks.collection.drop_search_index(index)

    async def status() -> int:
        return (await ask(searcher, library, library.path)).status_code

    while (seen := await status()) != 503:
        assert seen == 200, "an index goes some time after it was dropped"
    await revoke(search_database, searcher)
    assert await status() == 401


async def test_a_filter_that_is_wrong_is_not_explained_to_a_revoked_key(
    searcher: Searcher, library: Knowledge, search_database: Database
) -> None:
    wrong = {"metadata_filter": {"year": {"$where": 1}}}
    assert (await ask(searcher, library, library.path)).status_code == 200
    assert (await ask(searcher, library, library.path, **wrong)).status_code == 422
    await revoke(search_database, searcher)
    assert (await ask(searcher, library, library.path, **wrong)).status_code == 401


async def test_a_key_known_to_be_right_opens_no_other_organization(
    new_searcher: NewSearcher, searcher: Searcher, library: Knowledge
) -> None:
    stranger = await new_searcher("other")
    own = await create(library.database, "other")
    await own.index(Document("d", ["kayak"]))
    assert (await ask(stranger, library, own.path)).status_code == 200
    assert (await ask(searcher, library, library.path)).status_code == 200
    for path in (library.path, SEVERAL, library.path.replace(ORGANIZATION, "other")):
        assert (await ask(stranger, library, path)).status_code == 404


async def test_a_wrong_secret_after_a_right_one_is_refused(searcher: Searcher, library: Knowledge) -> None:
    assert (await ask(searcher, library, library.path)).status_code == 200
    wrong = Searcher(searcher.http, searcher.key[:-1] + ("a" if searcher.key[-1] != "a" else "b"))
    assert (await ask(wrong, library, library.path)).status_code == 401
    assert (await ask(searcher, library, library.path)).status_code == 200


async def test_a_kb_that_comes_after_it_was_asked_for_in_vain_is_found(
    searcher: Searcher, library: Knowledge, search_database: Database
) -> None:
    rows = search_database[knowledge_bases.NAME]
    row = await rows.find_one({"_id": library.kb.kb_id})
    assert row is not None
    await rows.delete_one({"_id": library.kb.kb_id})
    assert (await ask(searcher, library, library.path)).status_code == 404
    await rows.insert_one(row)
    assert (await ask(searcher, library, library.path)).status_code == 200
