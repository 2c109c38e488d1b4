"""Filters mean the same to the search index, to MongoDB and in the documentation."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient, MongoClient

from kb_local.model_server.hash_model import vector_of
from kb_search.filters.compile_filter import Criteria, compile_filter, parse
from kb_search.filters.filter_errors import FilterError
from kb_search.filters.text_filter import to_operator
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.vector import to_binary
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DIMENSIONS, JANUARY, DocumentToIndex, Knowledge, create
from tests.reference_filter import ReferenceDocument, matches_filter

ANY_PATH = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/{'0' * 24}/search"

NAMES = ["a.pdf", "b.pdf", "Ünï 東京.pdf"]
TAGS = ["t1", "t2", "t.3"]
FILTERABLE = ("color", "size", "read")
READ: list[Any] = [{"$date": f"2026-03-0{day}T08:30:00.123Z"} for day in range(1, 5)]
VALUES: list[Any] = [True, False, 0, 1, 1.0, 1.5, -7, 2**53 + 1, 2.0**53, "1", "true", "", "grün", "y" * 300, "y" * 301]
DAYS = [JANUARY + timedelta(days=day) for day in range(-2, 3)]

CORPUS = [
    DocumentToIndex(
        f"d{n}",
        [f"text {n}"],
        name=NAMES[n % 3],
        tag_ids=[tag for bit, tag in enumerate(TAGS) if n >> bit & 1],
        upload_date=DAYS[n % 5],
        metadata={"color": VALUES[n % len(VALUES)], "read": datetime.fromisoformat(READ[n % 3]["$date"])}
        | ({"a.b": n % 2, "-c": "x", "size": n % 7} if n % 4 else {}),
    )
    for n in range(45)
]


@dataclass(frozen=True)
class Corpus:
    """The documents in a KB, asked for synchronously because Hypothesis does."""

    knowledge: Knowledge
    client: MongoClient[Row]

    def found_by_mongodb(self, query: Row) -> set[str]:
        rows = self._collection.find({**self.knowledge.chunks.scope, **query})
        return {row["document_id"] for row in rows}

    def found_by_the_index(self, query: Row) -> set[str]:
        stage = {
            "index": VECTOR_INDEX,
            "path": "embedding",
            "queryVector": to_binary(vector_of("x", dimensions=DIMENSIONS)),
            "limit": 100,
            "exact": True,
            "filter": {**self.knowledge.chunks.scope, **query},
        }
        return {row["document_id"] for row in self._collection.aggregate([{"$vectorSearch": stage}])}

    def found_by_words(self, operators: list[Row]) -> set[str]:
        scope = [{"equals": {"path": path, "value": value}} for path, value in self.knowledge.chunks.scope.items()]
        compound = {"must": [{"text": {"path": "chunk_text", "query": "text"}}], "filter": [*scope, *operators]}
        stages = [{"$search": {"index": TEXT_INDEX, "compound": compound}}, {"$limit": 100}]
        return {row["document_id"] for row in self._collection.aggregate(stages)}

    @property
    def _collection(self) -> Any:
        return self.client[self.knowledge.database.name][self.knowledge.kb.vector_collection]


@pytest.fixture(scope="module")
async def corpus(search_client: AsyncMongoClient[Row]) -> AsyncIterator[Corpus]:
    database = search_client[f"test_{uuid4().hex[:16]}"]
    knowledge = await create(database, ORGANIZATION, filterable_metadata=FILTERABLE)
    for document in CORPUS:
        await knowledge.index(document, searchable=False)
    for document in CORPUS:
        await knowledge.wait_until_found(document)
    host, port = await search_client.address or ("", 0)
    with MongoClient[Row](host, port, directConnection=True, tz_aware=True) as client:
        yield Corpus(knowledge, client)
    await search_client.drop_database(database.name)


def matches(document: DocumentToIndex, criteria: Criteria) -> bool:
    """Apply the criteria to a document of its upstream as the documentation describes them."""
    since, until = criteria.upload_date_from, criteria.upload_date_to
    return (
        (not criteria.document_ids or document.document_id in criteria.document_ids)
        and (not criteria.tag_ids or not set(document.tag_ids).isdisjoint(criteria.tag_ids))
        and (since is None or document.upload_date >= since)
        and (until is None or document.upload_date <= until)
        and matches_filter(
            criteria.metadata_filter or {},
            ReferenceDocument(document.name, document.tag_ids, dict(document.metadata or {})),
        )
    )


def one_or_some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=1, max_size=4)


def compared(equals: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    some = st.lists(equals, min_size=1, max_size=3)
    operators: dict[str, st.SearchStrategy[Any]] = {"$eq": equals, "$ne": equals, "$in": some, "$nin": some}
    if ordered is not None:
        operators |= dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered)
    return one_or_some(equals) | st.fixed_dictionaries({}, optional=operators).filter(bool)


some_values = st.sampled_from(VALUES)
equalities = st.fixed_dictionaries(
    {},
    optional={
        "document_name": one_or_some(st.sampled_from([*NAMES, "no.pdf"])),
        "tag_ids": one_or_some(st.sampled_from([*TAGS, "no"])),
        "color": one_or_some(some_values | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)),
        "a.b": one_or_some(st.integers(0, 1)),
        "-c": st.just("x"),
        "read": one_or_some(st.sampled_from(READ)),
        "no": some_values,
    },
)
comparisons = st.fixed_dictionaries(
    {},
    optional={
        "document_name": compared(st.sampled_from(NAMES), st.sampled_from(["", "b", "c", *NAMES])),
        "tag_ids": compared(st.sampled_from(TAGS)),
        "color": compared(some_values, st.sampled_from([value for value in VALUES if not isinstance(value, bool)])),
        "read": compared(st.sampled_from(READ), st.sampled_from([*READ, 5, "2026"])),
        "size": compared(st.integers(0, 7), st.integers(-1, 7) | st.sampled_from([2.5, "", "3"])),
    },
)
combinations = st.recursive(
    comparisons.filter(bool),
    lambda inner: st.sampled_from(["$and", "$or"]).flatmap(
        lambda name: st.fixed_dictionaries({name: st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=3,
)
metadata_filters = equalities | comparisons | combinations
all_criteria = st.builds(
    Criteria,
    document_ids=st.just(()) | st.lists(st.sampled_from([one.document_id for one in CORPUS]), min_size=5),
    tag_ids=st.just(()) | st.lists(st.sampled_from(TAGS), min_size=1),
    metadata_filter=st.none() | metadata_filters,
    upload_date_from=st.none() | st.sampled_from(DAYS[:3]),
    upload_date_to=st.none() | st.sampled_from(DAYS[2:]),
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(criteria=all_criteria)
def test_both_indexes_and_mongodb_find_exactly_the_documents_that_match(corpus: Corpus, criteria: Criteria) -> None:
    try:
        clauses = parse(criteria)
        query = compile_filter(clauses, filterable_metadata=FILTERABLE)
    except FilterError as error:
        # Nested deeper than may be; everything else that is made here can be asked.
        assert error.reason == "size"  # noqa: PT017  # most examples raise nothing
        reject()
    expected = {document.document_id for document in CORPUS if matches(document, criteria)}
    assert corpus.found_by_mongodb(query) == expected
    assert corpus.found_by_the_index(query) == expected
    assert corpus.found_by_words([to_operator(clause) for clause in clauses]) == expected


async def test_comparisons_over_http_find_exactly_what_they_say(
    searcher: SearchingCaller, search_database: Database
) -> None:
    knowledge = await create(search_database, ORGANIZATION, filterable_metadata=("year", "lang"))
    await knowledge.index(DocumentToIndex("d1", ["1"], tag_ids=["t1"], metadata={"year": 2024, "lang": "de"}))
    await knowledge.index(DocumentToIndex("d2", ["2"], tag_ids=["t1", "t2"], metadata={"year": 2025, "lang": "en"}))
    await knowledge.index(DocumentToIndex("d3", ["3"], name="b.pdf"))
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"year": {"$gte": 2025}}, {"d2"}),
        ({"year": {"$gt": 2023, "$lt": 2025.0}}, {"d1"}),
        ({"year": {"$ne": 2024}}, {"d2", "d3"}),
        ({"lang": {"$nin": ["de", 7]}}, {"d2", "d3"}),
        ({"lang": {"$lte": "dz"}}, {"d1"}),
        ({"tag_ids": {"$ne": "t2"}}, {"d1", "d3"}),
        ({"document_name": {"$gt": "a.pdf"}}, {"d3"}),
        (
            {"$or": [{"year": {"$lt": 2025}}, {"$and": [{"document_name": "b.pdf"}, {"tag_ids": {"$nin": ["t1"]}}]}]},
            {"d1", "d3"},
        ),
    ]
    for metadata_filter, expected in cases:
        assert await found(searcher, knowledge, metadata_filter=metadata_filter) == expected, metadata_filter


async def test_a_comparison_of_a_key_without_a_filter_path_says_what_to_do(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    response = await searcher.post(knowledge, {"query": "x", "metadata_filter": {"year": {"$gte": 2020}}})
    problem = response.json()
    assert (response.status_code, problem["type"]) == (422, "not-filterable")
    assert [wrong["field"] for wrong in problem["fields"]] == ["metadata_filter.year"]
    assert "filterable_metadata" in problem["detail"]


async def test_a_key_that_the_indexes_do_not_know_yet_is_for_later(
    searcher: SearchingCaller, search_database: Database
) -> None:
    knowledge = await create(
        search_database, ORGANIZATION, filterable_metadata=("year", "lang"), filters_building=("lang",)
    )
    await knowledge.index(DocumentToIndex("d1", ["1"], metadata={"year": 2024, "lang": "de"}))
    response = await searcher.post(knowledge, {"query": "x", "metadata_filter": {"lang": {"$ne": "en"}}})
    assert (response.status_code, response.json()["type"]) == (409, "filter-building")
    assert int(response.headers["retry-after"]) >= 1
    assert await found(searcher, knowledge, metadata_filter={"year": {"$gt": 2000}, "lang": "de"}) == {"d1"}


async def found(searcher: SearchingCaller, knowledge: Knowledge, **fields: Any) -> set[str]:
    """Search in every mode and return the hits, which must be equal; all texts are numbers."""
    by_mode = [
        {
            result["document_id"]
            for result in (await searcher.search(knowledge, "1 2 3", mode=mode, top_k=20, **fields))["results"]
        }
        for mode in ("vector", "text", "hybrid")
    ]
    assert by_mode[0] == by_mode[1] == by_mode[2]
    return by_mode[0]


async def test_w11_filters_find_exactly_what_they_say_by_words_as_by_vectors(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["1"], tag_ids=["t1"], metadata={"year": 2024, "lang": "de"}))
    await knowledge.index(DocumentToIndex("d2", ["2"], tag_ids=["t1", "t2"], metadata={"year": 2025, "lang": "en"}))
    later = datetime(2026, 6, 1, tzinfo=UTC)
    await knowledge.index(DocumentToIndex("d3", ["3"], name="grün.pdf", metadata={"year": 2025}, upload_date=later))
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"d1", "d2", "d3"}),
        ({"document_ids": ["d1", "d3", "no"]}, {"d1", "d3"}),
        ({"tag_ids": ["t2", "no"]}, {"d2"}),
        ({"metadata_filter": {}}, {"d1", "d2", "d3"}),
        ({"metadata_filter": {"year": 2025}}, {"d2", "d3"}),
        ({"metadata_filter": {"year": [2024, 2025.0], "lang": "de"}}, {"d1"}),
        ({"metadata_filter": {"year": "2025"}}, set()),
        ({"metadata_filter": {"document_name": "grün.pdf"}}, {"d3"}),
        ({"metadata_filter": {"tag_ids": "t1"}, "tag_ids": ["t2"]}, {"d2"}),
        ({"upload_date_from": "2026-06-01T00:00:00Z"}, {"d3"}),
        ({"upload_date_to": "2026-06-01T02:00:00+02:00"}, {"d1", "d2", "d3"}),
        ({"upload_date_to": "2026-05-31T23:59:59.999Z"}, {"d1", "d2"}),
        ({"upload_date_from": None, "metadata_filter": None, "document_ids": None}, {"d1", "d2", "d3"}),
    ]
    for fields, expected in cases:
        assert await found(searcher, knowledge, **fields) == expected, fields


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("query", {"query": ""}),
        ("query", {"query": "x" * 8001}),
        ("query", {"query": "a\0b"}),
        ("query", {"query": 1}),
        ("top_k", {"top_k": 0}),
        ("top_k", {"top_k": 21}),
        ("top_k", {"top_k": "5"}),
        ("top_k", {"top_k": True}),
        ("skip", {"skip": -1}),
        ("skip", {"skip": 1001}),
        ("skip", {"skip": 10**30}),
        ("mode", {"mode": "no"}),
        ("min_score", {"min_score": 1.1}),
        ("min_score", {"min_score": "0.5"}),
        ("document_ids", {"document_ids": []}),
        ("document_ids", {"document_ids": "d1"}),
        ("document_ids.0", {"document_ids": ["$where"]}),
        ("document_ids.0", {"document_ids": [{"$ne": None}]}),
        ("document_ids", {"document_ids": ["d"] * 101}),
        ("tag_ids.0", {"tag_ids": ["a\0b"]}),
        ("tag_ids", {"tag_ids": ["t"] * 101}),
        ("metadata_filter", {"metadata_filter": []}),
        ("metadata_filter", {"metadata_filter": {f"k{n}": 1 for n in range(51)}}),
        ("metadata_filter.$or", {"metadata_filter": {"$or": [{}, {"organization_id": "other"}]}}),
        ("metadata_filter.organization_id", {"metadata_filter": {"organization_id": "other"}}),
        ("metadata_filter.$and", {"metadata_filter": {"$and": []}}),
        ("metadata_filter.$where", {"metadata_filter": {"$where": "sleep(50) || true"}}),
        ("metadata_filter.$expr", {"metadata_filter": {"$expr": True}}),
        ("metadata_filter.$or.0.$jsonSchema", {"metadata_filter": {"$or": [{"$jsonSchema": {}}]}}),
        ("metadata_filter.year", {"metadata_filter": {"year": {"$gte": None}}}),
        ("metadata_filter.year", {"metadata_filter": {"year": {"$regex": "^(a+)+$"}}}),
        ("metadata_filter.year", {"metadata_filter": {"year": {"$gte": 2**63}}}),
        ("metadata_filter.year", {"metadata_filter": {"year": 2**63}}),
        ("metadata_filter.year", {"metadata_filter": {"year": list(range(101))}}),
        ("metadata_filter.year", {"metadata_filter": {"year": [[[[]]]]}}),
        ("metadata_filter.a\0b", {"metadata_filter": {"a\0b": 1}}),
        ("upload_date_from", {"upload_date_from": "2026-02-01T00:00:00Z", "upload_date_to": "2026-01-01T00:00:00Z"}),
        ("upload_date_from", {"upload_date_from": "2026-02-01"}),
        ("upload_date_from", {"upload_date_from": "2026-02-01T00:00:00"}),
        ("upload_date_from", {"upload_date_from": 1_700_000_000}),
        ("upload_date_from", {"upload_date_from": "1700000000"}),
        ("upload_date_to", {"upload_date_to": "0001-01-01T00:00:00+14:00"}),
        ("upload_date_to", {"upload_date_to": {"$date": "2026-01-01T00:00:00Z"}}),
        ("min_score", {"mode": "text", "min_score": 0.5}),
        ("coalesce_neighbors", {"coalesce_neighbors": -1}),
        ("coalesce_neighbors", {"coalesce_neighbors": 6}),
        ("coalesce_neighbors", {"coalesce_neighbors": True}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_tokens", {"max_tokens": 100_001}),
        ("prioritize_by", {"prioritize_by": "price", "max_tokens": 100}),
        ("organization_id", {"organization_id": "other"}),
        ("$where", {"$where": "1"}),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40],
)
async def test_a_filter_that_cannot_be_searched_is_refused_by_name(
    searcher: SearchingCaller, field: str, fields: dict[str, Any]
) -> None:
    response = await searcher.post(ANY_PATH, {"query": "x", **fields})
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["fields"]]


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": NaN}',
        b'{"query": "x", "min_score": Infinity}',
        b'{"query": "x", "metadata_filter": {"a": 1e400}}',
        b'{"query": "x", "metadata_filter": {"a": 1' + b"0" * 5000 + b"}}",
        b'{"query": "\\ud800"}',
        b'{"query": "x", "metadata_filter": {"a": "\\ud800"}}',
        b'{"query": "x", "metadata_filter": {"\\ud800": 1}}',
        b'{"query": "x", "metadata_filter": {"a": 1, "a": 2}}',
        b'{"query": "x", "metadata_filter": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"query": "x", "metadata_filter": {"a": [' + b"1," * 200_000 + b"1]}}",
        b'{"query": "\xff"}',
        b"[]",
        b"null",
        b"",
    ],
    ids=lambda body: repr(body)[:50],
)
async def test_no_body_however_hostile_is_our_fault(searcher: SearchingCaller, body: bytes) -> None:
    response = await searcher.post_bytes(ANY_PATH, body)
    assert response.status_code in {400, 415, 422}
    assert response.headers["content-type"] == "application/problem+json"


async def test_a_part_of_a_name_is_plain_text_in_any_case_and_works_within_other_conditions(
    searcher: SearchingCaller, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"d1": "Annual (Report).pdf", "d2": "ÜBERSICHT report.md", "d3": "memo.txt"}
    for document_id, name in names.items():
        await knowledge.index(DocumentToIndex(document_id, [f"text {document_id}"], name=name), searchable=False)
    for document_id, name in names.items():
        await knowledge.wait_until_found(DocumentToIndex(document_id, [f"text {document_id}"], name=name))

    async def found(**metadata_filter: Any) -> list[str]:
        answer = await searcher.search(knowledge, "text", metadata_filter=metadata_filter)
        return sorted(result["document_id"] for result in answer["results"])

    assert await found(document_name={"$contains": "REPORT"}) == ["d1", "d2"]
    assert await found(document_name={"$contains": "(report)."}) == ["d1"]
    assert await found(document_name={"$contains": "übersicht"}) == ["d2"]
    assert await found(document_name={"$contains": ".*"}) == []
    either = [{"document_name": {"$contains": "memo"}}, {"document_name": {"$contains": "annual", "$ne": "x"}}]
    assert await found(**{"$or": either}) == ["d1", "d3"]
    monkeypatch.setattr("kb_search.filters.resolve_names.MAX_DOCUMENTS", 2)
    assert await found(document_name={"$contains": "report"}) == ["d1", "d2"]
    for wrong, slug in (
        ({"document_name": {"$contains": "m"}, "$and": [{"document_name": {"$contains": "r"}}]}, "filter-too-broad"),
        ({"document_name": {"$contains": ""}}, "invalid-filter"),
        ({"color": {"$contains": "r"}}, "invalid-filter"),
    ):
        refused = await searcher.post(knowledge, {"query": "text", "metadata_filter": wrong})
        assert (refused.status_code, refused.json()["type"]) == (422, slug)
