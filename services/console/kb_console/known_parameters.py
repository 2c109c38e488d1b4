"""Refuses filters that a page does not have: one that is ignored would show more than was asked for."""

from typing import Final

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request

from kb_shared.http.query_parameters import declared_names

_UNKNOWN: Final = "is no filter of this page"


def require_known_parameters(request: Request) -> None:
    """Check that the page of a request has all filters that its address names.

    Raises:
        RequestValidationError: it does not have one of them.
    """
    if not request.query_params:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = set(declared_names(route.dependant))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise RequestValidationError(
            [
                {"type": "value_error", "loc": ("query", name), "input": None, "ctx": {"error": ValueError(_UNKNOWN)}}
                for name in unknown
            ]
        )
