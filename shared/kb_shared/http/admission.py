"""How many requests a process works on at once. Those that last have places of their own."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.types import Scope

from kb_shared.http.places import Places
from kb_shared.settings import HttpSettings

_LASTS: Final = "lasts"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def lasting(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint whose requests may last, such as a stream."""
    setattr(endpoint, _LASTS, True)
    return endpoint


class Admission:
    """The places of an application."""

    def __init__(self, settings: HttpSettings) -> None:
        self._requests = Places("requests", settings.http_max_requests, settings.http_max_requests_of_organization)
        self._streams = Places("runs and streams", settings.http_max_streams, settings.http_max_streams_of_organization)

    def admit(self, scope: Scope, organization_id: str, *, endpoint: object) -> None:
        """Take a place for a request to `endpoint`. Raises RequestError 429, 503."""
        places = self._streams if getattr(endpoint, _LASTS, False) else self._requests
        places.occupy(scope, organization_id)
