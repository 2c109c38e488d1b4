"""Checks of searches, and of what is kept of them."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from kb_contracts.api.search import SearchResult
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import LEAVE, TRAVEL, StockedOrganization

ANSWERED_BY_INDEXES = ("highlights", "relevance", "is_matched", "scores", "score", "strength", "also_in")


async def assert_found(organization: StockedOrganization, results: Sequence[SearchResult]) -> None:
    """Compare the chunks of results with those that are stored; the matches are all of KB `kb_id`."""
    rows = await organization.chunks(organization.kb_id, LEAVE) + await organization.chunks(organization.kb_id, TRAVEL)
    by_id = {row["_id"]: row for row in rows}
    assert {result.chunk_id for result in results} == by_id.keys()
    names = {"content": "chunk_text", "source": "document_name", "chunk_id": "_id", "citation": "_id"}
    for result in results:
        row = by_id[result.chunk_id] | {name: getattr(result, name) for name in ANSWERED_BY_INDEXES}
        assert_shows(result, row | {"truncated": False}, names=names | {"metadata": "metadata_snapshot"})
        assert result.is_matched


async def assert_logged(organization: StockedOrganization, query: str, *, result_count: int, kb_ids: list[str]) -> None:
    row = await organization.until_row("query_log", query=query)
    assert_holds(row, kb_ids=kb_ids, result_count=result_count, outcome="answered", origin="sdk", run_id=None)
    assert_holds(row, key_id=organization.key_id, mode="hybrid")


async def charged_for_searches(organization: StockedOrganization) -> int:
    return sum(row["count"] for row in await organization.rows("spu_ledger", operation="search"))


@checks("knowledge_bases.search")
async def check_search(organization: StockedOrganization) -> None:
    query = f"leave {uuid4().hex}"
    before = await charged_for_searches(organization)
    answer = await organization.client.knowledge_bases.search(organization.kb_id, query, top_k=20)
    await assert_found(organization, answer.results)
    assert (answer.query, answer.kb_status, answer.degraded) == (query, "active", [])
    assert answer.total_count == len(answer.results)
    rows = await organization.rows(f"kb_vectors_{organization.kb_id}", until=None)
    assert answer.total_tokens == sum(row["token_count"] for row in rows)
    assert answer.spu_charged == await charged_for_searches(organization) - before == 1
    await assert_logged(organization, query, result_count=len(answer.results), kb_ids=[organization.kb_id])


@checks("knowledge_bases.search_several")
async def check_search_several(organization: StockedOrganization) -> None:
    query = f"travel {uuid4().hex}"
    kb_ids = [organization.kb_id, organization.strict_kb_id]
    before = await charged_for_searches(organization)
    answer = await organization.client.knowledge_bases.search_several(query, kb_ids=kb_ids, top_k=20)
    await assert_found(organization, answer.results)
    for shown, kb_id in zip(answer.knowledge_bases, kb_ids, strict=True):
        row = await organization.row("knowledge_bases", _id=kb_id)
        assert (shown.kb_id, shown.name) == (kb_id, row["name"])
    assert (answer.query, answer.failures) == (query, [])
    assert answer.spu_charged == await charged_for_searches(organization) - before
    await assert_logged(organization, query, result_count=len(answer.results), kb_ids=kb_ids)


@checks("knowledge_bases.explain_search")
async def check_explain_search(organization: StockedOrganization) -> None:
    query = f"explained {uuid4().hex}"
    before = await charged_for_searches(organization)
    answer = await organization.client.knowledge_bases.explain_search(
        organization.kb_id, query, document_id=LEAVE, top_k=20
    )
    assert answer.spu_charged == await charged_for_searches(organization) - before == 1
    found = await organization.client.knowledge_bases.search(organization.kb_id, query, top_k=20)
    of_document = {place: result for place, result in enumerate(found.results, start=1) if result.document_id == LEAVE}
    assert (answer.kb_id, answer.document_id) == (organization.kb_id, LEAVE)
    assert (answer.reason, answer.position, answer.filtered_out_by) == ("in_results", min(of_document), [])
    assert answer.relevance == pytest.approx(max(result.relevance or 0 for result in of_document.values()))
    filtered = await organization.client.knowledge_bases.explain_search(
        organization.kb_id, query, document_id=LEAVE, metadata_filter={"year": 1999}
    )
    assert (filtered.reason, filtered.filtered_out_by) == ("filtered_out", ["metadata_filter.year"])
    absent = await organization.client.knowledge_bases.explain_search(
        organization.strict_kb_id, query, document_id=LEAVE
    )
    assert absent.reason == "not_in_knowledge_base"
    assert not await organization.rows("document_index", kb_id=organization.strict_kb_id, document_id=LEAVE)


@checks("insights.count_searches")
async def check_count_searches(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.insights.count_searches(group_by="origin,kb"),
        lambda: organization.rows("query_log"),
    )
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        for kb_id in row["kb_ids"]:
            groups.setdefault((row["origin"], kb_id), []).append(row)
    for shown, (group, members) in zip(answer.groups, sorted(groups.items()), strict=True):
        origin, kb_id = group
        counts = _counts(members)
        took = [row["work"]["duration_s"] for row in await organization.rows("document_index", kb_id=kb_id)]
        mean_s = pytest.approx(sum(took) / len(took), abs=0.001) if took else None
        assert_shows(shown, {"origin": origin, "kb_id": kb_id, "mean_indexing_s": mean_s, **counts})
    _assert_last_thirty_days(answer)


@checks("insights.list_queries")
async def check_list_queries(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.insights.list_queries(limit=100), lambda: organization.rows("query_log")
    )
    by_text: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["asked_at"]):
        by_text.setdefault(row["same"], []).append(row)
    assert answer.total_count == len(by_text)
    often_first = sorted(by_text.items(), key=lambda each: (-len(each[1]), each[0]))
    for shown, (_, asked) in zip(answer.queries, often_first, strict=True):
        durations = [row["duration_ms"] for row in asked]
        answered = [row["result_count"] for row in asked if row["outcome"] in ("answered", "nothing_found")]
        derived = {
            "query": asked[-1]["query"],
            "mean_results": pytest.approx(sum(answered) / len(answered)),
            "max_ms": max(durations),
            "last_asked_at": asked[-1]["asked_at"],
        }
        assert_shows(shown, _counts(asked) | derived)
    _assert_last_thirty_days(answer)


def _counts(rows: Sequence[Row]) -> Row:
    outcomes = Counter(row["outcome"] for row in rows)
    return {
        "searches": len(rows),
        "without_results": sum(row["result_count"] == 0 for row in rows),
        "failed": outcomes["failed"] + outcomes["refused"] + outcomes["unavailable"],
        "mean_ms": pytest.approx(sum(row["duration_ms"] for row in rows) / len(rows)),
    }


@checks("insights.list_documents")
async def check_list_documents(organization: StockedOrganization) -> None:
    async def cited() -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for run in await organization.rows("runs"):
            for citation in run["citations"]:
                if citation["kb_id"] == organization.kb_id:
                    found.setdefault(citation["document_id"], []).append({**citation, "run": run})
        return found

    answer, citations = await undisturbed(
        lambda: organization.client.insights.list_documents(organization.kb_id), cited
    )
    assert LEAVE in citations
    assert answer.total_count == len(citations)
    assert {shown.document_id for shown in answer.documents} == citations.keys()
    for shown in answer.documents:
        of_document = citations[shown.document_id]
        derived = {
            "document_id": shown.document_id,
            "document_name": of_document[-1]["source"],
            "runs": len({citation["run"]["_id"] for citation in of_document}),
            "citations": len(of_document),
            "last_cited_at": max(citation["run"]["started_at"] for citation in of_document),
        }
        assert_shows(shown, derived)
    never = await organization.client.insights.list_documents(organization.kb_id, by="never_cited")
    indexed = {row["document_id"] for row in await organization.rows("document_index", kb_id=organization.kb_id)}
    assert {shown.document_id for shown in never.documents} == indexed - citations.keys()
    _assert_last_thirty_days(answer)


@checks("insights.list_citations")
async def check_list_citations(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        organization.client.insights.list_citations, lambda: organization.rows("citations")
    )
    cited = [row for row in rows if row["cited"]]
    assert LEAVE in {row["document_id"] for row in cited}
    assert {shown.document_id for shown in answer.documents} == {row["document_id"] for row in cited}
    for shown in answer.documents:
        of_document = [row for row in rows if row["document_id"] == shown.document_id]
        answers = [row for row in of_document if row["cited"]]
        derived = {
            "document_id": shown.document_id,
            "document_name": of_document[-1]["document_name"],
            "in_context": len(of_document),
            "citations": len(answers),
            "runs": len({row["run_id"] for row in answers}),
            "last_cited_at": max(row["answered_at"] for row in answers),
        }
        assert_shows(shown, derived)
    never = await organization.client.insights.list_citations(by="never_cited", kb_id=organization.kb_id)
    indexed = {row["document_id"] for row in await organization.rows("document_index", kb_id=organization.kb_id)}
    of_kb = {row["document_id"] for row in cited if row["kb_id"] == organization.kb_id}
    assert {shown.document_id for shown in never.documents} == indexed - of_kb
    _assert_last_thirty_days(answer)


def _assert_last_thirty_days(answer: Any) -> None:
    assert answer.until - answer.since == timedelta(days=30)
    assert timedelta(0) <= datetime.now(UTC) - answer.until < timedelta(minutes=10)
