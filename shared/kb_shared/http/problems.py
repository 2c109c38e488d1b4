"""Returns errors as RFC 9457 `application/problem+json`: a stable slug as `type`, and a `detail` that says what to do.

A problem repeats the names of fields, and of their values what `kb_contracts.reasons` shows.
"""

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match

from kb_contracts.api.problems import STATUSES
from kb_contracts.reasons.field_reasons import FieldReason, reasons_of
from kb_shared.errors import (
    BudgetExhausted,
    KbError,
    OtherVectors,
    Parked,
    ProviderUnavailable,
    RequestError,
    SearchUnavailable,
    TransientError,
    UnknownPrice,
)
from kb_shared.http.query_parameters import declared_schema
from kb_shared.http.request_context import PROBLEM_MEDIA_TYPE as MEDIA_TYPE
from kb_shared.http.request_context import problem_body, request_id_of
from kb_shared.mongo.database import mongo_errors

MAX_FIELDS = 20
_FIELDS_IN_DETAIL: Final = 3
DEFAULT_RETRY_AFTER_S = 1.0
_API: Final = b"/v0/"
_ENCODED_SLASH: Final = b"%2f"
_NO_SLASH: Final = "must not have a slash (%2F) within an id: replace it, as by a hyphen"

JsonResponses = dict[int | str, dict[str, Any]]


def responses(*slugs: str) -> JsonResponses:
    """Declare the problems of a route, other than those of every route, for its OpenAPI document."""
    found: JsonResponses = {}
    for slug in slugs:
        for status in STATUSES[slug]:
            found.setdefault(status, {"x-problems": []})["x-problems"].append(slug)
    return found


def problem(
    request: Request,
    status: int,
    slug: str,
    *,
    detail: str,
    extra: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
    retry_after_s: float | None = None,
) -> JSONResponse:
    # For the log.
    request.scope["state"]["problem"] = slug
    body = {**problem_body(status, slug, detail, request_id=request_id_of(request.scope)), **(extra or {})}
    all_headers = dict(headers or {})
    if retry_after_s is not None:
        all_headers["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    return JSONResponse(body, status, headers=all_headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Return a problem for every expected error of `app`. `RequestContext` returns 500 for all others."""
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _routing_error)
    app.add_exception_handler(TransientError, _expected_error)
    app.add_exception_handler(Parked, _expected_error)
    app.add_exception_handler(PyMongoError, _mongo_error)


async def _request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    return problem(
        request,
        error.status,
        error.slug,
        detail=error.detail,
        extra=error.extra,
        headers=headers,
        retry_after_s=error.retry_after_s,
    )


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return await _request_error(request, invalid(parameter_reasons(request, error)))


def parameter_reasons(request: Request, error: RequestValidationError) -> list[FieldReason]:
    """Return why the parameters of a request are refused, by their names."""
    # The first part is body, query or path; a caller knows it.
    errors: list[Any] = [{**each, "loc": each["loc"][1:]} for each in error.errors()]
    dependant = getattr(request.scope.get("route"), "dependant", None)
    if dependant is None:
        return reasons_of(errors)
    return reasons_of(errors, declared_schema(dependant, {each["loc"][0] for each in errors if each["loc"]}))


def invalid(found: Sequence[FieldReason], *, whole: str = "body") -> RequestError:
    """Create the error of a request that has `found`; calls the field that is all of it `whole`."""
    return invalid_fields([{"field": each.field or whole, "message": each.message} for each in found[:MAX_FIELDS]])


def invalid_fields(fields: Sequence[Mapping[str, str]]) -> RequestError:
    """Create the error that lists `{"field", "message"}`, for checks that the type of a field can't express."""
    said = "; ".join(f"`{found['field']}` {found['message']}" for found in fields[:_FIELDS_IN_DETAIL])
    rest = len(fields) - _FIELDS_IN_DETAIL
    more = f"; {rest} more are listed in `fields`" if rest > 0 else ""
    return RequestError(422, "validation-error", f"Fix this and resend: {said}{more}.", extra={"fields": list(fields)})


def invalid_field(field: str, message: str) -> RequestError:
    return invalid_fields([{"field": field, "message": message}])


async def _routing_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    path = request.scope.get("raw_path", b"").lower()
    if error.status_code == HTTPStatus.NOT_FOUND and path.startswith(_API) and _ENCODED_SLASH in path:
        # It was decoded before the path was compared with any route.
        return await _request_error(request, invalid_field("path", _NO_SLASH))
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = "This path does not exist; GET /openapi.json lists all paths."
        return problem(request, HTTPStatus.NOT_FOUND, "not-found", detail=detail)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = "This path does not support this method. See the `Allow` header."
        headers = {"Allow": ", ".join(_allowed_methods(request))}
        return problem(request, HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", detail=detail, headers=headers)
    return problem(
        request, error.status_code, "bad-request", detail="The request can't be read.", headers=error.headers
    )


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes with the path of a request. The router knows those of the first one only."""
    matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in getattr(route, "methods", None) or ()})


async def _expected_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KbError)
    return await _request_error(request, as_request_error(error))


def as_request_error(error: KbError) -> RequestError:
    """Return the HTTP error for a transient error or an exhausted budget."""
    match error:
        case RequestError():
            return error
        case BudgetExhausted():
            detail = (
                f"The request was not carried out: {error}. PUT /budget with a higher hard limit, or wait for the next "
                "month."
            )
            return RequestError(402, "budget-exhausted", detail, retry_after_s=error.retry_after_s)
        case UnknownPrice():
            return RequestError(
                422,
                "unknown-price",
                f"The request was not carried out: {error}. Use another model, ask the operator of this deployment to "
                "set its price (KB_MODEL_PRICES or KB_USD_PER_SPU), or PUT /budget without limits in USD.",
            )
        case OtherVectors():
            detail = f"A search by meaning is not possible: {error}. Searches with mode text are."
            return RequestError(503, "provider-refused", detail, retry_after_s=error.retry_after_s)
        case ProviderUnavailable() | Parked():
            slug, what = "provider-unavailable", "The embedding provider"
        case SearchUnavailable():
            detail = (
                "The MongoDB of this deployment has no Atlas Search; the operator has to connect one that has "
                "(KB_MONGO_URI)."
            )
            return RequestError(503, "search-unavailable", detail, retry_after_s=error.retry_after_s)
        case _:
            slug, what = "unavailable", "The database"
    retry_after_s = error.retry_after_s if isinstance(error, TransientError | Parked) else None
    pause_s = retry_after_s or DEFAULT_RETRY_AFTER_S
    detail = f"{what} can't serve this now; try again in {math.ceil(pause_s)} s."
    return RequestError(503, slug, detail, retry_after_s=pause_s)


async def _mongo_error(request: Request, error: Exception) -> JSONResponse:
    try:
        with mongo_errors():
            raise error
    except TransientError as passing:
        return await _expected_error(request, passing)
