"""Hits of a search: ids and scores, for mongod to fetch the documents."""

from typing import Any, NamedTuple


class Hits(NamedTuple):
    """Best first; `scores[i]` belongs to the document whose _id is `ids[i]`."""

    ids: list[Any]
    scores: list[float]


NO_HITS = Hits([], [])
