"""Names of the query parameters of a route. FastAPI ignores all others, and a filter that is ignored shows too much."""

from collections.abc import Iterator

from fastapi.dependencies.models import Dependant


def declared_names(dependant: Dependant) -> Iterator[str]:
    """Return the names of the query parameters that a route and its dependencies declare."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from declared_names(inner)
