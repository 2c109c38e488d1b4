"""What callers send as filters, honest or hostile, and what it becomes."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
import pytest
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st

from kb_contracts.api.filter_keys import INSTEAD
from kb_contracts.api.metadata_filter import MAX_CLAUSES, MAX_VALUES, MetadataFilter
from kb_search.filters.compile_filter import Criteria, compile_filter, parse
from kb_search.filters.filter_clauses import Clause
from kb_search.filters.filter_errors import FilterBuilding, FilterError
from kb_search.filters.metadata_filter import OPERATORS
from kb_search.filters.resolve_names import replace_names
from kb_shared.text.metadata_pairs import metadata_pair, metadata_pairs
from tests.reference_filter import ORDERS, ReferenceDocument, matches_filter

FILTERABLE = ("year", "lang")
PATHS = {
    *("document_id", "document_name", "tag_ids", "metadata_pairs", "upload_date"),
    *(f"metadata_snapshot.{key}" for key in FILTERABLE),
}
COMPILED_OPERATORS = {"$and", "$or", "$in", "$nin", "$ne", "$gt", "$gte", "$lt", "$lte"}

HOSTILE_KEYS = [
    *("", "$", "$$ROOT", "$where", "$expr", "$function", "$or", "$and", "$nor", "$comment", "$jsonSchema", "$text"),
    *("$not", "$accumulator", "$geoWithin", "$lookup", "$regex", "$eq", "$in", "$AND", "$or ", "\uff04and"),
    *("a.$b", "a\0b", "a b", "\uff04where", "\ufeffname", "na\u200bme", "\ud800", "x" * 65, "name\n", "naïve", "a/b"),
    *("a..b", ".a", "a.", ".", "..", "__proto__", "constructor", "prototype", "a.__proto__", "constructor.name"),
    *INSTEAD,
    *("metadata_snapshot.organization_id", "embedding.x", "_id.x"),
]
HOSTILE_VALUES: list[Any] = [
    *(None, {}, [], float("nan"), float("inf"), -float("inf"), 2**63, -(2**63) - 1, 10**400, "\ud800", "a\0b"),
    *({"$where": "1"}, {"$ne": None}, {"$regex": "^(a+)+$"}, {"$oid": "0" * 24}, {"$date": "2026-01-01"}),
    *(
        {"$date": 1},
        {"$date": None},
        {"$date": {"$date": "x"}},
        {"$date": "2026-01-01T00:00:00Z", "$gt": 1},
        {"$date": []},
    ),
    *([{"$date": "2026-01-01T00:00:00"}], {"$gt": {"$date": "\ud800"}}, {"$in": [{"$date": 0}]}),
    *({"$gt": 1}, {"$in": [{"a": 1}]}, {"$not": {}}, {"a": 1}, [[1]], [None], [{"$gt": 1}], [1, "\ud800"]),
    *({"$eq": [1]}, {"$eq": {"$eq": 1}}, {"$in": 1}, {"$in": []}, {"$nin": "x"}, {"$nin": []}, {"$gte": None}),
    *({"$eq": 1, "$where": "1"}, {"$gt": True}, {"$lt": float("nan")}, {"$lte": [1]}, {"$in": [[1]]}, {"$EQ": 1}),
    *({"$and": [1]}, {"$or": [{"a": 1}]}, {"$in": ["x"] * (MAX_VALUES + 1)}, {"$numberLong": "1"}, {"$code": "1"}),
    *("x" * 8193, ["x"] * (MAX_VALUES + 1), [1.0] * 100_000),
]

hostile_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(HOSTILE_VALUES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(HOSTILE_KEYS) | st.text(), inner),
    max_leaves=12,
)
hostile_filters = st.dictionaries(
    st.sampled_from([*HOSTILE_KEYS, "document_name", "tag_ids", "color", "year", "a.b"]) | st.text(),
    hostile_json | st.dictionaries(st.sampled_from(OPERATORS), hostile_json, max_size=2),
    max_size=6,
)


def keys_of(document: Any) -> Iterator[str]:
    match document:
        case dict():
            for key, value in document.items():
                yield key
                yield from keys_of(value)
        case list():
            for value in document:
                yield from keys_of(value)


def compiled(metadata_filter: dict[str, Any]) -> dict[str, Any]:
    return compiled_criteria(Criteria(metadata_filter=metadata_filter))


def compiled_criteria(criteria: Criteria) -> dict[str, Any]:
    return compile_filter(resolved(criteria), filterable_metadata=FILTERABLE)


def resolved(criteria: Criteria) -> list[Clause]:
    """Return the clauses as if each part of a name were in the name of one document."""
    return replace_names(parse(criteria), defaultdict(lambda: ("d1",)))


@given(hostile_filters)
@example({"$or": [{}, {"organization_id": "B"}]})
@example({"$and": [{"$or": [{"year": {"$gt": 1, "$ne": 5}}]}], "$or": [{"color": {"$in": ["red"]}}]})
def test_whatever_is_sent_becomes_allowed_keys_or_a_filter_error(metadata_filter: dict[str, Any]) -> None:
    try:
        document = compiled(metadata_filter)
    except FilterError as error:
        json.dumps(error.extra, ensure_ascii=False).encode()
        return
    assert set(keys_of(document)) <= PATHS | COMPILED_OPERATORS


@given(hostile_filters)
def test_a_refusal_never_repeats_a_value(metadata_filter: dict[str, Any]) -> None:
    canary = "canary-value"
    with pytest.raises(FilterError) as refused:
        compiled({**metadata_filter, "color": ["fine", {"$gt": canary}, canary]})
    assert canary not in str(refused.value) + json.dumps(refused.value.extra)


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_a_key_that_is_no_metadata_key_is_refused_by_name(key: str) -> None:
    with pytest.raises(FilterError) as refused:
        compiled({key: "x"})
    shown = key[:64].encode(errors="backslashreplace").decode()
    assert refused.value.field == f"metadata_filter.{shown}"


@pytest.mark.parametrize("key", ["a.b", "a.b-c.d_e", "-", "_", "0", "proto", "constructors", "x" * 64])
def test_a_metadata_key_may_have_dots_between_its_parts(key: str) -> None:
    assert compiled({key: "x"}) == compiled({key: {"$eq": "x"}})
    assert metadata_pair(key, "x") in json.dumps(compiled({key: "x"}))


@pytest.mark.parametrize(
    "operator",
    [
        *("$where", "$expr", "$function", "$accumulator", "$regex", "$options", "$not", "$nor", "$and", "$or"),
        *("$jsonSchema", "$comment", "$text", "$geoWithin", "$near", "$lookup", "$elemMatch", "$exists", "$type"),
        *(
            "$mod",
            "$all",
            "$size",
            "$numberLong",
            "$code",
            "$oid",
            "$ref",
            "$binary",
            "eq",
            "$",
            "",
            "\uff04eq",
            "$eq ",
        ),
    ],
)
def test_an_operator_that_is_not_known_is_refused_by_the_name_of_its_key(operator: str) -> None:
    values: list[Any] = [1, "x", {}, []]
    for value in values:
        with pytest.raises(FilterError) as refused:
            compiled({"$or": [{"lang": "de"}, {"year": {"$gt": 1, operator: value}}]})
        assert (refused.value.field, refused.value.status) == ("metadata_filter.$or.1.year", 422)


def test_a_time_is_a_time_and_its_text_is_a_text() -> None:
    said, same = "2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00"
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    [clause] = parse(Criteria(metadata_filter={"read": {"$date": said}}))
    assert clause == parse(Criteria(metadata_filter={"read": {"$eq": {"$date": same}}}))[0]
    assert compiled({"read": {"$date": said}}) == {
        "$and": [{"metadata_pairs": {"$in": list(metadata_pairs({"read": moment}))}}]
    }
    assert compiled({"read": {"$date": said}}) != compiled({"read": said})
    assert compiled({"year": {"$lt": {"$date": said}}}) == {"$and": [{"metadata_snapshot.year": {"$lt": moment}}]}


def test_a_key_whose_index_is_being_built_is_for_later() -> None:
    clauses = parse(Criteria(metadata_filter={"$or": [{"lang": "de"}, {"year": {"$gt": 1}}]}))
    with pytest.raises(FilterBuilding) as refused:
        compile_filter(clauses, filterable_metadata=FILTERABLE, being_built=["year"])
    assert (refused.value.status, refused.value.slug) == (409, "filter-building")
    assert "metadata_filter.$or.1.year" in repr(refused.value.extra["fields"])
    assert compile_filter(clauses, filterable_metadata=FILTERABLE, being_built=["lang"])


@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_that_no_metadata_can_equal_is_refused_by_the_name_of_its_key(value: Any) -> None:
    with pytest.raises(FilterError) as refused:
        compiled({"color": value})
    assert refused.value.field == "metadata_filter.color"


@pytest.mark.parametrize(
    "condition", [{"$ne": 1}, {"$nin": ["a", 1]}, {"$gt": 1}, {"$gte": 1}, {"$lt": "x"}, {"$eq": 1, "$lte": 1}]
)
def test_a_comparison_of_a_key_without_a_filter_path_is_refused_by_name(condition: Any) -> None:
    with pytest.raises(FilterError, match="filterable_metadata") as refused:
        compiled({"$or": [{"lang": "de"}, {"color": condition}]})
    assert (refused.value.slug, refused.value.status) == ("not-filterable", 422)
    assert (refused.value.field, refused.value.reason) == ("metadata_filter.$or.1.color", "operator")
    assert compiled({"year": condition})


@pytest.mark.parametrize(
    "hostile",
    [
        *([], [{}], {}, "x", None, [1], [None], [[{"lang": "de"}]], [{"lang": "de"}, {}]),
        *([{"$where": "1"}], [{"organization_id": "B"}], [{"lang": {"$regex": "^(a+)+$"}}], [{"$or": []}]),
    ],
)
@pytest.mark.parametrize("combination", ["$and", "$or"])
def test_combinations_hold_filters_only(combination: str, hostile: Any) -> None:
    with pytest.raises(FilterError) as refused:
        compiled({combination: hostile})
    assert refused.value.field.startswith(f"metadata_filter.{combination}")


def test_combinations_are_nested_three_deep_and_no_deeper() -> None:
    nested: dict[str, Any] = {"lang": "de"}
    for combination in ("$or", "$and", "$or"):
        nested = {combination: [nested]}
    assert compiled(nested)
    with pytest.raises(FilterError, match="at most 3 deep"):
        compiled({"$and": [nested]})


def test_tags_have_no_order() -> None:
    with pytest.raises(FilterError, match="no order") as refused:
        compiled({"tag_ids": {"$gt": "a"}})
    assert refused.value.field == "metadata_filter.tag_ids"


@pytest.mark.parametrize("key", ["document_name", "tag_ids"])
@pytest.mark.parametrize("value", [1, True, 1.5, ["a", 1], {"$ne": 1}, {"$nin": ["a", True]}])
def test_names_and_tags_equal_strings_only(key: str, value: Any) -> None:
    with pytest.raises(FilterError, match="must be a text"):
        compiled({key: value})


def test_filters_that_are_too_large_are_refused() -> None:
    with pytest.raises(FilterError, match="50 keys"):
        compiled({f"k{i}": 1 for i in range(MAX_CLAUSES + 1)})
    with pytest.raises(FilterError, match="100 values in all"):
        compiled({"a": list(range(MAX_VALUES)), "b": 1})
    with pytest.raises(FilterError, match="50 keys"):
        compiled({"$or": [{"year": {"$gt": n, "$lt": n}} for n in range(MAX_CLAUSES // 2)] + [{"lang": "de"}]})
    with pytest.raises(FilterError, match="100 values in all"):
        compiled({"$or": [{"year": {"$nin": list(range(60))}}, {"color": list(range(60))}]})


def test_a_period_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(FilterError) as refused:
        parse(
            Criteria(upload_date_from=datetime(2026, 2, 1, tzinfo=UTC), upload_date_to=datetime(2026, 1, 1, tzinfo=UTC))
        )
    assert refused.value.field == "upload_date_from"


def test_no_criteria_are_no_filter() -> None:
    assert compiled_criteria(Criteria()) == {}
    assert compiled_criteria(Criteria(metadata_filter={})) == {}


def test_all_criteria_hold_together_and_a_list_means_any_of() -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)
    document = compiled_criteria(
        Criteria(
            document_ids=["d1", "d2"],
            tag_ids=["t1"],
            metadata_filter={
                "document_name": "Ünï.pdf",
                "tag_ids": ["t2", "t3"],
                "color": "red",
                "year": [2024, 2025.0],
            },
            upload_date_from=since,
            upload_date_to=until,
        )
    )
    assert document == {
        "$and": [
            {"document_id": {"$in": ["d1", "d2"]}},
            {"tag_ids": {"$in": ["t1"]}},
            {"document_name": {"$in": ["Ünï.pdf"]}},
            {"tag_ids": {"$in": ["t2", "t3"]}},
            {"metadata_pairs": {"$in": [metadata_pair("color", "red")]}},
            {"metadata_pairs": {"$in": [metadata_pair("year", 2024), metadata_pair("year", 2025)]}},
            {"upload_date": {"$gte": since, "$lte": until}},
        ]
    }


def test_or_needs_one_filter_to_match_and_and_needs_all() -> None:
    red, blue = ({"metadata_pairs": {"$in": [metadata_pair("color", color)]}} for color in ("red", "blue"))
    for combination in ("$and", "$or"):
        combined = {combination: [{"color": "red"}, {"color": "blue"}]}
        assert compiled(combined) == {"$and": [{combination: [red, blue]}]}


def test_a_bound_that_is_absent_bounds_nothing() -> None:
    until = datetime(2026, 1, 31, tzinfo=UTC)
    assert compiled_criteria(Criteria(upload_date_to=until)) == {"$and": [{"upload_date": {"$lte": until}}]}


VALUES: list[Any] = [True, False, 0, 1, 1.0, 1.5, -7, "1", "", "a", "b", "grün", "x" * 300]

numbers_and_texts = st.sampled_from([value for value in VALUES if not isinstance(value, bool)])


def conditions(values: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any] | None) -> st.SearchStrategy[Any]:
    some = st.lists(values, min_size=1, max_size=3)
    operators: dict[str, st.SearchStrategy[Any]] = {"$eq": values, "$ne": values, "$in": some, "$nin": some}
    if ordered is not None:
        operators |= dict.fromkeys(ORDERS, ordered)
    one = st.one_of([st.fixed_dictionaries({name: operand}) for name, operand in operators.items()])
    return values | some | one | st.builds(lambda first, second: first | second, one, one)


texts = st.sampled_from(["a", "b", "c"])
keys = st.fixed_dictionaries(
    {},
    optional={
        "document_name": conditions(texts, texts),
        "tag_ids": conditions(texts, None),
        "year": conditions(st.sampled_from(VALUES), numbers_and_texts),
        "color": st.sampled_from(VALUES) | st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
    },
)


def combined(filters: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(filters.filter(bool), min_size=1, max_size=2)
    return st.builds(
        lambda one, more: one | more, keys, st.fixed_dictionaries({}, optional={"$and": some, "$or": some})
    )


good_filters = combined(keys)
documents = st.builds(
    ReferenceDocument,
    name=texts,
    tag_ids=st.lists(texts, unique=True),
    metadata=st.dictionaries(st.sampled_from(["year", "color"]), st.sampled_from(VALUES)),
)


def holds(query: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Evaluate the few operators of a compiled filter as MongoDB does."""
    match dict(query):
        case {"$and": parts}:
            return all(holds(part, row) for part in parts)
        case {"$or": parts}:
            return any(holds(part, row) for part in parts)
    [(path, condition)] = query.items()
    [(operator, operand)] = condition.items()
    found = row.get(path, [])
    values = [typed(value) for value in (found if isinstance(found, list) else [found])]
    match operator:
        case "$in":
            return any(typed(one) in values for one in operand)
        case "$nin":
            return not any(typed(one) in values for one in operand)
        case "$ne":
            return typed(operand) not in values
    kind, bound = typed(operand)
    return any(ORDERS[operator](value, bound) for value_kind, value in values if value_kind == kind)


