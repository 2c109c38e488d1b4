"""Routes that refuse what FastAPI ignores, unknown query parameters and ambiguous JSON, and keep what they promise.

The API key is checked before anything else of a request is read, so that a request without a valid key costs little.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kb_contracts import strict_json
from kb_contracts.reasons.field_reasons import reasons
from kb_contracts.reasons.sentences import unknown_field
from kb_contracts.reasons.shown_values import plain
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.errors import RequestError
from kb_shared.http import audit, idempotency, limited_keys, problems
from kb_shared.http.admission import Admission
from kb_shared.http.authentication import CachedKey, OrganizationSecurity
from kb_shared.http.body_limits import BodyLimits, limits_of
from kb_shared.http.dependencies import get_provided
from kb_shared.http.large_bodies import LARGE_BYTES, LargeBodies
from kb_shared.http.query_parameters import declared_names
from kb_shared.mongo.database import Database

ORGANIZATION_PATH: Final = "/v0/orgs/{organization_id}"
REREAD_TIMEOUT_S: Final = 3.0
"""Seconds to read a key again before an error is returned."""


HandleRequest: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def organization_router(tag: str) -> APIRouter:
    """Create a router for resources of an organization. Each of its routes must have a caller as a dependency."""
    return APIRouter(prefix=ORGANIZATION_PATH, tags=[tag], route_class=StrictRoute)


class StrictRoute(APIRoute):
    """A route that reads and checks its request before FastAPI does."""

    def get_route_handler(self) -> HandleRequest:
        handle = super().get_route_handler()
        known = set(declared_names(self.dependant))
        body: TypeAdapter[Any] | None = None
        limits = limits_of(self.endpoint)
        if self.body_field is not None:
            # With the validators that the signature of the handler adds to the model.
            body = TypeAdapter(self.body_field.field_info.rebuild_annotation())
        security = next(_authenticators(self.dependant), None)

        async def handle_checked(request: Request, organization_id: str) -> Response:
            _check_query(request, known)
            if body is not None:
                request = await _JsonRequest.read(request, body, limits=limits, organization_id=organization_id)
            if security is None:
                return await handle(request)
            # After the body: a slow sender must not keep other requests of its organization waiting.
            async with get_provided(request.app, FairQueue).take_turn(organization_id):
                return await self._carry_out(handle, request)

        async def handle_admitted(request: Request) -> Response:
            if security is None:
                return await handle_checked(request, "")
            organization_id = request.path_params["organization_id"]
            admitted = await security.admit(request, organization_id, must_read=_has_large_body(request))
            caller = admitted.caller if isinstance(admitted, CachedKey) else admitted
            limited_keys.check_access(request, caller, endpoint=self.endpoint, path=self.path)
            # After the key: requests without a valid key must not fill the limit.
            get_provided(request.app, Admission).admit(request.scope, organization_id, endpoint=self.endpoint)
            try:
                return await handle_checked(request, organization_id)
            except (RequestError, RequestValidationError):
                await _confirm_key(request)
                raise

        changes_something = not audit.METHODS.isdisjoint(self.methods or ())
        if security is not None and security.is_of_administration and changes_something:
            return partial(self._record, handle_admitted)
        return handle_admitted

    async def _carry_out(self, handle: HandleRequest, request: Request) -> Response:
        """Carry out a request once, if it has an idempotency key."""
        admitted = request.scope["state"]["admitted"]
        # A search, whose key is cached, has no effect that repeating it could have twice.
        if request.method != "POST" or idempotency.HEADER not in request.headers or isinstance(admitted, CachedKey):
            return await handle(request)
        return await idempotency.answer_once(
            request,
            partial(handle, request),
            database=get_provided(request.app, Database),
            caller_id=admitted.key_id,
            body=request.received if isinstance(request, _JsonRequest) else b"",
            success_status=self.status_code or HTTPStatus.OK,
        )

    async def _record(self, handle: HandleRequest, request: Request) -> Response:
        return await audit.record_call(
            request,
            partial(handle, request),
            database=get_provided(request.app, Database),
            operation=self.operation_id or f"{request.method} {self.path.removeprefix(ORGANIZATION_PATH)}",
            success_status=self.status_code or HTTPStatus.OK,
        )


class _JsonRequest(Request):
    """A request whose body was read, parsed and validated once, within the limits."""

    received: bytes
    """The body as it was sent."""
    _parsed: Any

    @classmethod
    async def read(
        cls, request: Request, body: TypeAdapter[Any], *, limits: BodyLimits, organization_id: str
    ) -> "_JsonRequest":
        large_bodies = get_provided(request.app, LargeBodies)

        def hold_request_slot() -> None:
            large_bodies.limit.hold_request_slot(request.scope, organization_id)

        received = await limited_body(
            request, max_bytes=limits.max_bytes, advice=limits.advice, on_large=hold_request_slot
        )
        read = cls(request.scope, request.receive)
        read._body = read.received = received  # where Request itself keeps what it has read
        if received:
            _check_media_type(request)
            validate = partial(_validated, received, body, limits)
            is_large = len(received) > LARGE_BYTES
            read._parsed = await large_bodies.thread.work(organization_id, validate) if is_large else validate()
        return read

    async def json(self) -> Any:
        """Return the validated body, which FastAPI's own validation does not change."""
        return self._parsed


