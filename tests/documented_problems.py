"""Checks that a service in this process answers with no problem that its OpenAPI document does not list."""

from typing import Any, Final

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from kb_shared.http import openapi, problems

_NOT_SENT: Final = {"caller-left"}
"""Logged only: the caller has left."""


def check_problems(patch: pytest.MonkeyPatch) -> None:
    """Let an answer with another problem fail with status 500, and so its test."""
    answer = problems.problem

    def answer_as_documented(request: Request, status: int, slug: str, **details: Any) -> Response:
        route = request.scope.get("route")
        if isinstance(route, APIRoute) and route.operation_id is not None and slug not in _NOT_SENT:
            listed = openapi.problems_of(route)
            assert slug in listed, f"list {slug!r} in the responses of {route.operation_id}"
        return answer(request, status, slug, **details)

    patch.setattr(problems, "problem", answer_as_documented)
