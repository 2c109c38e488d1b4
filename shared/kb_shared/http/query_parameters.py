"""Parameters of a route. FastAPI ignores all others, and a filter that is ignored shows too much."""

from collections.abc import Collection, Iterator
from typing import Annotated, Any

from fastapi.dependencies.models import Dependant
from pydantic import TypeAdapter

from kb_contracts.reasons.schema_nodes import Node


def declared_names(dependant: Dependant) -> Iterator[str]:
    """Return the names of the query parameters that a route and its dependencies declare."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from declared_names(inner)


def declared_schema(dependant: Dependant, names: Collection[str]) -> Node:
    """Return what a route and its dependencies declare of the parameters of these names, as fields of an object."""
    fields = {name: {"schema": schema} for name, schema in _schemas(dependant, names)}
    return Node({"type": "typed-dict", "fields": fields}, {})


def _schemas(dependant: Dependant, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    for field in (*dependant.path_params, *dependant.query_params, *dependant.header_params):
        if field.alias in names:
            info = field.field_info
            annotation: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
            yield field.alias, TypeAdapter(annotation).core_schema
    for inner in dependant.dependencies:
        yield from _schemas(inner, names)
