"""A text index against brute force: whatever was changed before, and whether or not rows were forgotten meanwhile."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.search_node import text_field, text_index
from kb_local.search_node.text_definitions import parse_text_definition
from kb_local.search_node.text_index import TextIndex
from kb_local.search_node.text_query import parse_text_query
from tests.conformance.atlas_search.texts import lucene_scores

DEFINITION = parse_text_definition(
    {
        "mappings": {
            "fields": {
                "s": {"type": "string"},
                "k": {"type": "token"},
                "n": {"type": "number"},
                "l": {"type": "string"},
            }
        }
    },
    where="definition",
)
VOCABULARY = ("a", "b", "c", "dd")

Change = tuple[str, int, list[str]]
changes = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "search"]),
        st.integers(0, 6),
        st.lists(st.sampled_from(VOCABULARY), max_size=6),
    ),
    min_size=15,
    max_size=60,
)


def search(index: TextIndex, operator: dict[str, Any], **more: Any) -> dict[int, float]:
    ids, scores = index.search(parse_text_query(operator), **more).hits
    return dict(zip(ids, scores, strict=True))


def word(query: str) -> dict[str, Any]:
    return {"text": {"query": query, "path": "s"}}


def occurrences(words: Sequence[str], phrase: Sequence[str]) -> int:
    return sum(list(words[at : at + len(phrase)]) == list(phrase) for at in range(len(words)))


@given(changes, st.booleans())
def test_an_index_finds_and_scores_as_if_it_were_made_of_the_last_versions_only(
    history: list[Change], forgetful: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "FEWEST_FORGOTTEN", 2 if forgetful else 1000)
        patch.setattr(text_field, "MOST_UNSORTED", 5 if forgetful else 1000)
        index, words = TextIndex(DEFINITION), dict[int, list[str]]()
        for kind, number, text in history:
            if kind == "search":
                search(index, word("a"))
                continue
            words.pop(number, None)
            if kind == "remove":
                index.remove(number)
            else:
                words[number] = text
                index.upsert({"_id": number, "s": " ".join(text), "k": f"k{number % 3}", "n": number})
    indexed = {number: text for number, text in words.items() if text}
    for query in (["a"], ["dd", "a", "a"]):
        expected = lucene_scores(indexed, *query) if indexed else {}
        assert search(index, word(" ".join(query))) == pytest.approx(expected, rel=1e-4)
    phrase = {"phrase": {"query": "a b", "path": "s"}}
    assert set(search(index, phrase)) == {key for key, text in words.items() if occurrences(text, ["a", "b"])}
    assert set(search(index, {"equals": {"path": "k", "value": "k1"}})) == {key for key in words if key % 3 == 1}
    assert set(search(index, {"range": {"path": "n", "gt": 2, "lte": 4}})) == {key for key in words if 2 < key <= 4}
    assert set(search(index, {"exists": {"path": "s"}})) == set(words)
    assert len(index) == len(words)


@pytest.mark.parametrize("most", [0, 1, 3, 50])
def test_the_first_hits_are_the_same_however_many_are_wanted(most: int) -> None:
    index = TextIndex(DEFINITION)
    for number in range(40):
        index.upsert({"_id": number, "s": "a " * (number % 3 + 1) + "b"})
    every = index.search(parse_text_query(word("a")))
    some = index.search(parse_text_query(word("a")), most=most)
    assert list(some.hits.ids) == list(every.hits.ids)[:most]
    assert (some.matches, every.matches) == (40, 40)
    assert list(every.hits.scores) == sorted(every.hits.scores, reverse=True)


def test_rows_of_former_versions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "FEWEST_FORGOTTEN", 10)
    index = TextIndex(DEFINITION)
    for version in range(1000):
        rare = {"l": "x"} if version == 0 else {}
        index.upsert({"_id": version % 5, "s": f"common word{version}", "k": str(version), **rare})
    assert len(index._ids) <= 20
    (field, *_) = index._texts.values()
    assert len(field._vocabulary) < 50
    assert len(search(index, word("common"))) == 5
    assert search(index, {"text": {"query": "x", "path": "l"}}) == {}
    index._compact()
    phrase = {"phrase": {"query": "common word997", "path": "s"}}
    assert list(search(index, phrase)) == [2]


def test_an_identifier_may_be_any_bson_value() -> None:
    index = TextIndex(DEFINITION)
    for document_id in (None, 1, "1", {"a": 1}, True):
        index.upsert({"_id": document_id, "s": "a"})
        index.upsert({"_id": document_id, "s": "b"})
    assert index.search(parse_text_query(word("b"))).matches == 5
    assert index.search(parse_text_query(word("a"))).matches == 0


def test_a_dynamic_mapping_does_not_index_the_numbers_of_an_embedding() -> None:
    index = TextIndex(parse_text_definition({"mappings": {"dynamic": True}}, where="definition"))
    index.upsert({"_id": 1, "embedding": [0.5] * 1536, "sizes": [1, 2]})
    assert search(index, {"equals": {"path": "embedding", "value": 0.5}}) == {}
    assert search(index, {"exists": {"path": "embedding"}}) == {1: 1.0}
    assert search(index, {"equals": {"path": "sizes", "value": 2}}) == {1: 1.0}
