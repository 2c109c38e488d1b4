"""Metrics and logs of a request and its response."""

from time import perf_counter
from typing import Final

import structlog
from starlette.types import Scope

from kb_shared.observability import metrics
from kb_shared.observability.tracing import TraceSpan

METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER_METHOD: Final = "other"
"""Label of all other methods, because a caller may send any."""
NO_ROUTE: Final = ""
CLIENT_CLOSED_REQUEST: Final = 499
"""Status, for metrics, of a request whose client disconnected before the response."""
PROBED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are not logged: probes call them continually and get the reason in the response."""

_IDS: Final = ("organization_id", "kb_id", "document_id")
"""Parameters of paths that a span gets as attributes."""

_log = structlog.get_logger()


class Exchange:
    """A request with its response, from the head of the request on; `end` counts and logs it."""

    def __init__(self, scope: Scope, span: TraceSpan | None = None) -> None:
        self._scope = scope
        self._span = span
        self._begun = perf_counter()
        self.status: int | None = None
        """Status of the answer; None until it begins."""

    @property
    def route(self) -> str:
        """Return the template of the path; the path itself contains ids."""
        route = self._scope.get("route")
        if route is None and (endpoint := self._scope.get("endpoint")) is not None:
            # FastAPI sets only routes of its own.
            routes = self._scope["app"].routes
            route = next((each for each in routes if getattr(each, "endpoint", None) is endpoint), None)
        return getattr(route, "path", NO_ROUTE)

    def end(self, *, failed: bool) -> None:
        """Count and log the exchange.

        Args:
            failed: whether an error was logged already.
        """
        status, route = self.status or CLIENT_CLOSED_REQUEST, self.route
        method = self._scope["method"] if self._scope["method"] in METHODS else OTHER_METHOD
        seconds = perf_counter() - self._begun
        metrics.HTTP_REQUESTS.labels(route, method, str(status)).inc()
        metrics.HTTP_REQUEST_SECONDS.labels(route, method).observe(seconds)
        if self._span is not None and self._span.is_recorded:
            self._complete(self._span, route, method, status=status)
            if status >= 500 and not failed:  # the first status of an error that is not the caller's
                self._span.fail(str(status))
        if status < 400 or failed or route in PROBED:  # the first status of an error
            return
        fields = {"method": method, "route": route, "status": status, "duration_s": round(seconds, 3)}
        if (problem := self._scope["state"].get("problem")) is not None:
            fields["problem"] = problem
        if status >= 500:  # the first status of an error that is not the caller's
            _log.warning("http.failed", **fields)
        else:
            _log.info("http.refused", **fields)

    def _complete(self, span: TraceSpan, route: str, method: str, *, status: int) -> None:
        span.rename(f"{method} {route}".strip())
        span.set({"http.request.method": method, "http.route": route, "http.response.status_code": status})
        if status < 400:  # the ids exist, or are those of something new
            ids = self._scope.get("path_params", {})
            span.set({f"kb.{name}": ids[name] for name in _IDS if name in ids})
