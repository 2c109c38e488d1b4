"""Errors of search indexes, so that an empty result always means that nothing was found.

If an index is missing, `$vectorSearch` and `$search` return no documents and no error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pymongo.errors import OperationFailure

from kb_shared.errors import RequestError
from kb_shared.mongo import search_indexes
from kb_shared.mongo.vectors import Chunks

_UNKNOWN_ERROR: Final = 8
_PLAN_KILLED = 175  # the collection or an index was dropped while the query ran
_OVERLOADED: Final = 489
_TEMPORARY_TEXTS: Final = (
    "while in state",
    "cursorId: ",  # the index was dropped or replaced while the query ran
    "needs to be indexed as",  # the index is being updated for a new filterable key
)
_TOO_MANY_CLAUSES: Final = "maxClauseCount"


def index_not_ready() -> RequestError:
    return RequestError(
        503,
        "index-not-ready",
        "A search index of this knowledge base is being built; try again in 2 s.",
        retry_after_s=2,
    )


@contextmanager
def map_index_errors() -> Iterator[None]:
    """Map the errors of a search index that a caller can do something about: wait, or ask for less."""
    try:
        yield
    except OperationFailure as error:
        text = str(error) if error.code == _UNKNOWN_ERROR else ""
        if error.code == _PLAN_KILLED or any(part in text for part in _TEMPORARY_TEXTS):
            raise index_not_ready() from error
        if _TOO_MANY_CLAUSES in text:
            raise RequestError(
                422,
                "query-refused",
                "The query and its filter have more words and conditions than the search index takes: shorten one of "
                "them, or search with mode vector.",
            ) from error
        if error.code == _OVERLOADED:
            raise RequestError(
                503, "search-overloaded", "Too many searches at once; try again in 1 s.", retry_after_s=1
            ) from error
        raise


async def require_queryable(chunks: Chunks, name: str) -> None:
    """Raise RequestError 503 unless the deployment reports that this index of `chunks` can be queried."""
    found = await search_indexes.list_indexes(chunks.collection, name)
    if not any(index.queryable for index in found):
        raise index_not_ready()
