"""The arguments of a `$vectorSearch` stage, checked by Atlas's rules."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kb_local.search_node.errors import not_implemented, search_error
from kb_local.search_node.filters import FilterClause, parse_filter
from kb_local.search_node.values import Vector, vector_of

MOST_CANDIDATES = 10_000
KEYS = {"index", "path", "queryVector", "numCandidates", "limit", "filter", "exact"}
# These change how Atlas works, not what it answers.
IGNORED_KEYS = {"explainOptions", "searchNodePreference", "concurrent"}
UNSUPPORTED_KEYS = {"query", "model", "returnStoredSource", "parentFilter", "nestedOptions"}


@dataclass(frozen=True, slots=True)
class VectorQuery:
    index: str
    path: str
    vector: Vector
    limit: int
    filter: FilterClause | None


def parse_query(stage: object) -> VectorQuery:
    if not isinstance(stage, dict):
        raise search_error('"$vectorSearch" must be a document')
    for key in stage:
        if key in UNSUPPORTED_KEYS:
            raise not_implemented(f"{key} of $vectorSearch")
        if key not in KEYS | IGNORED_KEYS:
            raise search_error(f'unrecognized field "{key}"')
    return VectorQuery(
        index=_text(stage, "index"),
        path=_text(stage, "path"),
        vector=_query_vector(stage),
        limit=_limit(stage),
        filter=parse_filter(stage["filter"]) if stage.get("filter") is not None else None,
    )


def _text(stage: dict[str, Any], key: str) -> str:
    value = stage.get(key)
    if value is None:
        raise search_error(f'"{key}" is required')
    if not isinstance(value, str):
        raise search_error(f'"{key}" must be a string')
    if not value:
        raise search_error(f'"{key}" cannot be empty')
    return value


def _integer(stage: dict[str, Any], key: str) -> int | None:
    value = stage.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise search_error(f'"{key}" must be an integer')
    return int(value)


def _limit(stage: dict[str, Any]) -> int:
    limit = _integer(stage, "limit")
    if limit is None:
        raise search_error('"limit" is required')
    if limit <= 0:
        raise search_error('"limit" must be positive')
    candidates = _integer(stage, "numCandidates")
    exact = stage.get("exact", False)
    if not isinstance(exact, bool):
        raise search_error('"exact" must be a boolean')
    if exact:
        if candidates is not None:
            raise search_error('"numCandidates" must be omitted when "exact" is set to true')
        return limit
    if candidates is None:
        raise search_error("numCandidates is required for approximate vector search")
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise search_error(f'"numCandidates" must be within bounds [1..{MOST_CANDIDATES}]')
    if limit > candidates:
        raise search_error("limit should be less than or equal to numCandidates")
    return limit


def _query_vector(stage: dict[str, Any]) -> Vector:
    if "queryVector" not in stage:
        raise search_error("Exactly one and only one of query and queryVector can be present")
    vector = vector_of(stage["queryVector"])
    if vector is None:
        raise search_error(_complaint(stage["queryVector"]))
    if not len(vector):
        raise search_error('"queryVector" cannot be empty')
    not_finite = np.flatnonzero(~np.isfinite(vector))
    if len(not_finite):
        raise search_error(
            f"'queryVector' contains a non-finite value (Infinity or NaN) at position [{not_finite[0]}]. "
            'All values in "queryVector" must be finite.'
        )
    return vector


def _complaint(value: object) -> str:
    if isinstance(value, list) and any(isinstance(element, str) for element in value):
        return "Unsupported BsonValue type: STRING"
    return '"queryVector" must be an array of numbers or a BinData float32 vector'
