"""Raises the text scores of chunks whose document has further chunks with words of the query (ADR 12). Pure.

The words of a question can be spread over several chunks of the document that answers it: the document contains all
of them, its best chunk only some.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from kb_shared.mongo.vectors import document_of

_NEXT: Final = 0.5
"""Weight of each further chunk relative to the one before it, so that a long document gains little by its length."""


def add_document_support(scores: Mapping[str, float], share: float) -> dict[str, float]:
    """Add to the score of each chunk a share of the scores of its document's other chunks.

    The sum of a document is the second best score, half of the third, a quarter of the fourth and so on: less than
    twice the second best, for any number of chunks. All chunks of a document gain the same, so their order does not
    change. If each document has one chunk, nothing changes.

    Example with share 0.15: chunks of one document score 10, 8 and 6. Each gains 0.15 * (8 + 6 / 2) = 1.65.

    Args:
        scores: BM25 scores, 0 or more, by chunk id.
        share: Share of the sum that is added; 0 to change nothing.
    """
    found = dict(scores)
    if not share:
        return found
    by_document: defaultdict[str, list[str]] = defaultdict(list)
    for chunk_id in scores:
        by_document[document_of(chunk_id)].append(chunk_id)
    for chunk_ids in by_document.values():
        if len(chunk_ids) > 1:
            support = share * _sum_of_further_scores(scores[chunk_id] for chunk_id in chunk_ids)
            found |= {chunk_id: scores[chunk_id] + support for chunk_id in chunk_ids}
    return found


def _sum_of_further_scores(scores: Iterable[float]) -> float:
    others = sorted(scores)[:-1]
    # From the lowest to the second best: each step halves the sum so far and adds the next score.
    return [0.0, *accumulate(others, lambda lesser, score: lesser * _NEXT + score)][-1]
