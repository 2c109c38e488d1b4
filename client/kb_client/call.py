"""One request of the API as data: what the methods of resources return to what sends it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from kb_client.unset import without_unset

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")

MAX_PAGE: Final = 100
ORGANIZATION_PATH: Final = "/v0/orgs/{organization_id}"

UploadProgress: TypeAlias = Callable[[int, int], None]
"""Function that is called with the number of bytes sent so far and of all bytes."""
BatchProgress: TypeAlias = Callable[[int, int], None]
"""Function that is called with the number of documents that were answered and of those put so far."""


@dataclass(frozen=True, slots=True)
class UploadedText:
    """A text, or a file, that is sent as it is, in pieces."""

    content: bytes
    on_progress: UploadProgress | None = None
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[R]):
    """A request, and the model of its answer."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """Path below the organization, with placeholders, such as `/tags/{tag_id}`."""
    answer: type[R]
    ids: Mapping[str, str] = field(default_factory=dict)
    """Values of the placeholders."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    upload: UploadedText | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    accept: str = "application/json"
    """Media type of the answer."""
    only_reads: bool = False
    """True for a POST without an effect that could happen twice, such as a search."""
    within_s: float | None = None
    """Default time limit of a call that takes longer than others."""

    def relative_path(self) -> str:
        """Return the path with its ids, each encoded as one segment."""
        return self.path.format_map({name: _segment(value) for name, value in self.ids.items()})

    def given_query(self) -> dict[str, Any]:
        """Return the query parameters that were given. None stands for an absent one."""
        return {name: value for name, value in without_unset(self.query).items() if value is not None}

    def given_headers(self) -> dict[str, str]:
        return {name: value for name, value in without_unset(self.headers).items() if value is not None}


@dataclass(frozen=True, slots=True)
class PageCall(ApiCall[R], Generic[R, T]):
    """A request for one page of a list."""

    items: Callable[[R], Sequence[T]] = lambda _: ()
    """Takes the items out of the answer."""

    def first(self) -> Self:
        """Return the call of the first page, with as many items as a page may have unless a limit was given."""
        query = without_unset(self.query)
        return replace(self, query={**query, "limit": query.get("limit") or MAX_PAGE})

    def after(self, page: R) -> Self | None:
        """Return the call of the next page; None after the last."""
        if hasattr(page, "next_after"):
            return (
                replace(self, query={**self.query, "after": page.next_after})
                if getattr(page, "has_more", False)
                else None
            )
        # An older server has no cursor in most lists.
        if "next_cursor" in page.model_fields_set:
            cursor = getattr(page, "next_cursor", None)
            return None if cursor is None else replace(self, query={**self.query, "skip": None, "cursor": cursor})
        skipped = (self.given_query().get("skip") or 0) + len(self.items(page))
        if not self.items(page) or skipped >= getattr(page, "total_count", 0):
            return None
        return replace(self, query={**self.query, "skip": skipped})


def joined_values(values: str | Sequence[str] | None) -> str | None:
    """Return a query parameter with several values, which commas join; one that was not given stays None."""
    return values if values is None or isinstance(values, str) else ",".join(values)


def _segment(identifier: str) -> str:
    if not identifier:
        raise ValueError("an id is empty")
    # A segment of dots would lead elsewhere in the path.
    return quote(identifier, safe="") if identifier.strip(".") else identifier.replace(".", "%2E")
