"""Rows of older and newer versions of the code are read: fields are ignored, or get their default."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

import kb_api
import kb_knowledge.store
import kb_search.store
import kb_shared.mongo
from kb_shared.mongo import agents, documents
from kb_shared.mongo.documents import AppliedEvent, Document, MetadataFacet, TagsFacet, TextFacet
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.rows import RowMapper, UnreadableRow

WITHOUT_MAPPER = {
    "source_files": "files of GridFS, which its driver reads",
    "citations": "the server computes figures from its rows",
    "embedding_cache": "a hash and its vector; only the vector is read",
    "leases": "an owner, which the same command has written",
    "query_log": "the server computes figures from its rows",
    "rate_limits": "debts, which the same command has computed",
    "spu_ledger": "the server adds up its rows",
}
"""Collections whose rows are never read as values, with what they hold."""

st.register_type_strategy(ObjectId, st.binary(min_size=12, max_size=12).map(ObjectId))


@cache
def modules() -> Mapping[str, Any]:
    found = {}
    for package in (kb_shared.mongo, kb_search.store, kb_knowledge.store, kb_api):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith(".__main__"):
                found[info.name] = importlib.import_module(info.name)
    return found


@cache
def mappers() -> Mapping[str, RowMapper[Any]]:
    every = (value for module in modules().values() for value in vars(module).values())
    return {each.cls.__name__: each for each in every if isinstance(each, RowMapper)}


def stored(value: Any) -> Any:
    """Return a value as a row holds it."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: stored(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, (tuple, frozenset, list)):
        return [stored(each) for each in value]
    if isinstance(value, Mapping):
        return {key: stored(each) for key, each in value.items()}
    return value


def row_of(mapper: RowMapper[Any], value: Any) -> dict[str, Any]:
    return {mapper.stored_name(each.name): stored(getattr(value, each.name)) for each in fields(value)}


def instances(mapper: RowMapper[Any]) -> st.SearchStrategy[Any]:
    untyped = {each.name: any_value(str(each.type)) for each in fields(mapper.cls) if "Any" in str(each.type)}
    return st.builds(mapper.cls, **untyped, **({"sealed": st.just(None)} if mapper.cls is LlmProvider else {}))


def any_value(annotation: str) -> st.SearchStrategy[Any]:
    if annotation.startswith("tuple"):
        return st.just(({"a": 1},))
    return st.just([{"a": 1}] if annotation.startswith("list") else {"a": 1})


def test_every_collection_has_a_mapper_or_says_why_not() -> None:
    # The collections of chunks have their names from their KBs.
    names = {
        module: getattr(module, "NAME", "chunks" if hasattr(module, "INDEXES") else None)
        for module in modules().values()
    }
    with_mapper = {
        name for module, name in names.items() if any(isinstance(value, RowMapper) for value in vars(module).values())
    }
    collections = {name for name in names.values() if name is not None}
    assert "chunks" in collections
    assert collections - with_mapper == WITHOUT_MAPPER.keys()


@pytest.mark.parametrize("name", mappers())
@settings(max_examples=10)
@given(data=st.data())
def test_a_row_is_read_with_fields_of_a_newer_version_and_without_optional_ones(name: str, data: st.DataObject) -> None:
    mapper = mappers()[name]
    value = data.draw(instances(mapper))
    row = row_of(mapper, value)
    assert mapper.read(row) == value
    assert mapper.read(row | {"of_a_newer_version": {"a": [1]}}) == value
    for each, stored_name in mapper.optional.items():
        without = {key: part for key, part in row.items() if key != stored_name}
        read = mapper.read(without)
        others = [one.name for one in fields(value) if one.name != each]
        assert [getattr(read, other) for other in others] == [getattr(value, other) for other in others]


@pytest.mark.parametrize("name", mappers())
@settings(max_examples=10)
@given(data=st.data())
def test_a_row_without_a_required_field_is_refused_by_the_name_of_the_field(name: str, data: st.DataObject) -> None:
    mapper = mappers()[name]
    row = row_of(mapper, data.draw(instances(mapper)))
    for required in row.keys() - set(mapper.optional.values()):
        with pytest.raises(UnreadableRow, match=f"{name} has no '{required}'"):
            mapper.read({key: part for key, part in row.items() if key != required})


@dataclass(frozen=True)
class Example:
    key: str
    tags: tuple[str, ...] = ()
    note: str | None = "none yet"
    counts: dict[str, int] = field(default_factory=dict)


EXAMPLES = RowMapper(Example, names={"key": "_id"}, convert={"tags": tuple, "note": str.upper})


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"_id": "a", "tags": ["x"], "note": "n", "counts": {"c": 1}}, Example("a", ("x",), "N", {"c": 1})),
        ({"_id": "a"}, Example("a")),
        ({"_id": "a", "note": None}, Example("a", note=None)),
    ],
)
def test_stored_names_conversions_and_defaults_apply(row: dict[str, Any], expected: Example) -> None:
    assert EXAMPLES.read(row) == expected


def test_a_tool_of_an_agent_may_have_a_field_of_a_newer_version() -> None:
    tool = agents.KnowledgeBaseTool("t", "k", "search", "", 5, None)
    assert agents._TOOLS.read(asdict(tool) | {"rerank": True}) == tool


@given(st.builds(Document, metadata=st.none() | st.builds(MetadataFacet, values=st.just({"a": 1}))))
def test_a_document_is_read_as_it_was_written(document: Document) -> None:
    assert documents._from_row(documents._to_fields(document) | {"of_a_newer_version": 1}) == document


def test_facets_and_events_of_documents_have_mappers() -> None:
    assert {each.__name__ for each in (AppliedEvent, MetadataFacet, TagsFacet, TextFacet)} <= mappers().keys()
