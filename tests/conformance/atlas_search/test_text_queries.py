"""The operators and the arguments of $search."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from bson import Decimal128

from tests.conformance.atlas_search.deployment import (
    SEARCH_FAILED,
    Collection,
    Document,
    create_ready,
    create_ready_texts,
    eventually,
    found_ids,
    mappings,
    refused,
    run,
    search_ids,
    search_stage,
    vector_field,
)
from tests.conformance.atlas_search.texts import DAY, OWNERS, TICKETS

LATER = DAY + dt.timedelta(days=5)


def text(query: Any, path: Any = "text", **more: Any) -> Document:
    return {"text": {"query": query, "path": path, **more}}


def phrase(query: Any, path: Any = "text", **more: Any) -> Document:
    return {"phrase": {"query": query, "path": path, **more}}


def equals(path: str, value: Any) -> Document:
    return {"equals": {"path": path, "value": value}}


def one_of(path: Any, value: Any) -> Document:
    return {"in": {"path": path, "value": value}}


def between(path: Any, **bounds: Any) -> Document:
    return {"range": {"path": path, **bounds}}


EVERYTHING = {"exists": {"path": "text"}}

FINDS: dict[str, tuple[Document, set[int]]] = {
    "a text with one of the words": (text("lazy sugar"), {0, 2}),
    "a word whatever its case": (text("LAZY"), {0}),
    "several queries are searched together": (text(["lazy", "sugar"]), {0, 2}),
    "several paths are searched together": (text("foxes", ["text", "title"]), {1, 4}),
    "all paths that match a wildcard": (text("foxes", {"wildcard": "t*"}), {1, 4}),
    "a wildcard below a document": (text("word3", {"wildcard": "any.*"}), {3}),
    "a path given as a document": (text("lazy", {"value": "text"}), {0}),
    "the same string analyzed in another way": (text("a quick answer", {"value": "text", "multi": "exact"}), {1}),
    "another analysis has its own terms": (text("quick", {"value": "text", "multi": "exact"}), set()),
    "a text with all of the words": (text("brown fox", matchCriteria="all"), {0, 3}),
    "nothing at a path that is not indexed": (text("quick", "unmapped"), set()),
    "nothing below a document that does not name it": (text("quick", "meta.hidden"), set()),
    "a field of a document": (text("ada", "meta.author"), {2}),
    "fields of a dynamic document, arrays included": (text("word4", "any.deep.word"), {4}),
    "nothing for a query without words": (text("?!"), set()),
    "words one edit away": (text("lasy", fuzzy={"maxEdits": 1}), {0}),
    "words two edits away": (text("lxsy", fuzzy={}), {0}),
    "swapped letters are one edit": (text("lzay", fuzzy={"maxEdits": 1}), {0}),
    "no word whose beginning is edited": (text("kuick", fuzzy={"prefixLength": 1}), set()),
    "no more words than it may expand to": (text("foxe", fuzzy={"maxEdits": 1, "maxExpansions": 1}), {4}),
    "a phrase": (phrase("brown fox"), {0}),
    "no phrase in another order": (phrase("fox brown"), set()),
    "a phrase with words between": (phrase("quick fox", slop=1), {0}),
    "no phrase with more words between than slop": (phrase("jumps dog", slop=2), set()),
    "a phrase in another order costs two moves": (phrase("fox brown", slop=2), {0}),
    "a phrase of a repeated word": (phrase("quick quick quick"), {5}),
    "one of several phrases": (phrase(["lazy dog", "brown rice"]), {0, 2}),
    "a phrase across left out words": (phrase("dog barks at the brown", "english"), {3}),
    "a token": (equals("kind", "Fish"), {2, 5}),
    "a token with its case": (equals("kind", "fish"), {0, 3, 6}),
    "a lowercased token": (equals("label", "rEd"), {0, 2, 4, 6}),
    "an element of an array": (equals("tags", "u1"), {1, 4}),
    "a string that is a token too": (equals("both", "Number 3"), {3}),
    "the same string by its words": (text("3", "both"), {3}),
    "a number": (equals("n", 1), {1}),
    "a number of another type": (equals("n", 1.0), {1}),
    "a double": (equals("n", 2.5), {2}),
    "no double where only integers are indexed": (between("whole", gte=0), {1, 3, 5}),
    "a date": (equals("day", DAY), {0}),
    "a boolean": (equals("flag", True), {0, 1, 2}),
    "an ObjectId": (equals("owner", OWNERS[1]), {1, 4}),
    "a UUID": (equals("ticket", TICKETS[2]), {2, 5}),
    "null": (equals("n", None), {5}),
    "no missing field for null": (equals("title", None), set()),
    "any of several values": (one_of("kind", ["bird", "Fish"]), {1, 2, 4, 5}),
    "a single value": (one_of("kind", "bird"), {1, 4}),
    "a value at any of several paths": (one_of(["kind", "tags"], ["bird", "u2"]), {1, 2, 4, 5}),
    "numbers in a range": (between("n", gt=1, lte=4.5), {2, 3, 4}),
    "dates in a range": (between("day", gte=LATER), {5, 6}),
    "tokens in a range": (between("kind", gte="b", lt="c"), {1, 4}),
    "a range at any of several paths": (between(["n", "whole"], gte=5), {5, 6}),
    "documents with a field": ({"exists": {"path": "title"}}, {1, 4}),
    "documents with a field below a document": ({"exists": {"path": "meta.author"}}, set(range(7))),
    "no documents for a field that is not indexed": ({"exists": {"path": "unmapped"}}, set()),
    "all of must and filter, none of mustNot": (
        {
            "compound": {
                "must": [text("brown fox dog")],
                "filter": [equals("flag", True)],
                "mustNot": [text("sugar")],
            }
        },
        {0},
    ),
    "a clause that is not in a list": ({"compound": {"must": text("lazy")}}, {0}),
    "everything that none of mustNot matches": ({"compound": {"mustNot": [between("n", gte=2)]}}, {0, 1, 5}),
    "one of should when nothing must match": ({"compound": {"should": [text("lazy"), text("sugar")]}}, {0, 2}),
    "what should does not match when something must": (
        {"compound": {"must": [text("brown")], "should": [text("lazy")]}},
        {0, 2, 3},
    ),
    "as many of should as asked": (
        {"compound": {"should": [text("quick"), text("brown"), text("fox")], "minimumShouldMatch": 2}},
        {0, 3},
    ),
    "compounds in compounds": (
        {"compound": {"filter": [{"compound": {"should": [equals("kind", "bird"), equals("n", 0.5)]}}]}},
        {0, 1, 4},
    ),
}


@pytest.mark.parametrize("what", FINDS)
async def test_a_search_finds(texts: Collection, what: str) -> None:
    operator, expected = FINDS[what]
    assert set(await search_ids(texts, operator)) == expected


REFUSED: dict[str, tuple[Document, str]] = {
    "no operator": ({}, "Query should contain either an operator"),
    "two operators": ({**text("a"), **phrase("a")}, "may be present"),
    "an unknown operator": ({"like": {"path": "text"}}, "Query should contain either an operator"),
    "an unknown argument": ({**text("a"), "surprise": 1}, 'unrecognized field "surprise"'),
    "an unknown argument of an operator": (text("a", surprise=1), '"text" unrecognized field "surprise"'),
    "no query": ({"text": {"path": "text"}}, '"text.query" is required'),
    "an empty query": (text(""), '"text.query" cannot be empty'),
    "an empty list of queries": (text([]), '"text.query" cannot be empty'),
    "an empty query in a list": (text(["a", ""]), '"text.query[1]" cannot be empty'),
    "a query that is no string": (text(1), '"text.query" must be a string'),
    "no path": ({"text": {"query": "a"}}, '"text.path" is required'),
    "a path that is no string": (text("a", 1), '"text.path" must be a document or string'),
    "a wildcard without a star": (text("a", {"wildcard": "text"}), 'must contain a "*"'),
    "a wildcard with two stars in a row": (text("a", {"wildcard": "**"}), "cannot contain more than 1"),
    "a wildcard with multi": (text("a", {"wildcard": "*", "multi": "exact"}), "multi cannot be defined along with"),
    "too many edits": (text("a", fuzzy={"maxEdits": 3}), '"text.fuzzy.maxEdits" must be either 1 or 2'),
    "too many expansions": (text("a", fuzzy={"maxExpansions": 1001}), "must be within bounds"),
    "a negative prefix": (text("a", fuzzy={"prefixLength": -1}), '"text.fuzzy.prefixLength"'),
    "another matchCriteria": (text("a", matchCriteria="some"), '"text.matchCriteria" must be one of [all, any]'),
    "a negative slop": (phrase("a", slop=-1), '"phrase.slop"'),
    "no value": ({"equals": {"path": "kind"}}, '"equals.value" is required'),
    "a document as value": (equals("kind", {"a": 1}), '"equals.value"'),
    "a decimal as value": (equals("n", Decimal128(Decimal(1))), '"equals.value"'),
    "values of several types": (one_of("kind", ["a", 1]), "must have elements of the same type"),
    "no values": (one_of("kind", []), '"in.value" cannot be empty'),
    "a wildcard where values are compared": (one_of({"wildcard": "*"}, 1), '"in.path.value" is required'),
    "a string that is not a token": (equals("text", "a quick answer"), "Path 'text' needs to be indexed as token"),
    "strings where one is not a token": (one_of("text", ["a", "b"]), "Path 'text' needs to be indexed as token"),
    "a range of strings that are not tokens": (between("n", gte="0"), "Path 'n' needs to be indexed as token"),
    "bounds the wrong way round": (between("n", gt=3, lt=1), "gt/gte must not be greater than lt/lte"),
    "equal bounds that exclude their value": (between("n", gt=3, lte=3), "must both be inclusive if they are equal"),
    "more words than Lucene takes": (
        text(" ".join(f"w{number}" for number in range(1_025))),
        "maxClauseCount is set to 1024",
    ),
    "too many words over all paths": (
        text(" ".join(f"w{number}" for number in range(513)), ["text", "title"]),
        "maxClauseCount is set to 1024",
    ),
    "too many equal words": (text("w " * 1_025), "maxClauseCount is set to 1024"),
    "no bounds": (between("n"), "must specify at least one of [lt, lte, gt, gte]"),
    "two lower bounds": (between("n", gt=1, gte=1), "at most one of [gt, gte] may be present"),
    "bounds of two types": (between("n", gt=1, lt="a"), "bounds must be of the same type"),
    "a boolean as bound": (between("flag", gt=False), "range operator does not support BOOLEAN point type"),
    "an empty compound": ({"compound": {}}, "must be present"),
    "a compound of empty lists": ({"compound": {"must": []}}, "must have at least one clause"),
    "more than all of should": (
        {"compound": {"should": [text("a")], "minimumShouldMatch": 2}},
        "minimumShouldMatch cannot be greater than number of should clauses",
    ),
    "minimumShouldMatch without should": (
        {"compound": {"must": [text("a")], "minimumShouldMatch": 1}},
        "should clause must not be empty when using minimumShouldMatch",
    ),
    "an error deep inside": (
        {"compound": {"must": [{"compound": {"should": [text("a"), text("")]}}]}},
        '"compound.must[0].compound.should[1].text.query" cannot be empty',
    ),
    "two kinds of score": (text("a", score={"boost": {"value": 2}, "constant": {"value": 1}}), "may be present"),
    "a boost without a value": (text("a", score={"boost": {}}), "boost"),
    "another way to count": ({**text("a"), "count": {"type": "exact"}}, '"count.type" must be one of'),
    "sorting by what is not indexed": ({**text("a"), "sort": {"unmapped": 1}}, "unmapped is not indexed as sortable"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_query_is_refused_that_has(texts: Collection, what: str) -> None:
    operator, complaint = REFUSED[what]
    with refused(SEARCH_FAILED, complaint):
        await search_ids(texts, operator)


async def test_a_missing_or_misspelt_text_index_finds_nothing_and_is_no_error(texts: Collection) -> None:
    assert await search_ids(texts, text("quick"), index="txets") == []
    assert await search_ids(texts.database["missing"], text("quick")) == []


async def test_an_index_named_default_needs_no_name(things: Collection) -> None:
    await things.insert_one({"_id": 1, "text": "found"})
    await create_ready_texts(things, mappings(dynamic=True), "default")

    async def found() -> bool:
        return [hit["_id"] for hit in await run(things, {"$search": text("found")})] == [1]

    await eventually(found)


async def test_each_kind_of_search_refuses_the_index_of_the_other(things: Collection) -> None:
    await create_ready(things, vector_field(), name="vectors")
    await create_ready_texts(things, mappings(dynamic=True))
    with refused(SEARCH_FAILED, "Cannot execute $search over vectorSearch index 'vectors'"):
        await search_ids(things, text("a"), index="vectors")
    with refused(SEARCH_FAILED, 'embedding must be indexed as "vector".'):
        await found_ids(things, [1.0, 0.0, 0.0, 0.0], index="texts")


async def test_a_dynamic_mapping_indexes_values_by_their_types(things: Collection) -> None:
    values: Document = {"s": "some words", "n": 3, "d": DAY, "b": True, "o": OWNERS[1], "u": TICKETS[1], "a": ["x", 7]}
    await things.insert_one({"_id": 1, **values, "deep": values})
    await create_ready_texts(things, mappings(dynamic=True))
    asked = [text("words", "s"), equals("n", 3), equals("d", DAY), equals("b", True), equals("o", OWNERS[1])]
    asked += [equals("u", TICKETS[1]), text("x", "a"), equals("a", 7), text("words", "deep.s"), equals("deep.n", 3)]

    async def all_found() -> bool:
        return all([await search_ids(things, operator) == [1] for operator in asked])

    await eventually(all_found)
    with refused(SEARCH_FAILED, "Path 's' needs to be indexed as token"):
        await search_ids(things, equals("s", "some words"))


async def test_a_mapping_of_a_named_field_goes_before_the_dynamic_mapping(things: Collection) -> None:
    await things.insert_one({"_id": 1, "kind": "two words", "other": "two words"})
    await create_ready_texts(things, mappings({"kind": {"type": "token"}}, dynamic=True))

    async def found() -> bool:
        return await search_ids(things, text("words", "other")) == [1]

    await eventually(found)
    assert await search_ids(things, text("words", "kind")) == []
    assert await search_ids(things, equals("kind", "two words")) == [1]


async def test_ignore_above_is_accepted_and_changes_nothing(things: Collection) -> None:
    await things.insert_many([{"_id": 1, "s": "short"}, {"_id": 2, "s": "a short one"}])
    await create_ready_texts(things, mappings({"s": {"type": "string", "ignoreAbove": 5}}))

    async def found() -> bool:
        return sorted(await search_ids(things, text("short", "s"))) == [1, 2]

    await eventually(found)


async def test_as_many_clauses_as_lucene_takes_are_answered(texts: Collection) -> None:
    most = " ".join(f"w{number}" for number in range(511))
    assert await search_ids(texts, text(f"{most} lazy", ["text", "title"])) == [0]
    assert await search_ids(texts, text("lazy " * 1_024, ["text", "title"])) == [0]


async def test_changes_of_documents_reach_the_text_index(things: Collection) -> None:
    await create_ready_texts(things, mappings({"s": {"type": "string"}, "t": {"type": "token"}}))
    await things.insert_many([{"_id": number, "s": "before", "t": "before"} for number in range(5)])
    await things.update_one({"_id": 0}, {"$set": {"s": "after"}})
    await things.replace_one({"_id": 1}, {"s": "after", "t": "after"})
    await things.delete_one({"_id": 2})
    await things.update_one({"_id": 3}, {"$unset": {"s": ""}})

    async def settled() -> bool:
        return [
            set(await search_ids(things, operator))
            for operator in (text("before", "s"), text("after", "s"), equals("t", "before"), equals("t", "after"))
        ] == [{4}, {0, 1}, {0, 3, 4}, {1}]

    await eventually(settled)


async def test_documents_that_are_gone_are_left_out_of_text_hits_even_before_the_index_knows(
    things: Collection,
) -> None:
    await things.insert_many([{"_id": number, "s": "word"} for number in range(3)])
    await create_ready_texts(things, mappings({"s": {"type": "string"}}))
    await things.delete_one({"_id": 0})
    assert 0 not in await search_ids(things, text("word", "s"))


SORTS: dict[str, tuple[Document, Callable[[Document], Any]]] = {
    "by a number": ({"n": 1}, lambda one: (one["n"] is not None, one["n"])),
    "by a date, the last first": ({"day": -1}, lambda one: -one["_id"]),
    "by a token and then another": ({"kind": 1, "day": -1}, lambda one: (one["kind"], -one["_id"])),
    "by a boolean": ({"flag": 1, "day": 1}, lambda one: (one["flag"], one["_id"])),
    "by an array's least": ({"tags": 1, "day": 1}, lambda one: (min(one["tags"]), one["_id"])),
}


@pytest.mark.parametrize("how", SORTS)
async def test_hits_can_be_sorted(texts: Collection, how: str) -> None:
    sort, order = SORTS[how]
    hits = await run(texts, search_stage(EVERYTHING, sort=sort))
    assert [hit["_id"] for hit in hits] == [one["_id"] for one in sorted(hits, key=order)]


async def test_hits_can_be_sorted_by_their_score_the_worst_first(texts: Collection) -> None:
    best_first = await search_ids(texts, text("quick brown fox"))
    worst_first = await search_ids(texts, text("quick brown fox"), sort={"score": {"$meta": "searchScore", "order": 1}})
    assert worst_first == best_first[::-1]
