"""Which of the hits of the search index are results, in which order; and which page of them is answered.

The index trails the collection, so its hits are only ids with scores. What they are is what one snapshot of the
collection says.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kb_shared.mongo.database import Row
from kb_shared.mongo.vectors import visible

_OVERFETCH: Final = 1.2
_OVERFETCH_AT_LEAST: Final = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that may be shown, as the snapshot has it."""

    chunk: Row
    score: float
    """As the index gave it: (1 + cos) / 2."""

    @property
    def relevance(self) -> float:
        """0..1; rounding of float32 can put a score slightly beyond."""
        return min(max(self.score, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Page:
    hits: Sequence[Hit]
    total_count: int
    total_count_is_exact: bool


def candidates_for(*, skip: int, top_k: int) -> int:
    """How many hits to ask the index for, so that a page stays full when some of them may not be shown."""
    return math.ceil((skip + top_k) * _OVERFETCH) + _OVERFETCH_AT_LEAST


def showable(scores: Mapping[str, float], rows: Mapping[str, Row], indexed: Collection[str]) -> list[Hit]:
    """Give the hits that may be shown together, best first.

    Args:
        scores: of the index, by chunk id.
        rows: of those chunks that are there and match the filter, by chunk id, of one snapshot.
        indexed: the documents that are in the KB at that snapshot.
    """
    by_document: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        if row["document_id"] in indexed:
            by_document[row["document_id"]].append(row)
    hits = [Hit(row, scores[row["_id"]]) for of_one in by_document.values() for row in visible(of_one)]
    # Equal scores stand in a fixed order, so that pages neither repeat nor miss a hit.
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk["document_id"], hit.chunk["chunk_index"]))


def page_of(hits: Sequence[Hit], *, skip: int, top_k: int, min_score: float | None, exhausted: bool) -> Page:
    """Cut one page out of the hits.

    Args:
        hits: all that may be shown, best first.
        min_score: of relevance.
        exhausted: the index has no hits beyond these.
    """
    relevant = [hit for hit in hits if min_score is None or hit.relevance >= min_score]
    return Page(
        hits=relevant[skip : skip + top_k],
        total_count=len(relevant),
        # Whatever the index still has is worse than a hit that is not relevant enough already.
        total_count_is_exact=exhausted or len(relevant) < len(hits),
    )
