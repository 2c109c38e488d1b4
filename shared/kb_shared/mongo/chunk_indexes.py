"""The search indexes of a KB's chunks: one of their vectors, one of their words. What they hold, and bringing it about.

Both can filter by the same fields: the fixed ones, and of metadata the keys in the KB's `filterable_metadata`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from pymongo.operations import SearchIndexModel

from kb_shared.mongo import search_indexes
from kb_shared.mongo.database import Collection, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.search_indexes import SearchIndex, search_required
from kb_shared.mongo.text_analyzers import folding
from kb_shared.text.text_normalization import AS_WRITTEN

VECTOR_INDEX: Final = "kb_vector_index"
TEXT_INDEX: Final = "kb_text_index"
NAMES: Final = (VECTOR_INDEX, TEXT_INDEX)

TEXT_PATHS: Final = ("chunk_text", "heading_path")
"""Paths of the text that the word index reads."""
TOKEN_PATHS: Final = ("organization_id", "kb_id", "document_id", "document_name", "tag_ids", "metadata_pairs")
DATE_PATH: Final = "upload_date"
FILTER_PATHS: Final = (*TOKEN_PATHS[:-1], DATE_PATH, "metadata_pairs")
METADATA: Final = "metadata_snapshot"

_FIELDS: Final = "fields"
# A key may have values of different types in different documents.
_ANY_VALUE: Final[list[Row]] = [{"type": "token"}, {"type": "number"}, {"type": "boolean"}, {"type": "date"}]


class IndexState(StrEnum):
    """State of both indexes: the first of these that one of them is in."""

    FAILED = "failed"
    MISSING = "missing"
    """Not there, or not as the KB wants it."""
    BUILDING = "building"
    READY = "ready"


def vector_index(dimensions: int, filterable_metadata: Iterable[str] = ()) -> SearchIndexModel:
    """The search index of vectors of so many dimensions.

    Args:
        filterable_metadata: distinct metadata keys that get a filter path of their own.
    """
    paths = (*FILTER_PATHS, *(f"{METADATA}.{key}" for key in filterable_metadata))
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


def text_index(
    analyzer: str, filterable_metadata: Iterable[str] = (), *, text_normalization: int = AS_WRITTEN
) -> SearchIndexModel:
    """The search index of words. A `string` is for words only: `equals` finds nothing there, so filters have tokens.

    Args:
        analyzer: how texts become words.
        filterable_metadata: distinct metadata keys that can be compared.
        text_normalization: how texts are normalized before they become words.
    """
    fields: dict[str, Any] = {path: {"type": "string"} for path in TEXT_PATHS}
    fields |= {path: {"type": "token"} for path in TOKEN_PATHS}
    fields[DATE_PATH] = {"type": "date"}
    metadata = dict.fromkeys(filterable_metadata, _ANY_VALUE)
    if metadata:
        fields[METADATA] = {"type": "document", "dynamic": False, "fields": metadata}
    return SearchIndexModel(
        name=TEXT_INDEX,
        type="search",
        definition={**_analysis(analyzer, text_normalization), "mappings": {"dynamic": False, "fields": fields}},
    )


def _analysis(analyzer: str, text_normalization: int) -> Row:
    if text_normalization == AS_WRITTEN:
        return {"analyzer": analyzer}
    custom = folding(analyzer)
    return {"analyzer": custom["name"], "analyzers": [custom]}


def wanted(kb: KnowledgeBase) -> dict[str, SearchIndexModel]:
    """The indexes of a KB by name."""
    return {
        VECTOR_INDEX: vector_index(kb.embedding_dimensions, kb.filterable_metadata),
        TEXT_INDEX: text_index(kb.text_analyzer, kb.filterable_metadata, text_normalization=kb.text_normalization),
    }


async def ensure(collection: Collection, kb: KnowledgeBase) -> None:
    """Create what is missing, and bring up to date what is defined otherwise; an old index answers meanwhile.

    Raises:
        SearchUnavailable: the deployment has no Atlas search.
    """
    found = await _found(collection)
    missing = [model for name, model in wanted(kb).items() if name not in found]
    with search_required():
        if missing:
            await collection.create_search_indexes(missing)
        for name, index in found.items():
            definition = wanted(kb)[name].document["definition"]
            if not says(index.definition, definition):
                await collection.update_search_index(name, definition)


async def state(collection: Collection, kb: KnowledgeBase) -> IndexState:
    found = await _found(collection)
    states = {_state(found[name], kb) if name in found else IndexState.MISSING for name in NAMES}
    return next(one for one in IndexState if one in states)


async def _found(collection: Collection) -> dict[str, SearchIndex]:
    """Our indexes that are there to stay."""
    listed = await search_indexes.listed(collection)
    gone = ("DOES_NOT_EXIST", "DELETING")
    return {index.name: index for index in listed if index.name in NAMES and index.status not in gone}


def _state(index: SearchIndex, kb: KnowledgeBase) -> IndexState:
    if index.status == "FAILED":
        return IndexState.FAILED
    if not says(index.definition, wanted(kb)[index.name].document["definition"]):
        return IndexState.MISSING
    # While an index is updated the old definition is queryable and the status says BUILDING.
    return IndexState.READY if index.queryable and index.status == "READY" else IndexState.BUILDING


def says(found: Row | Mapping[str, Any], definition: Row) -> bool:
    """Tell whether a definition as the deployment lists it says all of `definition`, and has no other fields.

    The deployment may add options that were left out, and leave out those that are false.
    """
    return _says(_fields_by_path(found), _fields_by_path(definition))


def _says(found: Any, definition: Any) -> bool:
    if isinstance(definition, dict):
        return isinstance(found, Mapping) and all(
            _says(found.get(name), value) and (name != _FIELDS or found[name].keys() == value.keys())
            for name, value in definition.items()
        )
    if isinstance(definition, list):
        return isinstance(found, list) and len(found) == len(definition) and all(map(_says, found, definition))
    return bool(found == definition) or (definition is False and found is None)


def _fields_by_path(definition: Mapping[str, Any]) -> Row:
    """The fields of a vector index are a list in any order, those of a text index a mapping."""
    fields = definition.get(_FIELDS)
    return {**definition, _FIELDS: {one["path"]: one for one in fields}} if isinstance(fields, list) else {**definition}
