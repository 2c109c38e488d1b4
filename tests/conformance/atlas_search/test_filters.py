"""The filter of $vectorSearch."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from bson import Decimal128

from tests.conformance.atlas_search.deployment import SEARCH_FAILED, Document, found_ids, refused
from tests.conformance.atlas_search.library import DAY, OWNERS, TOKENS, Library

LATER = DAY + dt.timedelta(days=30)

ACCEPTED: dict[str, tuple[Document, Callable[[Document], bool]]] = {
    "the short form is equality": ({"kind": "fish"}, lambda one: one["kind"] == "fish"),
    "equality minds case": ({"kind": {"$eq": "Fish"}}, lambda one: one["kind"] == "Fish"),
    "an empty string is a value": ({"kind": ""}, lambda one: one["kind"] == ""),
    "an array stands for its elements": ({"tags": "t1"}, lambda one: "t1" in one["tags"]),
    "two conditions on an array are met by any elements": (
        {"$and": [{"tags": "t1"}, {"tags": "u2"}]},
        lambda one: {"t1", "u2"} <= set(one["tags"]),
    ),
    "a number equals its other types": ({"n": 7.0}, lambda one: one["n"] == 7),
    "a date": ({"day": {"$gte": LATER}}, lambda one: one["day"] >= LATER),
    "a boolean is not a number": ({"n": True}, lambda _: False),
    "a boolean": ({"flag": False}, lambda one: not one["flag"]),
    "an ObjectId": ({"owner": OWNERS[1]}, lambda one: one["owner"] == OWNERS[1]),
    "a UUID": ({"token": TOKENS[2]}, lambda one: one["token"] == TOKENS[2]),
    "a dotted path": ({"nested.level": {"$lt": 2}}, lambda one: one["nested"]["level"] < 2),
    "a range with both ends": ({"price": {"$gt": 2, "$lte": 5.25}}, lambda one: 2 < one["price"] <= 5.25),
    "strings are ordered": ({"kind": {"$gt": "a"}}, lambda one: one["kind"] > "a"),
    "a range compares within a type only": ({"kind": {"$gt": 1}}, lambda _: False),
    "$ne": ({"kind": {"$ne": "fish"}}, lambda one: one["kind"] != "fish"),
    "$in": ({"n": {"$in": [1, 5, 99]}}, lambda one: one["n"] in (1, 5)),
    "$nin": ({"tags": {"$nin": ["t0", "t1"]}}, lambda one: "t2" in one["tags"]),
    "null is found where a field is null, not where it is missing": (
        {"maybe": None},
        lambda one: one.get("maybe", 0) is None,
    ),
    "$ne null": ({"maybe": {"$ne": None}}, lambda one: one.get("maybe", 0) is not None),
    "$exists": ({"maybe": {"$exists": True}}, lambda one: "maybe" in one),
    "$exists false": ({"maybe": {"$exists": False}}, lambda one: "maybe" not in one),
    "$not": ({"n": {"$not": {"$gte": 10}}}, lambda one: not one["n"] >= 10),
    "$and": ({"$and": [{"n": {"$gt": 10}}, {"flag": True}]}, lambda one: one["n"] > 10 and one["flag"]),
    "$or": ({"$or": [{"n": 3}, {"kind": "bird"}]}, lambda one: one["n"] == 3 or one["kind"] == "bird"),
    "$nor": ({"$nor": [{"n": 3}, {"kind": "bird"}]}, lambda one: one["n"] != 3 and one["kind"] != "bird"),
    "conditions side by side are all met": (
        {"kind": "fish", "flag": True, "n": {"$lt": 9}},
        lambda one: one["n"] in (0, 4, 8),
    ),
    "nothing": ({"kind": "whale"}, lambda _: False),
}

REFUSED: dict[str, tuple[Any, str]] = {
    "a path that is not declared": ({"unindexed": 1}, "Path 'unindexed' needs to be indexed as filter"),
    "an undeclared path in a branch": (
        {"$or": [{"n": 1}, {"unindexed": {"$gt": 1}}]},
        "Path 'unindexed' needs to be indexed as filter",
    ),
    "an unknown operator": ({"kind": {"$regex": "f"}}, "must be present"),
    "$elemMatch": ({"tags": {"$elemMatch": {"$eq": "t1"}}}, "must be present"),
    "$expr": ({"$expr": {"$eq": ["$n", 1]}}, "$expr"),
    "an empty $in": ({"n": {"$in": []}}, '"filter.n.$in" cannot be empty'),
    "an empty $and": ({"$and": []}, "cannot be empty"),
    "mixed types in $in": ({"n": {"$in": [1, "1"]}}, "same type"),
    "a document as value": (
        {"nested": {"level": 1}},
        "must be a boolean, objectId, number, string, date, uuid, or null",
    ),
    "a decimal as value": (
        {"n": Decimal128(Decimal(1))},
        "must be a boolean, objectId, number, string, date, uuid, or null",
    ),
    "an array as value": ({"tags": ["t1"]}, "must be a boolean, objectId, number, string, date, uuid, or null"),
    "a filter that is no document": ([{"n": 1}], "filter must be a document"),
}


@pytest.mark.parametrize("rule", ACCEPTED)
async def test_a_filter_narrows_the_search_to_what_matches(library: Library, rule: str) -> None:
    source, wanted = ACCEPTED[rule]
    assert await found_ids(library.collection, library.query, filter=source) == library.ids(wanted)


@pytest.mark.parametrize("rule", REFUSED)
async def test_a_filter_that_breaks_a_rule_is_refused(library: Library, rule: str) -> None:
    source, text = REFUSED[rule]
    with refused(SEARCH_FAILED, text):
        await found_ids(library.collection, library.query, filter=source)


async def test_a_filter_does_not_change_scores_and_is_applied_before_the_limit(library: Library) -> None:
    birds = await found_ids(library.collection, library.query, filter={"kind": "bird"}, limit=3)
    assert birds == library.ids(lambda one: one["kind"] == "bird")[:3]