def typed(value: Any) -> tuple[str, Any]:
    """In BSON true is not 1, while 1 and 1.0 are one value."""
    return ("number" if type(value) in (int, float) else type(value).__name__), value


@given(good_filters, documents)
def test_a_compiled_filter_matches_as_the_reference_filter_does(
    metadata_filter: dict[str, Any], document: ReferenceDocument
) -> None:
    row = {
        "document_name": document.name,
        "tag_ids": document.tag_ids,
        "metadata_pairs": list(metadata_pairs(document.metadata)),
        **{f"metadata_snapshot.{key}": value for key, value in document.metadata.items()},
    }
    query = compiled(metadata_filter)
    assert (not query or holds(query, row)) == matches_filter(metadata_filter, document)


@pytest.fixture(scope="module")
def openapi() -> Any:
    app = FastAPI()

    @app.post("/")
    async def search(body: dict[str, MetadataFilter]) -> None: ...

    document = app.openapi()
    return jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/MetadataFilter", "components": document["components"]}
    )


@given(metadata_filter=good_filters)
def test_openapi_shows_every_good_filter(openapi: Any, metadata_filter: dict[str, Any]) -> None:
    openapi.validate(metadata_filter)


@pytest.mark.parametrize(
    "metadata_filter",
    [
        *(
            {"$where": "1"},
            {"organization_id": "B"},
            {"_id.x": 1},
            {"a b": 1},
            {"color": {"$regex": "x"}},
            {"color": {}},
        ),
        *({"tag_ids": {"$gt": "a"}}, {"color": {"$gt": True}}, {"document_name": 1}, {"$or": []}, {"$and": [{}]}),
    ],
)
def test_openapi_shows_no_filter_that_is_refused(openapi: Any, metadata_filter: dict[str, Any]) -> None:
    assert not openapi.is_valid(metadata_filter)
    with pytest.raises(FilterError):
        compiled(metadata_filter)
