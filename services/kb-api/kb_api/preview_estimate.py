"""Adds up what a preview has counted of documents, or estimates the whole from a random sample of them. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Final

_TWO_SIDED_95: Final = 1.96
"""Standard errors to each side of a 95 % confidence interval."""


@dataclass(frozen=True, slots=True)
class CountedDocument:
    """Additions of one document to a KB, after the documents that were counted before it."""

    chunks: int
    embeddings: int
    """Number of texts to embed that no earlier document has."""
    unpaid: int
    """Number of `embeddings` that are not in the cache."""
    nano_usd: int
    tokens: int
    """Estimated number of tokens of what is unpaid."""
    is_too_large: bool = False


@dataclass(frozen=True, slots=True)
class DocumentsEstimate:
    documents: int
    too_large: int
    chunks: int
    embeddings: int
    unpaid: int
    nano_usd: int
    tokens: int
    chunks_error: int
    """Half the width of the 95 % confidence interval; 0 if all documents were counted."""
    unpaid_error: int


def estimate_documents(counted: Sequence[CountedDocument], total: int) -> DocumentsEstimate:
    """Return the sums over `total` documents, of which `counted` are all, or a random sample."""
    total = max(total, len(counted))

    def scaled(value: Callable[[CountedDocument], int]) -> int:
        summed = sum(map(value, counted))
        return summed if total == len(counted) else round(summed * total / len(counted))

    too_large = scaled(lambda each: each.is_too_large)
    return DocumentsEstimate(
        documents=total - too_large,
        too_large=too_large,
        chunks=scaled(lambda each: each.chunks),
        embeddings=scaled(lambda each: each.embeddings),
        unpaid=scaled(lambda each: each.unpaid),
        nano_usd=scaled(lambda each: each.nano_usd),
        tokens=scaled(lambda each: each.tokens),
        chunks_error=_error([each.chunks for each in counted], total),
        unpaid_error=_error([each.unpaid for each in counted], total),
    )


def _error(values: Sequence[int], total: int) -> int:
    """Return half the width of the confidence interval of the sum over `total` documents."""
    if len(values) == total:
        return 0
    if len(values) < 2:
        return sum(values) * total
    correction = math.sqrt(1 - len(values) / total)
    return math.ceil(_TWO_SIDED_95 * stdev(values) / math.sqrt(len(values)) * correction * total)
