"""Restricts API keys that are limited to KBs to routes that keep to these KBs.

A route with a `{kb_id}` in its path is open to them for their KBs, and 404 for others. Any other route is closed to
them, so that a new route reveals nothing, unless its handler keeps to `caller.kb_ids` itself (`open_to_limited_keys`).
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

from fastapi import Request

from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller

_ACCESS: Final = "access_of_limited_keys"

AccessOfLimitedKeys: TypeAlias = Literal["open", "closed", "by_path"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def open_to_limited_keys(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that shows and changes nothing but what belongs to `caller.kb_ids`."""
    setattr(endpoint, _ACCESS, "open")
    return endpoint


def closed_to_limited_keys(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that shows more than what belongs to the KB of its path."""
    setattr(endpoint, _ACCESS, "closed")
    return endpoint


def access_of(endpoint: object, path: str) -> AccessOfLimitedKeys:
    """Return what limited keys may do with the route of this path template."""
    access: AccessOfLimitedKeys = getattr(endpoint, _ACCESS, "by_path" if "{kb_id}" in path else "closed")
    return access


def check_access(request: Request, caller: Caller, *, endpoint: object, path: str) -> None:
    """Check that the key may use the route, by the path alone. Raises RequestError 403, NotFound."""
    if caller.kb_ids is None:
        return
    access = access_of(endpoint, path)
    if access == "closed":
        raise key_limited("This call is about the whole organization")
    if "kb_id" in request.path_params:
        caller.require_knowledge_base(request.path_params["kb_id"])


def key_limited(why: str) -> RequestError:
    """Create the error for a call that a limited key may not make; `why` is the beginning of its detail."""
    return RequestError(
        403, "key-limited", f"{why}, and this key is limited to some of its knowledge bases; use another key."
    )
