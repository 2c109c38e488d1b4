"""The definition of a vector search index, checked by Atlas's rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from kb_local.search_node.errors import definition_error, not_implemented

Similarity = Literal["cosine", "dotProduct", "euclidean"]

SIMILARITIES = ("euclidean", "dotProduct", "cosine")
QUANTIZATIONS = ("none", "scalar", "binary")
INDEXING_METHODS = ("hnsw", "flat")
MOST_DIMENSIONS = 8192
FIELD_KEYS = {
    "vector": {"type", "path", "numDimensions", "similarity", "quantization", "indexingMethod", "hnswOptions"},
    "filter": {"type", "path"},
}
HNSW_BOUNDS = {"maxEdges": (16, 64), "numEdgeCandidates": (100, 3200)}
DEFINITION_KEYS = {"fields", "storedSource", "nestedRoot", "numPartitions"}


@dataclass(frozen=True, slots=True)
class VectorField:
    path: str
    dimensions: int
    similarity: Similarity


@dataclass(frozen=True, slots=True)
class VectorDefinition:
    """Definition of an index. `source` is the definition as it was sent, which is what listing shows."""

    source: dict[str, Any]
    vectors: dict[str, VectorField]
    filters: tuple[str, ...]

    @property
    def top_fields(self) -> list[str]:
        """Return the fields of a document that indexing needs."""
        return list(dict.fromkeys(path.split(".")[0] for path in (*self.vectors, *self.filters)))


def parse_vector_definition(source: object, *, where: str) -> VectorDefinition:
    """Check a definition; `where` names it in error texts, such as `userCommand.definition`."""
    if not isinstance(source, dict):
        raise definition_error(f'"{where}" must be a document')
    for key in source:
        if key not in DEFINITION_KEYS:
            raise definition_error(f'"{where}" unrecognized field "{key}"')
    if source.get("storedSource") or source.get("nestedRoot"):
        raise not_implemented("storedSource or nestedRoot of a vector search index")
    fields = source.get("fields")
    if fields is None:
        raise definition_error(f'"{where}.fields" is required')
    if not isinstance(fields, list) or not fields:
        raise definition_error(f'"{where}.fields" cannot be empty')
    for number, field in enumerate(fields):
        _check_field(field, f"{where}.fields[{number}]")
    if len({field["path"] for field in fields}) < len(fields):
        raise definition_error(f'"{where}.fields" Vector and filter fields should have distinct paths')
    vectors = {field["path"]: _vector_field(field) for field in fields if field["type"] == "vector"}
    if not vectors:
        raise definition_error(f'"{where}.fields" must contain at least one vector field')
    return VectorDefinition(source, vectors, tuple(field["path"] for field in fields if field["type"] == "filter"))


def _check_field(field: object, where: str) -> None:
    if not isinstance(field, dict):
        raise definition_error(f'"{where}" must be a document')
    kind = field.get("type")
    if kind is None:
        raise definition_error(f'"{where}.type" is required')
    if kind in ("autoEmbed", "text"):
        raise not_implemented(f"a field of type {kind}")
    if kind not in FIELD_KEYS:
        raise definition_error(f'"{where}.type" must be one of [vector, filter]')
    for key in field:
        if key not in FIELD_KEYS[kind]:
            raise definition_error(f'"{where}" unrecognized field "{key}"')
    path = field.get("path")
    if path is None:
        raise definition_error(f'"{where}.path" is required')
    if not isinstance(path, str) or not path:
        raise definition_error(f'"{where}.path" cannot be empty')
    if kind == "vector":
        _check_vector_field(field, where)


def _check_vector_field(field: Mapping[str, Any], where: str) -> None:
    dimensions = _integer(field, "numDimensions", where=where, bounds=(1, MOST_DIMENSIONS))
    if dimensions is None:
        raise definition_error(f'"{where}.numDimensions" is required')
    if field.get("similarity") is None:
        raise definition_error(f'"{where}.similarity" is required')
    _one_of(field, "similarity", where=where, allowed=SIMILARITIES)
    _one_of(field, "quantization", where=where, allowed=QUANTIZATIONS)
    _one_of(field, "indexingMethod", where=where, allowed=INDEXING_METHODS)
    if field.get("quantization") == "binary" and dimensions % 8:
        raise definition_error(f'"{where}.numDimensions" must be divisible by 8 with binary quantization')
    options = field.get("hnswOptions", {})
    if options and field.get("indexingMethod", "hnsw") != "hnsw":
        raise definition_error(f'"{where}.hnswOptions" is only allowed with the hnsw indexing method')
    if not isinstance(options, dict):
        raise definition_error(f'"{where}.hnswOptions" must be a document')
    for key in options:
        if key not in HNSW_BOUNDS:
            raise definition_error(f'"{where}.hnswOptions" unrecognized field "{key}"')
        _integer(options, key, where=f"{where}.hnswOptions", bounds=HNSW_BOUNDS[key])


def _integer(holder: Mapping[str, Any], key: str, *, where: str, bounds: tuple[int, int]) -> int | None:
    value = holder.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise definition_error(f'"{where}.{key}" must be an integer')
    if not bounds[0] <= value <= bounds[1]:
        raise definition_error(f'"{where}.{key}" must be within bounds [{bounds[0]}..{bounds[1]}]')
    return int(value)


def _one_of(holder: Mapping[str, Any], key: str, *, where: str, allowed: tuple[str, ...]) -> None:
    if key in holder and holder[key] not in allowed:
        raise definition_error(f'"{where}.{key}" must be one of [{", ".join(allowed)}]')


def _vector_field(field: Mapping[str, Any]) -> VectorField:
    return VectorField(field["path"], int(field["numDimensions"]), cast("Similarity", field["similarity"]))
