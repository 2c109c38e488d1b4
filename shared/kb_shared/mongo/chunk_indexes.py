"""The two search indexes of the chunks of a KB, vector and text: their definitions, creation and state.

Both can filter by the same fields: the fixed ones, and the metadata keys in the KB's `filterable_metadata`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from pymongo.operations import SearchIndexModel

from kb_shared.mongo import search_indexes
from kb_shared.mongo.database import Collection, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.search_indexes import ListedIndex, search_required
from kb_shared.mongo.text_analyzers import folding
from kb_shared.text.text_normalization import AS_WRITTEN, SPELLED

VECTOR_INDEX: Final = "kb_vector_index"
TEXT_INDEX: Final = "kb_text_index"
NAMES: Final = (VECTOR_INDEX, TEXT_INDEX)

EMBEDDING_TEXT_PATH: Final = "embedding_text"
TEXT_PATHS: Final = ("chunk_text", "heading_path", EMBEDDING_TEXT_PATH)
"""Paths in which words are found."""
SPELLINGS_PATH: Final = "spellings"
"""Path of other spellings of the words in `TEXT_PATHS`."""
TOKEN_PATHS: Final = ("organization_id", "kb_id", "document_id", "document_name", "tag_ids", "metadata_pairs")
DATE_PATH: Final = "upload_date"
FILTER_PATHS: Final = (*TOKEN_PATHS[:-1], DATE_PATH, "metadata_pairs")
METADATA: Final = "metadata_snapshot"

_FIELDS: Final = "fields"
# A key may have values of different types in different documents.
_ANY_VALUE: Final[list[Row]] = [{"type": "token"}, {"type": "number"}, {"type": "boolean"}, {"type": "date"}]


class IndexState(StrEnum):
    """State of both indexes together: the first of these states that applies to one of them."""

    FAILED = "failed"
    MISSING = "missing"
    """State in which an index does not exist, or has another definition than the KB needs."""
    BUILDING = "building"
    READY = "ready"


def build_vector_index(
    dimensions: int, filterable_metadata: Iterable[str] = (), *, rebuilds: int = 0
) -> SearchIndexModel:
    """Build the vector index for vectors of `dimensions`.

    Args:
        filterable_metadata: distinct metadata keys that get a filter path of their own.
        rebuilds: number of times that the index was to be built again.
    """
    paths = (*FILTER_PATHS, *(f"{METADATA}.{key}" for key in filterable_metadata), *_unused_paths(rebuilds))
    return SearchIndexModel(
        name=VECTOR_INDEX,
        type="vectorSearch",
        definition={
            "fields": [
                {"type": "vector", "path": "embedding", "numDimensions": dimensions, "similarity": "cosine"},
                *({"type": "filter", "path": path} for path in paths),
            ]
        },
    )


def build_text_index(
    analyzer: str, filterable_metadata: Iterable[str] = (), *, text_normalization: int = AS_WRITTEN, rebuilds: int = 0
) -> SearchIndexModel:
    """Build the text index. Filters use `token` fields, because `equals` finds nothing in a `string` field.

    Args:
        analyzer: Lucene analyzer that splits texts into words.
        filterable_metadata: distinct metadata keys that can be compared.
        text_normalization: normalization of texts before the analyzer.
        rebuilds: number of times that the index was to be built again.
    """
    fields: dict[str, Any] = {path: {"type": "string"} for path in TEXT_PATHS}
    if text_normalization == AS_WRITTEN and not rebuilds:
        # The index of such a knowledge base would be built again, mostly for chunks without an embedding text.
        del fields[EMBEDDING_TEXT_PATH]
    if text_normalization == SPELLED:
        # How many spellings a chunk has says nothing about what it is about.
        fields[SPELLINGS_PATH] = {"type": "string", "norms": "omit"}
    fields |= {path: {"type": "token"} for path in (*TOKEN_PATHS, *_unused_paths(rebuilds))}
    fields[DATE_PATH] = {"type": "date"}
    metadata = dict.fromkeys(filterable_metadata, _ANY_VALUE)
    if metadata:
        fields[METADATA] = {"type": "document", "dynamic": False, "fields": metadata}
    return SearchIndexModel(
        name=TEXT_INDEX,
        type="search",
        definition={**_analysis(analyzer, text_normalization), "mappings": {"dynamic": False, "fields": fields}},
    )


def _unused_paths(rebuilds: int) -> tuple[str, ...]:
    """Return a path that no chunk has. With it the definition is another one: an equal one may build nothing."""
    return (f"rebuild_{rebuilds}",) if rebuilds else ()


def _analysis(analyzer: str, text_normalization: int) -> Row:
    if text_normalization == AS_WRITTEN:
        return {"analyzer": analyzer}
    custom = folding(analyzer)
    return {"analyzer": custom["name"], "analyzers": [custom]}


def build_definitions(kb: KnowledgeBase) -> dict[str, SearchIndexModel]:
    """Return the indexes that a KB needs, by name."""
    return {
        VECTOR_INDEX: build_vector_index(kb.embedding_dimensions, kb.filterable_metadata, rebuilds=kb.index_builds),
        TEXT_INDEX: build_text_index(
            kb.text_analyzer,
            kb.filterable_metadata,
            text_normalization=kb.text_normalization,
            rebuilds=kb.index_builds,
        ),
    }


async def ensure(collection: Collection, kb: KnowledgeBase) -> None:
    """Create missing indexes and update those with another definition; the old index answers until the update is done.

    Raises:
        SearchUnavailable: the deployment has no Atlas search.
    """
    found = await _found(collection)
    missing = [model for name, model in build_definitions(kb).items() if name not in found]
    with search_required():
        if missing:
            await collection.create_search_indexes(missing)
        for name, index in found.items():
            definition = build_definitions(kb)[name].document["definition"]
            if not is_defined_as(index.definition, definition):
                await collection.update_search_index(name, definition)


async def drop_failed(collection: Collection, kb: KnowledgeBase) -> None:
    """Drop the indexes that failed, so that `ensure` creates them again once they are gone."""
    for name, index in (await _found(collection)).items():
        if _state(index, kb) is IndexState.FAILED:
            await collection.drop_search_index(name)


async def read_state(collection: Collection, kb: KnowledgeBase) -> IndexState:
    found = await _found(collection)
    states = {_state(found[name], kb) if name in found else IndexState.MISSING for name in NAMES}
    return next(one for one in IndexState if one in states)


async def count_in_text_index(collection: Collection, kb: KnowledgeBase) -> int:
    """Count the chunks of a KB that its text index has, live and retired; 0 if it does not answer queries yet.

    Raises:
        SearchUnavailable: the deployment has no Atlas search.
    """
    scope = {"organization_id": kb.organization_id, "kb_id": kb.kb_id}
    of_kb = {"filter": [{"equals": {"path": path, "value": value}} for path, value in scope.items()]}
    counted = {"index": TEXT_INDEX, "compound": of_kb, "count": {"type": "total"}}
    with search_required():
        found = await collection.aggregate([{"$searchMeta": counted}])
        rows = await found.to_list()
    return int(rows[0]["count"]["total"]) if rows else 0


async def _found(collection: Collection) -> dict[str, ListedIndex]:
    """Return our indexes that exist and are not being deleted."""
    listed = await search_indexes.list_indexes(collection)
    gone = ("DOES_NOT_EXIST", "DELETING")
    return {index.name: index for index in listed if index.name in NAMES and index.status not in gone}


def _state(index: ListedIndex, kb: KnowledgeBase) -> IndexState:
    if index.status == "FAILED":
        return IndexState.FAILED
    if not is_defined_as(index.definition, build_definitions(kb)[index.name].document["definition"]):
        return IndexState.MISSING
    # During an update the old index is queryable and the status is BUILDING.
    return IndexState.READY if index.queryable and index.status == "READY" else IndexState.BUILDING


def is_defined_as(found: Row | Mapping[str, Any], definition: Row) -> bool:
    """Return whether the definition `found` in the deployment equals `definition`.

    The deployment may add default options, and omit options that are false.
    """
    return _matches_definition(_fields_by_path(found), _fields_by_path(definition))


def _matches_definition(found: Any, definition: Any) -> bool:
    if isinstance(definition, dict):
        return isinstance(found, Mapping) and all(
            _matches_definition(found.get(name), value) and (name != _FIELDS or found[name].keys() == value.keys())
            for name, value in definition.items()
        )
    if isinstance(definition, list):
        return (
            isinstance(found, list)
            and len(found) == len(definition)
            and all(map(_matches_definition, found, definition))
        )
    return bool(found == definition) or (definition is False and found is None)


def _fields_by_path(definition: Mapping[str, Any]) -> Row:
    """Return `definition` with its fields by path: those of a vector index are a list in any order."""
    fields = definition.get(_FIELDS)
    return {**definition, _FIELDS: {one["path"]: one for one in fields}} if isinstance(fields, list) else {**definition}
