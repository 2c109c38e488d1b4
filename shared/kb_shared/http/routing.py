"""Routes that refuse what they would otherwise ignore: unknown query parameters, ambiguous JSON, idempotency keys."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kb_shared.errors import RequestError
from kb_shared.http import problems, strict_json

MAX_BODY_BYTES: Final = 2_000_000
ORGANIZATION_PATH: Final = "/v0/orgs/{organization_id}"


def organization_router(tag: str) -> APIRouter:
    """A router for what belongs to an organization; every route of it must ask for a `Caller`."""
    return APIRouter(
        prefix=ORGANIZATION_PATH,
        tags=[tag],
        route_class=StrictRoute,
        responses=problems.responses(400, 401, 403, 404, 413, 415, 422, 503),
    )


class StrictRoute(APIRoute):
    """A route that reads its request itself before FastAPI does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = set(_query_names(self.dependant))
        takes_body = self.body_field is not None

        async def handle_strictly(request: Request) -> Response:
            _check_query(request, known)
            _refuse_idempotency_key(request)
            if takes_body:
                request = await _JsonRequest.read(request)
            return await handle(request)

        return handle_strictly


class _JsonRequest(Request):
    """A request whose body was read and parsed once, within the limits."""

    _parsed: Any

    @classmethod
    async def read(cls, request: Request) -> "_JsonRequest":
        body = await _limited_body(request)
        read = cls(request.scope, request.receive)
        read._body = body  # where Request itself keeps what it has read
        if body:
            read._parsed = _parse(request, body)
        return read

    async def json(self) -> Any:
        return self._parsed


async def _limited_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise RequestError(
                    413,
                    "body-too-large",
                    f"Send at most {MAX_BODY_BYTES} bytes. Store a longer text of a document with "
                    "PUT /documents/{document_id}/text and send its text_ref.",
                )
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None
    return bytes(body)


def _parse(request: Request, body: bytes) -> Any:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(415, "unsupported-media-type", "Send JSON with `Content-Type: application/json`.")
    try:
        return strict_json.parse(body)
    except ValueError as error:
        raise RequestError(400, "malformed-json", f"The body is not usable JSON: {error}.") from None


def _check_query(request: Request, known: set[str]) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    wrong = [
        {"field": name[: problems.MAX_FIELD_NAME_CHARACTERS], "message": "There is no such query parameter"}
        for name in dict.fromkeys(given)
        if name not in known
    ]
    wrong += [
        {"field": name, "message": "Give this query parameter once"} for name in sorted(known) if given.count(name) > 1
    ]
    if wrong:
        raise problems.invalid_fields(wrong[: problems.MAX_FIELDS])


def _refuse_idempotency_key(request: Request) -> None:
    # Whoever sends one repeats a POST in the belief that it happens once. Other methods are repeatable as they are.
    if request.method == "POST" and "idempotency-key" in request.headers:
        raise RequestError(
            400,
            "idempotency-key-not-available",
            "The header Idempotency-Key is not available yet; leave it out, and look whether a request whose answer "
            "was lost has taken effect before sending it again.",
        )


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_names(inner)
