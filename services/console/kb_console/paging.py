"""Pages of lists."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Query

ROWS: Final = 20
_LAST_PAGE: Final = 5_000


@dataclass(frozen=True, slots=True)
class ListPage:
    page: int
    """Number of the page, from 1."""

    @property
    def skip(self) -> int:
        return (self.page - 1) * ROWS


async def _find_page(page: Annotated[int, Query(ge=1, le=_LAST_PAGE)] = 1) -> ListPage:
    return ListPage(page)


Paging: TypeAlias = Annotated[ListPage, Depends(_find_page)]
