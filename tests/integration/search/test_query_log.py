"""What is searched for is written down, and people learn from it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_search.log_queries import QueryLog
from kb_search.most_searched import MEASURED, measure_most_searched
from kb_search.settings import SearchSettings
from kb_shared.mongo import api_keys, document_index, knowledge_bases, query_log
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.query_log import LoggedQuery, SearchCount
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge
from tests.waiting import until

MISSING = "65f000000000000000000000"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
KEPT = timedelta(days=3_650)
INSIGHTS = f"/v0/orgs/{ORGANIZATION}/insights/queries"


async def logged(database: Database, count: int) -> list[dict[str, Any]]:
    async def written() -> bool:
        return await database[query_log.NAME].count_documents({}) >= count

    await until(written)
    rows = await database[query_log.NAME].find({}, {"_id": 0}).sort("asked_at").to_list()
    assert len(rows) == count
    return rows


async def test_each_search_is_logged_with_its_caller_and_origin(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    await knowledge.index(DocumentToIndex("d", ["kayak"]))
    await searcher.search(knowledge, "Where is the  Kayak?")
    headers = {"Authorization": f"Bearer {searcher.key}", "X-KB-Origin": "console"}
    await searcher.http.post(knowledge.path, json={"query": "no", "mode": "text"}, headers=headers)
    # Another page is no other question.
    await searcher.search(knowledge, "Where is the Kayak?", skip=5)
    first, second = await logged(search_database, 2)
    assert first.pop("duration_ms") > 0
    asked_at = first.pop("asked_at")
    assert datetime.now(UTC) - asked_at < timedelta(minutes=5)
    assert first.pop("expires_at") - asked_at == timedelta(days=90)
    assert first == {
        "organization_id": ORGANIZATION,
        "kb_ids": [knowledge.kb.kb_id],
        "query": "Where is the  Kayak?",
        "same": "where is the kayak?",
        "mode": "hybrid",
        "outcome": "answered",
        "result_count": 1,
        "origin": "sdk",
        "key_id": searcher.key.split("_")[1],
        "run_id": None,
        "agent_id": None,
    }
    assert (second["origin"], second["mode"], second["result_count"]) == ("console", "text", 0)
    assert second["outcome"] == "nothing_found"


async def test_a_failed_search_is_logged_with_its_outcome(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, model_server: ModelServerProcess
) -> None:
    await knowledge.index(DocumentToIndex("d", ["kayak"]))
    kb_id = knowledge.kb.kb_id
    several = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"
    refused = await searcher.post(knowledge, {"query": "bad filter", "metadata_filter": {"$where": "1"}})
    missing = await searcher.post(several, {"query": "no such kb", "kb_ids": [MISSING, "x" * 100]})
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as admin:
        (await admin.put("/admin/hash", json={"faults": [{"status": 503}] * 20})).raise_for_status()
        down = await searcher.post(knowledge, {"query": "provider is down", "mode": "vector"})
        await admin.delete("/admin/hash")
    assert [each.status_code for each in (refused, missing, down)] == [422, 404, 503]
    rows = await logged(search_database, 3)
    assert [(row["query"], row["outcome"], row["kb_ids"], row["result_count"]) for row in rows] == [
        ("bad filter", "refused", [kb_id], 0),
        ("no such kb", "refused", [MISSING], 0),
        ("provider is down", "unavailable", [kb_id], 0),
    ]
    assert rows[-1]["duration_ms"] > 0


async def test_a_key_that_is_revoked_writes_nothing_into_the_log(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    await searcher.search(knowledge, "while it was right")
    await api_keys.revoke(search_database, ORGANIZATION, key_id=searcher.key.split("_")[1])
    assert (await searcher.post(knowledge, {"query": "afterwards"})).status_code == 401
    log = QueryLog(search_database, kept=KEPT)
    log.add_query(entry("last"))
    await log.close()
    await logged(search_database, 2)


async def test_rows_from_before_failures_were_kept_count_as_answered(
    http: httpx.AsyncClient, search_database: Database, settings: SearchSettings
) -> None:
    await query_log.insert(search_database, [entry("kayak", results=0)], kept=KEPT)
    await search_database[query_log.NAME].update_many({}, {"$unset": {"outcome": ""}})
    [one] = (await insights(http, search_database, settings))["queries"]
    assert (one["without_results"], one["failed"]) == (1, 0)


async def test_a_search_from_the_dashboard_is_one_from_the_console(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    headers = {"Authorization": f"Bearer {searcher.key}", "X-KB-Origin": "dashboard"}
    response = await searcher.http.post(knowledge.path, json={"query": "x", "mode": "text"}, headers=headers)
    assert response.status_code == 200, response.text
    [row] = await logged(search_database, 1)
    assert row["origin"] == "console"


async def test_a_request_can_not_claim_the_origin_of_an_agent(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    headers = {"Authorization": f"Bearer {searcher.key}", "X-KB-Origin": "agent"}
    response = await searcher.http.post(knowledge.path, json={"query": "x"}, headers=headers)
    assert response.status_code == 422


async def test_a_log_that_cannot_be_written_fails_no_search_and_repeats_no_query(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, app: FastAPI
) -> None:
    await search_database.create_collection(query_log.NAME, validator={"never": True})
    assert (await searcher.search(knowledge, "canary"))["results"] == []
    log = QueryLog(search_database, kept=KEPT)
    log.add_query(entry("canary"))
    await log.close()
    assert await search_database[query_log.NAME].count_documents({}) == 0


async def test_searches_are_logged_in_batches(search_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    insert = query_log.insert

    async def counted(database: Database, queries: Sequence[LoggedQuery], *, kept: timedelta) -> None:
        batches.append(len(queries))
        await insert(database, queries, kept=kept)

    monkeypatch.setattr(query_log, "insert", counted)
    log = QueryLog(search_database, kept=KEPT)
    log.add_query(entry("first"))
    await asyncio.sleep(0)  # the writer has begun to wait for more
    log.add_query(entry("second"))
    await log.close()
    assert batches == [2]
    await logged(search_database, 2)


def entry(query: str, *, results: int = 1, ms: float = 10.0, days: int = 1, **fields: Any) -> LoggedQuery:
    values: dict[str, Any] = {
        "organization_id": ORGANIZATION,
        "kb_ids": ("k1",),
        "query": query,
        "mode": "hybrid",
        "outcome": "answered" if results else "nothing_found",
        "result_count": results,
        "duration_ms": ms,
        "origin": "sdk",
        "key_id": "key",
        "run_id": None,
        "asked_at": NOW - timedelta(days=days),
    }
    return LoggedQuery(**{**values, **fields})


@pytest.fixture
async def history(search_database: Database) -> None:
    await query_log.insert(
        search_database,
        [
            entry("kayak", days=3),
            entry(" KAYAK", days=2, ms=30.0, results=3),
            entry("canoe", results=0, ms=90.0, kb_ids=("k2",)),
            entry("raft", results=0, ms=5.0),
            entry("raft", results=0, ms=5.0),
            entry("raft", ms=5.0),
            entry("boat", results=0, ms=1.0, outcome="unavailable"),
            entry("boat", results=0, ms=1.0, outcome="refused", days=4),
            entry("old", days=60),
            entry("theirs", organization_id="other"),
        ],
        kept=KEPT,
    )


async def insights(
    http: httpx.AsyncClient, database: Database, settings: SearchSettings, **params: Any
) -> dict[str, Any]:
    key = await key_for(database, settings, ORGANIZATION, Scope.READ)
    response = await http.get(
        INSIGHTS, params={"to": NOW.isoformat(), **params}, headers={"Authorization": f"Bearer {key}"}
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("params", "queries"),
    [
        ({}, ["raft", "boat", " KAYAK", "canoe"]),
        ({"by": "zero_results"}, ["raft", "canoe"]),
        ({"by": "failed"}, ["boat"]),
        ({"by": "slow"}, ["canoe", " KAYAK", "raft", "boat"]),
        ({"kb_id": "k2"}, ["canoe"]),
        ({"skip": 2, "limit": 1}, [" KAYAK"]),
        ({"from": "2026-01-01T00:00:00Z"}, ["raft", "boat", " KAYAK", "canoe", "old"]),
        ({"from": "2026-05-30T00:00:00Z", "to": "2026-05-30T12:00:00Z"}, [" KAYAK"]),
    ],
)
async def test_insights_list_frequent_failed_and_slow_queries(
    http: httpx.AsyncClient,
    search_database: Database,
    settings: SearchSettings,
    params: dict[str, Any],
    queries: list[str],
) -> None:
    answer = await insights(http, search_database, settings, **params)
    assert [one["query"] for one in answer["queries"]] == queries


@pytest.mark.usefixtures("history")
async def test_all_ways_to_write_a_query_count_as_one(
    http: httpx.AsyncClient, search_database: Database, settings: SearchSettings
) -> None:
    answer = await insights(http, search_database, settings)
    assert answer["total_count"] == 4
    boat = answer["queries"][1]
    assert (boat["searches"], boat["failed"], boat["without_results"], boat["mean_results"]) == (2, 2, 0, 0.0)
    assert answer["queries"][2] == {
        "query": " KAYAK",
        "searches": 2,
        "without_results": 0,
        "failed": 0,
        "mean_results": 2.0,
        "mean_ms": 20.0,
        "max_ms": 30.0,
        "last_asked_at": "2026-05-30T00:00:00Z",
    }


async def test_a_time_that_ends_before_it_begins_is_refused(new_searcher: NewSearcher) -> None:
    reader = await new_searcher(scope=Scope.READ)
    params = {"from": "2026-06-02T00:00:00Z", "to": "2026-06-01T00:00:00Z"}
    response = await reader.http.get(INSIGHTS, params=params, headers={"Authorization": f"Bearer {reader.key}"})
    assert response.status_code == 422


async def test_searches_are_counted_by_day_origin_and_knowledge_base(
    new_searcher: NewSearcher, search_database: Database
) -> None:
    reader = await new_searcher(scope=Scope.READ)
    kbs = ["65f0000000000000000000a1", "65f0000000000000000000a2"]

    def asked(day: int, origin: query_log.Origin, *kb_ids: str, results: int = 1) -> LoggedQuery:
        outcome: query_log.LoggedOutcome = "answered" if results else "nothing_found"
        at = datetime(2026, 5, day, 12, tzinfo=UTC)
        return LoggedQuery(ORGANIZATION, kb_ids, "q", "text", outcome, results, 10.0 * day, origin, "key", None, at)

    other = replace(asked(1, "sdk", *kbs), organization_id="other")
    queries = [asked(1, "sdk", kbs[0]), asked(1, "cli", *kbs, results=0), asked(2, "sdk", *kbs), other]
    await query_log.insert(search_database, queries, kept=KEPT)

    async def counted(group_by: str, **params: str) -> list[tuple[Any, ...]]:
        answer = await reader.http.get(
            INSIGHTS.replace("queries", "searches"),
            params={"group_by": group_by, "from": "2026-05-01T00:00:00Z", "to": "2026-06-01T00:00:00Z", **params},
            headers={"Authorization": f"Bearer {reader.key}"},
        )
        assert answer.status_code == 200, answer.text
        shown = ("day", "origin", "kb_id", "searches", "without_results")
        return [tuple(each[name] for name in shown) for each in answer.json()["groups"]]

    assert await counted("day") == [("2026-05-01", None, None, 2, 1), ("2026-05-02", None, None, 1, 0)]
    assert await counted("origin") == [(None, "cli", None, 1, 1), (None, "sdk", None, 2, 0)]
    assert await counted("day", origin="cli") == [("2026-05-01", None, None, 1, 1)]
    assert await counted("kb,day", kb_id=kbs[1]) == [
        ("2026-05-01", None, kbs[1], 1, 1),
        ("2026-05-02", None, kbs[1], 1, 0),
    ]


async def test_the_most_searched_knowledge_bases_tell_how_long_a_document_takes(search_database: Database) -> None:
    kb_ids = [f"65f0000000000000000000{number:02d}" for number in range(MEASURED + 2)]
    *kept, deleted = kb_ids
    await search_database[knowledge_bases.NAME].insert_many(
        [{"_id": kb_id, "organization_id": ORGANIZATION, "name": kb_id} for kb_id in kept]
    )
    await search_database[document_index.NAME].insert_many(
        [
            {
                "_id": f"{kb_id}/{document_id}",
                "organization_id": ORGANIZATION,
                "kb_id": kb_id,
                "document_id": document_id,
                "indexed_at": NOW,
                "work": {"duration_s": duration_s, "embeddings": 1, "cached": 0},
            }
            for kb_id in kb_ids
            for document_id, duration_s in (("a", 1.0), ("b", 2.0))
        ]
    )
    counted = [
        SearchCount(searches=number, without_results=0, failed=0, mean_ms=1.0, kb_id=kb_id)
        for number, kb_id in enumerate(kb_ids, start=1)
    ]
    measured = await measure_most_searched(search_database, ORGANIZATION, counted)
    assert measured == dict.fromkeys(kept[1:], 1.5), f"neither the least searched one nor {deleted}, which is gone"
    assert await measure_most_searched(search_database, "other", counted) == {}
