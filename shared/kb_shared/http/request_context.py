"""What surrounds every request: its id, its trace, and the last resort when nothing else knew the error."""

import re
import secrets
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb_shared import tracing

HEADER = "X-Request-Id"
PROBLEM_MEDIA_TYPE = "application/problem+json"

_log = structlog.get_logger()
_USABLE = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestContext:
    """The outermost layer of an application of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get(HEADER))
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            tracing.start(headers.get(tracing.HEADER))
            try:
                await self._app(scope, receive, send_with_id)
            except Exception:  # the edge: whatever it was, the caller gets an answer and the log only its type
                _log.exception("http.failed", method=scope["method"], route=_route_path(scope))
                if started:
                    raise
                await _internal_error(request_id)(scope, receive, send_with_id)


def request_id_of(scope: MutableMapping[str, Any]) -> str:
    return str(scope["state"]["request_id"])


def _request_id(given: str | None) -> str:
    return given if given is not None and _USABLE.fullmatch(given) else secrets.token_hex(16)


def _route_path(scope: Scope) -> str | None:
    # The template, never the path itself: that holds ids.
    return getattr(scope.get("route"), "path", None)


def problem_body(status: int, slug: str, detail: str, *, request_id: str) -> dict[str, object]:
    """What every problem has."""
    return {
        "type": slug,
        "title": slug.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        "request_id": request_id,
    }


def _internal_error(request_id: str) -> JSONResponse:
    detail = "This is our fault; tell the operator the request_id."
    body = problem_body(500, "internal-error", detail, request_id=request_id)
    return JSONResponse(body, 500, media_type=PROBLEM_MEDIA_TYPE)
