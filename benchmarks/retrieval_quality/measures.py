"""Measures of a ranking against judgements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.retrieval_quality.dataset import Judgements

DEPTH = 10


@dataclass(frozen=True, slots=True)
class Measures:
    ndcg_at_10: float
    recall_at_10: float
    mrr: float
    """1 / rank of the first relevant document among the ten, else 0."""


def measure(ranking: Sequence[str], relevant: Judgements) -> Measures:
    """Measure the first ten documents of a ranking.

    Gains are the relevances themselves, discounted by log2(rank + 1), as trec_eval does.
    """
    first = ranking[:DEPTH]
    gains = [relevant.get(doc_id, 0.0) for doc_id in first]
    best = sorted(relevant.values(), reverse=True)[:DEPTH]
    answers = {doc_id for doc_id, relevance in relevant.items() if relevance > 0}
    ranks = [rank for rank, doc_id in enumerate(first, start=1) if doc_id in answers]
    return Measures(
        ndcg_at_10=_discounted(gains) / _discounted(best),
        recall_at_10=len(ranks) / len(answers),
        mrr=1 / ranks[0] if ranks else 0.0,
    )


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
