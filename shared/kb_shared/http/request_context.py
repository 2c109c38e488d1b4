"""Surrounds every request: gives it an id and a trace, and answers 500 for an error that nothing else handles."""

import re
import secrets
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb_shared.http.body_deadline import BodyDeadline
from kb_shared.http.content_encoding import REFUSAL, has_coded_body
from kb_shared.http.exchange import PROBED, Exchange
from kb_shared.http.security_headers import with_security_headers
from kb_shared.observability import spans, tracing
from kb_shared.observability.tracing import TraceSpan

HEADER = "X-Request-Id"
PROBLEM_MEDIA_TYPE = "application/problem+json"

_log = structlog.get_logger()
_USABLE = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestContext:
    """Outermost middleware of an application."""

    def __init__(self, app: ASGIApp, *, body_timeout_s: float) -> None:
        self._app = app
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get(HEADER))
        # Closed when the response has been sent, however long it streams.
        with ExitStack() as resources, structlog.contextvars.bound_contextvars(request_id=request_id):
            scope.setdefault("state", {}).update(request_id=request_id, resources=resources)
            if "content-length" in headers or "transfer-encoding" in headers:
                receive = BodyDeadline(receive, timeout_s=self._body_timeout_s)
            app = _refuse_coding(scope) if has_coded_body(headers) else self._app
            with _trace(scope, headers, request_id) as span:
                await self._exchange(scope, receive, send, app=app, span=span)

    async def _exchange(
        self, scope: Scope, receive: Receive, send: Send, *, app: ASGIApp, span: TraceSpan | None
    ) -> None:
        exchange = Exchange(scope, span)
        request_id = request_id_of(scope)
        failed = False

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = int(message["status"])
                MutableHeaders(scope=message)[HEADER] = request_id
                message["headers"] = with_security_headers(message["headers"])
            await send(message)

        try:
            await app(scope, receive, send_with_headers)
        except Exception as error:  # the edge: the caller gets a response, and the log gets the type of any error
            failed = True
            if span is not None:
                span.fail(error)
            _log.exception("http.failed", method=scope["method"], route=exchange.route)
            if exchange.status is not None:
                raise
            await _internal_error(request_id)(scope, receive, send_with_headers)
        finally:
            exchange.end(failed=failed)


def _trace(scope: Scope, headers: Headers, request_id: str) -> AbstractContextManager[TraceSpan | None]:
    if scope["path"] in PROBED:
        return nullcontext()
    return tracing.trace(spans.HTTP_REQUEST, {"kb.request_id": request_id}, incoming=headers.get(tracing.HEADER))


def request_id_of(scope: MutableMapping[str, Any]) -> str:
    return str(scope["state"]["request_id"])


def hold_until_answered(scope: MutableMapping[str, Any], resource: AbstractContextManager[object]) -> None:
    """Enter `resource`, and leave it when the request has been answered."""
    resources: ExitStack = scope["state"]["resources"]
    resources.enter_context(resource)


def _request_id(given: str | None) -> str:
    return given if given is not None and _USABLE.fullmatch(given) else secrets.token_hex(16)


def problem_body(status: int, slug: str, detail: str, *, request_id: str) -> dict[str, object]:
    """Build the fields that every problem has."""
    return {
        "type": slug,
        "title": slug.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        "request_id": request_id,
    }


def _refuse_coding(scope: Scope) -> JSONResponse:
    body = problem_body(415, "unsupported-media-type", REFUSAL, request_id=request_id_of(scope))
    scope["state"]["problem"] = body["type"]
    return JSONResponse(body, 415, headers={"Accept-Encoding": "identity"}, media_type=PROBLEM_MEDIA_TYPE)


def _internal_error(request_id: str) -> JSONResponse:
    detail = "The service failed unexpectedly. Report the request_id to the operator of this deployment."
    body = problem_body(500, "internal-error", detail, request_id=request_id)
    return JSONResponse(body, 500, media_type=PROBLEM_MEDIA_TYPE)
