"""`$$SEARCH_META`: metadata of a search for the stages after it."""

from collections.abc import Mapping
from typing import Any

VARIABLE = "$$SEARCH_META"


def with_meta(part: Any, meta: Mapping[str, Any]) -> Any:
    """Return a part of a pipeline with the variable replaced by its value."""
    if isinstance(part, dict):
        return part if "$literal" in part else {key: with_meta(value, meta) for key, value in part.items()}
    if isinstance(part, list):
        return [with_meta(element, meta) for element in part]
    if isinstance(part, str) and (part == VARIABLE or part.startswith(f"{VARIABLE}.")):
        return {"$literal": _value_at(meta, part.split(".")[1:])}
    return part


def _value_at(meta: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = meta
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
