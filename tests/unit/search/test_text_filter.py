"""Filters of the text index are of our own making, too."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_local.search_node.text_definitions import parse_text_definition
from kb_local.search_node.text_index import TextIndex
from kb_local.search_node.text_query import parse_text_query
from kb_search.filters.compile_filter import Criteria, parse
from kb_search.filters.filter_clauses import (
    AnyHolds,
    AnyOf,
    Clause,
    MetadataCompared,
    NameCompared,
    NoneOf,
    Uploaded,
)
from kb_search.filters.filter_errors import FilterError
from kb_search.filters.text_filter import to_operator
from kb_search.retrieval.query import SearchQuery
from kb_shared.mongo.chunk_indexes import build_text_index
from kb_shared.mongo.index_queries import count_clauses, full_text_search_stage
from kb_shared.mongo.vectors import Chunks
from kb_shared.text.text_normalization import AS_WRITTEN, FOLDED, SPELLED
from tests.unit.search.test_filters import hostile_filters, resolved
from tests.unit.search_node.test_custom_analyzers import CUSTOM

KEYS = {
    *("compound", "filter", "must", "mustNot", "should", "minimumShouldMatch", "in", "range", "exists"),
    *("path", "value", "gt", "gte", "lt", "lte"),
}
PATHS = {"document_id", "document_name", "tag_ids", "metadata_pairs", "upload_date", "kb_id"}


def parts(operator: Any) -> Iterator[tuple[str, Any]]:
    match operator:
        case dict():
            for key, value in operator.items():
                yield key, value
                yield from parts(value)
        case list():
            for value in operator:
                yield from parts(value)


@given(hostile_filters)
def test_whatever_is_sent_becomes_known_operators_on_known_paths(metadata_filter: dict[str, Any]) -> None:
    try:
        clauses = resolved(Criteria(metadata_filter=metadata_filter))
    except FilterError:
        return
    for clause in clauses:
        for key, value in parts(to_operator(clause)):
            assert key in KEYS
            if key == "path":
                assert value in PATHS or value.startswith("metadata_snapshot.")


def operators(**criteria: Any) -> list[Any]:
    return [to_operator(clause) for clause in parse(Criteria(**criteria))]


def test_each_clause_has_an_operator_that_means_the_same() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    positive = {"in": {"path": "tag_ids", "value": ["a"]}}
    assert operators(tag_ids=["a"]) == [positive]
    assert operators(upload_date_from=day) == [{"range": {"path": "upload_date", "gte": day}}]
    assert operators(metadata_filter={"year": {"$gt": 1}}) == [{"range": {"path": "metadata_snapshot.year", "gt": 1}}]
    [negative] = operators(metadata_filter={"tag_ids": {"$ne": "a"}})
    # All negative, it would find nothing.
    assert negative == {"compound": {"filter": [{"exists": {"path": "kb_id"}}], "mustNot": [positive]}}
    [either] = operators(metadata_filter={"$or": [{"tag_ids": "a"}, {"document_name": "b"}]})
    assert either["compound"]["minimumShouldMatch"] == 1
    assert len(either["compound"]["should"]) == 2


def words(query: str, normalization: int = FOLDED, filters: Sequence[dict[str, Any]] = ()) -> str:
    return SearchQuery(query).words_for_index(normalization, filters).text


@pytest.mark.parametrize("word", ["w", "東", "é1", "🚲", "©", "\u3007", "豈", "𠀋"])
def test_a_long_query_is_cut_to_its_first_words(word: str) -> None:
    joined = " ".join([word] * 300)
    assert words(joined, AS_WRITTEN).split() == [word] * 256
    assert words(joined[:98], AS_WRITTEN) == joined[:98]


@pytest.mark.parametrize("character", ["東", "🚲", "\u3007", "ひ", "\u3021"])
def test_characters_that_are_words_need_no_space_between_them(character: str) -> None:
    assert words(character * 300, AS_WRITTEN) == character * 256


@pytest.mark.parametrize("character", ["\ufdfa", "\ufdfa ", "\u00bd", "\u33ae", "\u2474"])
def test_a_character_that_stands_for_several_words_counts_as_all_of_them(character: str) -> None:
    terms = CUSTOM["lucene.standard"].terms(words(character * 4_000))
    assert 0 < len(terms) <= 256
    assert words(f"{character} b") == f"{character} b"


MANY = [to_operator(MetadataCompared(f"k{number}", "$gt", number, "f")) for number in range(50)]


def test_a_filter_leaves_room_for_fewer_words() -> None:
    query = " ".join(f"w{number}" for number in range(500))
    assert count_clauses(MANY) == 300
    assert len(words(query, FOLDED, MANY).split()) == (1_024 - 300 - 2) // 3
    assert len(words(query, SPELLED, MANY).split()) < (1_024 - 300 - 2) // 4


@pytest.mark.parametrize(
    ("clause", "count"),
    [
        (AnyOf("tag_ids", ("a", "b")), 1),
        (NoneOf("tag_ids", ("a", "b")), 2),
        (NameCompared("$gt", "a"), 2),
        (MetadataCompared("k", "$gt", 1.5, "f"), 6),
        (MetadataCompared("k", "$lte", "x", "f"), 2),
        (MetadataCompared("k", "$ne", 1, "f"), 2),
        (Uploaded(datetime(2026, 1, 1, tzinfo=UTC), None), 3),
        (AnyHolds((AnyOf("tag_ids", ("a",)), NameCompared("$lt", "b"))), 3),
    ],
)
def test_the_clauses_of_a_filter_are_counted_as_lucene_makes_them(clause: Clause, count: int) -> None:
    assert count_clauses([to_operator(clause)]) == count


LEAVES = st.one_of(
    st.just(AnyOf("tag_ids", ("a",))),
    st.just(NoneOf("tag_ids", ("a",))),
    st.builds(MetadataCompared, st.just("k"), st.just("$gt"), st.sampled_from([1, 1.5, "x"]), st.just("f")),
)


@settings(deadline=None)
@given(
    st.text(max_size=1_500),
    st.sampled_from([AS_WRITTEN, FOLDED, SPELLED]),
    st.lists(LEAVES, max_size=50),
    st.integers(1, 2_000),
)
def test_no_query_has_more_clauses_than_the_index_takes(
    text: str, normalization: int, clauses: list[Clause], repeats: int
) -> None:
    query = SearchQuery((text * repeats)[:8_000] or "w")
    filters = [to_operator(clause) for clause in clauses]
    sent = query.words_for_index(normalization, filters)
    chunks = Chunks(None, "o", "k")  # type: ignore[arg-type]  # no command is sent
    stage = full_text_search_stage(chunks, sent, filters)
    definition = build_text_index("lucene.standard", ["k"], text_normalization=normalization)
    index = TextIndex(parse_text_definition(definition.document["definition"], where="d"))
    paths = {"chunk_text": "w", "heading_path": ["w"], "embedding_text": "w", "spellings": "w"}
    index.upsert({"_id": 1, "organization_id": "o", "kb_id": "k", **paths})
    index.search(parse_text_query(stage["$search"]))
