"""Routes that refuse what they would otherwise ignore: unknown query parameters, ambiguous JSON, idempotency keys.

A request without a valid key costs little: the key comes first, and nothing else of the request is looked at before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.errors import RequestError
from kb_shared.http import problems, strict_json
from kb_shared.http.admission import Admission
from kb_shared.http.authentication import CachedKey, ForOrganization
from kb_shared.http.dependencies import get_provided
from kb_shared.http.large_bodies import LARGE_BYTES, LargeBodies

MAX_BODY_BYTES: Final = 2_000_000
ADVICE: Final = " Store a longer text of a document with PUT /documents/{document_id}/text and send its text_ref."
ORGANIZATION_PATH: Final = "/v0/orgs/{organization_id}"
TO_EXPLAIN_S: Final = 3.0
"""For looking at a key again before an error is told."""
MAX_ERRORS: Final = 1_000
"""Limit of problems listed for a body. To list more would take long."""


def organization_router(tag: str) -> APIRouter:
    """A router for what belongs to an organization; every route of it must ask for a `Caller`."""
    return APIRouter(
        prefix=ORGANIZATION_PATH,
        tags=[tag],
        route_class=StrictRoute,
        responses=problems.responses(400, 401, 403, 404, 408, 413, 415, 422, 429, 503),
    )


class StrictRoute(APIRoute):
    """A route that reads its request itself before FastAPI does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = set(_query_names(self.dependant))
        body: TypeAdapter[Any] | None = None
        if self.body_field is not None and (taken := self.body_field.field_info.annotation) is not None:
            body = TypeAdapter(taken)
        for_organization = next(_authenticators(self.dependant), None)

        async def checked(request: Request, organization_id: str) -> Response:
            _check_query(request, known)
            _refuse_idempotency_key(request)
            if body is not None:
                request = await _JsonRequest.read(request, body, organization_id=organization_id)
            if for_organization is None:
                return await handle(request)
            # After the body: who sends it slowly keeps nobody waiting.
            async with get_provided(request.app, FairQueue).turn(organization_id):
                return await handle(request)

        async def handle_strictly(request: Request) -> Response:
            if for_organization is None:
                return await checked(request, "")
            organization_id = request.path_params["organization_id"]
            await for_organization.admit(request, organization_id, at_once=_has_large_body(request))
            # After the key: a stranger takes no place.
            get_provided(request.app, Admission).admit(request.scope, organization_id, endpoint=self.endpoint)
            try:
                return await checked(request, organization_id)
            except (RequestError, RequestValidationError):
                await _confirm_key(request)
                raise

        return handle_strictly


class _JsonRequest(Request):
    """A request whose body was read, parsed and validated once, within the limits."""

    _parsed: Any

    @classmethod
    async def read(cls, request: Request, body: TypeAdapter[Any], *, organization_id: str) -> "_JsonRequest":
        large_bodies = get_provided(request.app, LargeBodies)

        def take_place() -> None:
            large_bodies.places.occupy(request.scope, organization_id)

        received = await limited_body(request, most_bytes=MAX_BODY_BYTES, advice=ADVICE, on_large=take_place)
        read = cls(request.scope, request.receive)
        read._body = received  # where Request itself keeps what it has read
        if received:
            _check_media_type(request)
            validate = partial(_validated, received, body)
            is_large = len(received) > LARGE_BYTES
            read._parsed = await large_bodies.thread.work(organization_id, validate) if is_large else validate()
        return read

    async def json(self) -> Any:
        """Return the body as the route takes it; FastAPI's own validation leaves that as it is."""
        return self._parsed


async def limited_body(
    request: Request, *, most_bytes: int, advice: str = "", on_large: Callable[[], None] | None = None
) -> bytes:
    """Read the body of a request.

    Args:
        request: whose body has not been read.
        most_bytes: that it may have.
        advice: for who sends more, beginning with a space; or nothing.
        on_large: called once when it has more than `LARGE_BYTES`; may refuse it.

    Raises:
        RequestError: 413 `body-too-large`, 400 `incomplete-body`, 408 `request-timeout`.
    """
    body, is_large = bytearray(), False
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > LARGE_BYTES and not is_large and on_large is not None:
                is_large = True
                on_large()
            if len(body) > most_bytes:
                raise RequestError(413, "body-too-large", f"Send at most {most_bytes} bytes.{advice}")
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None
    return bytes(body)


async def _confirm_key(request: Request) -> None:
    """Look at a key that was only presumed: whoever has one that is no longer right is told nothing else."""
    admitted = request.scope["state"]["admitted"]
    if isinstance(admitted, CachedKey) and not admitted.looked_at:
        # MongoDB may be what failed, and the caller has waited for it once already.
        with suppress(TimeoutError):
            async with asyncio.timeout(TO_EXPLAIN_S):
                await admitted.look_again()


def _has_large_body(request: Request) -> bool:
    """Say whether its sender must be known before any of it is read."""
    declared = request.headers.get("content-length")
    return "transfer-encoding" in request.headers or (declared is not None and int(declared) > LARGE_BYTES)


def _check_media_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(415, "unsupported-media-type", "Send JSON with `Content-Type: application/json`.")


def _validated(received: bytes, body: TypeAdapter[Any]) -> Any:
    try:
        parsed = strict_json.parse(received)
    except ValueError as error:
        raise RequestError(400, "malformed-json", f"The body is not usable JSON: {error}.") from None
    try:
        return body.validate_python(parsed)
    except ValidationError as invalid:
        raise _invalid_body(invalid) from None


def _invalid_body(invalid: ValidationError) -> RequestError:
    if invalid.error_count() > MAX_ERRORS:
        return problems.invalid_field("body", f"Has {invalid.error_count()} errors, too many to list")
    found = invalid.errors(include_url=False, include_context=False, include_input=False)
    return problems.invalid_fields(
        [problems.field_problem(("body", *each["loc"]), each["msg"]) for each in found[: problems.MAX_FIELDS]]
    )


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


def _authenticators(dependant: Dependant) -> Iterator[ForOrganization]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, ForOrganization):
            yield inner.call
        yield from _authenticators(inner)
