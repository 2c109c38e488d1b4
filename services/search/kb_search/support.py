"""What the chunks of a document say for each other. Pure.

A question may have its words in several chunks of the document that answers it: where the document as a whole has all
of them, its best chunk has some.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from kb_shared.mongo.vectors import document_of

_NEXT: Final = 0.5
"""Weight of each further chunk relative to the one before: a long document gains little by its length."""


def supported(scores: Mapping[str, float], share: float) -> dict[str, float]:
    """Add to the score of each chunk a share of what its document has beyond the best of its chunks.

    That is the second best, half of the third, a quarter of the fourth and so on: less than twice the second best,
    however many there are. So chunks of one document keep their order and distances, and where each has a document of
    its own nothing changes.

    Args:
        scores: 0 or more, by chunk id.
    """
    found = dict(scores)
    if not share:
        return found
    by_document: defaultdict[str, list[str]] = defaultdict(list)
    for chunk_id in scores:
        by_document[document_of(chunk_id)].append(chunk_id)
    for chunk_ids in by_document.values():
        if len(chunk_ids) > 1:
            support = share * _beyond_the_best(scores[chunk_id] for chunk_id in chunk_ids)
            found |= {chunk_id: scores[chunk_id] + support for chunk_id in chunk_ids}
    return found


def _beyond_the_best(scores: Iterable[float]) -> float:
    others = sorted(scores)[:-1]
    # From the least to the best: each halves all that came before it.
    return [0.0, *accumulate(others, lambda lesser, score: lesser * _NEXT + score)][-1]
