"""Filters of the text index are of our own making, too."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from kb_search.filters.compile_filter import Criteria, parse
from kb_search.filters.filter_errors import FilterError
from kb_search.filters.text_filter import to_operator
from kb_search.retrieval.query import SearchQuery
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


@pytest.mark.parametrize("word", ["w", "東", "é1"])
def test_a_long_query_is_cut_to_its_first_words(word: str) -> None:
    joined = " ".join([word] * 300)
    assert SearchQuery(joined).text_for_index(1).split() == [word] * 256
    assert SearchQuery(joined[:100]).text_for_index(1) == joined[:100]


def test_characters_of_scripts_without_spaces_are_words() -> None:
    assert SearchQuery("東" * 300).text_for_index(1) == "東" * 256


@pytest.mark.parametrize("character", ["\ufdfa", "\ufdfa ", "\u00bd", "\u33ae", "\u2474"])
def test_a_character_that_stands_for_several_words_counts_as_all_of_them(character: str) -> None:
    # An index takes 1,024 clauses: one for each word and path.
    words = CUSTOM["lucene.standard"].terms(SearchQuery(character * 4_000).text_for_index(2))
    assert 0 < len(words) <= 256
    assert SearchQuery(f"{character} a").text_for_index(2) == f"{character} a"
