"""Reads as many items of a list as a command shows, however many pages these are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, cast

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kb_client.call import PageCall
    from kb_client.sync_client.operation import SyncBoundListing

T = TypeVar("T", bound="BaseModel")

RowLimit = Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Number of rows; 0 for all.")]
USUAL_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class ListedItems(Generic[T]):
    items: list[T]
    total_count: int
    """Number of items on the server."""

    def to_json(self, name: str) -> dict[str, Any]:
        """Return the items as one page of the API, in the field `name`."""
        return {
            name: [each.model_dump(mode="json", by_alias=True) for each in self.items],
            "total_count": self.total_count,
        }


def read_items(listing: "SyncBoundListing[..., Any, T]", *, limit: int, **filters: Any) -> ListedItems[T]:
    """Return the first items of a list; all of them if `limit` is 0."""
    from kb_client.call import MAX_PAGE

    items_of = cast("PageCall[BaseModel, T]", listing.describe(**filters)).items
    page_size = min(limit or MAX_PAGE, MAX_PAGE)
    items: list[T] = []
    while True:
        page = listing(**filters, skip=len(items), limit=page_size)
        found = items_of(page)
        items += found
        if not found or len(items) >= min(limit or page.total_count, page.total_count):
            return ListedItems(items[: limit or None], page.total_count)
