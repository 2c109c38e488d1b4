"""Limits of concurrent requests in a process. Long-running requests have a limit of their own."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.types import Scope

from kb_shared.http.concurrency_limit import ConcurrencyLimit
from kb_shared.settings import HttpSettings

_LONG_RUNNING: Final = "is_long_running"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def long_running(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint whose requests may take long, such as a stream."""
    setattr(endpoint, _LONG_RUNNING, True)
    return endpoint


class Admission:
    """Applies the limits of an application."""

    def __init__(self, settings: HttpSettings) -> None:
        self._requests = ConcurrencyLimit(
            "requests", settings.http_max_requests, limit_of_organization=settings.http_max_requests_of_organization
        )
        self._streams = ConcurrencyLimit(
            "runs and streams",
            settings.http_max_streams,
            limit_of_organization=settings.http_max_streams_of_organization,
        )

    def admit(self, scope: Scope, organization_id: str, *, endpoint: object) -> None:
        """Count a request to `endpoint` until it has been answered. Raises RequestError 429, 503."""
        limit = self._streams if getattr(endpoint, _LONG_RUNNING, False) else self._requests
        limit.hold_request_slot(scope, organization_id)