async def limited_body(
    request: Request, *, max_bytes: int, advice: str = "", on_large: Callable[[], None] | None = None
) -> bytes:
    """Read the body of a request.

    Args:
        request: a request whose body has not been read.
        max_bytes: limit of its size.
        advice: what to do about a longer body, beginning with a space; or empty.
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
            if len(body) > max_bytes:
                raise RequestError(413, "body-too-large", f"Send at most {max_bytes} bytes.{advice}")
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None
    return bytes(body)


async def _confirm_key(request: Request) -> None:
    """Read a cached key again: a caller whose key is no longer valid must not see another error."""
    admitted = request.scope["state"]["admitted"]
    if isinstance(admitted, CachedKey) and not admitted.is_current:
        # MongoDB may be the cause, and the caller has already waited for it.
        with suppress(TimeoutError):
            async with asyncio.timeout(REREAD_TIMEOUT_S):
                await admitted.read_again()


def _has_large_body(request: Request) -> bool:
    """Return whether the key must be read from MongoDB before the body is."""
    declared = request.headers.get("content-length")
    return "transfer-encoding" in request.headers or (declared is not None and int(declared) > LARGE_BYTES)


def _check_media_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(415, "unsupported-media-type", "Send JSON with `Content-Type: application/json`.")


def _validated(received: bytes, body: TypeAdapter[Any], limits: BodyLimits) -> Any:
    try:
        parsed = strict_json.parse(received, max_values=limits.max_values)
    except ValueError as error:
        detail = f"The body is not usable JSON: {error}."
        if limits.malformed_is_unprocessable:
            raise RequestError(422, "malformed-json", detail) from None
        raise RequestError(400, "malformed-json", detail) from None
    try:
        return body.validate_python(parsed)
    except ValidationError as invalid:
        raise problems.invalid(reasons(invalid, body)) from None


def _check_query(request: Request, known: set[str]) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    wrong = [
        {"field": plain(name), "message": unknown_field(name, sorted(known), noun="a query parameter")}
        for name in dict.fromkeys(given)
        if name not in known
    ]
    wrong += [{"field": name, "message": "must be given once"} for name in sorted(known) if given.count(name) > 1]
    if wrong:
        raise problems.invalid_fields(wrong[: problems.MAX_FIELDS])


def _authenticators(dependant: Dependant) -> Iterator[OrganizationSecurity]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, OrganizationSecurity):
            yield inner.call
        yield from _authenticators(inner)
