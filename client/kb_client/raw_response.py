"""The answer of a request with its status and headers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RawResponse(Generic[T]):
    """An answer and what came with it, as `with_raw_response` returns it."""

    status_code: int
    headers: Mapping[str, str]
    """Headers; upper and lower case make no difference."""
    content: bytes = field(repr=False)
    parsed: T
    """The answer as the method without `with_raw_response` returns it."""

    @property
    def etag(self) -> str | None:
        """Version of the resource, for `if_match` of a later change."""
        return self.headers.get("ETag")

    @property
    def request_id(self) -> str | None:
        """Id of the request, as in the logs of the service."""
        return self.headers.get("X-Request-Id")
