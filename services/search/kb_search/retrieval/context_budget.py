"""Which passages a context has room for: pure, so that whoever hands text to a model decides alike.

Passages are taken in the order of their priority until one does not fit. Of that one the beginning is kept when over
100 tokens are left, cut after a sentence or else after a word; all that come after it are left out.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kb_shared.text.tokens import count_tokens, tokens_before

PrioritizeBy: TypeAlias = Literal["similarity", "recency", "balanced"]

DEFAULT_MAX_TOKENS: Final = 4_000
"""Size of a context whose request names none."""
CUT_ABOVE_TOKENS: Final = 100
"""With so few tokens left, the beginning of a passage says nothing."""
_MAX_CHARACTERS_PER_TOKEN: Final = 16
"""Limit of characters per token when a beginning is cut, three times as many as text has. Counting tokens of longer
texts takes long: 32 line feeds are one token."""
_WEIGHT_OF_SIMILARITY: Final = 0.7
_OLD: Final = timedelta(days=365)
"""At this age nothing is recent any more."""

_SENTENCE_END: Final = re.compile(r"[.!?\u2026][\"')\]\u201d\u2019]*(?=\s)|[\u3002\uff01\uff1f]|\n(?=[^\S\n]*\n)")
_WORD_END: Final = re.compile(r"(?<=\S)(?=\s)|(?<=[\u3040-\u30ff\u3400-\u9fff])(?=\S)")


@dataclass(frozen=True, slots=True)
class BudgetedPassage:
    text: str
    tokens: int
    """Tokens of `text`."""
    relevance: float
    """0..1."""
    upload_date: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    position: int
    """Index of the passage among those given."""
    text: str
    """All of it, or its beginning."""
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Fitted:
    kept: Sequence[Kept]
    """By priority."""
    omitted_count: int
    total_tokens: int


def fit(
    passages: Sequence[BudgetedPassage],
    *,
    max_tokens: int,
    prioritize_by: PrioritizeBy,
    now: datetime,
) -> Fitted:
    """Keep what `max_tokens` have room for.

    Args:
        passages: best first; among equals of a priority the order stays.
        now: what the age of a document is measured from.
    """
    kept: list[Kept] = []
    left = max_tokens
    for position in _by_priority(passages, prioritize_by, now):
        passage = passages[position]
        if passage.tokens > left:
            if (cut := beginning(passage.text, left)) is not None:
                kept.append(Kept(position, cut, count_tokens(cut), truncated=True))
            break
        kept.append(Kept(position, passage.text, passage.tokens, truncated=False))
        left -= passage.tokens
    return Fitted(kept, len(passages) - len(kept), sum(one.tokens for one in kept))


def _by_priority(passages: Sequence[BudgetedPassage], prioritize_by: PrioritizeBy, now: datetime) -> Sequence[int]:
    if prioritize_by == "similarity":
        # As they were ranked, which says more than the number beside it.
        return range(len(passages))
    scores = [_priority(passage, prioritize_by, now) for passage in passages]
    return sorted(range(len(passages)), key=lambda position: -scores[position])


def _priority(passage: BudgetedPassage, prioritize_by: PrioritizeBy, now: datetime) -> float:
    if prioritize_by == "recency":
        return passage.upload_date.timestamp()
    recency = min(max(1 - (now - passage.upload_date) / _OLD, 0.0), 1.0)
    return _WEIGHT_OF_SIMILARITY * passage.relevance + (1 - _WEIGHT_OF_SIMILARITY) * recency


def beginning(text: str, max_tokens: int) -> str | None:
    """Give the longest beginning of whole sentences, else of whole words, that fits; None if there is none worth it."""
    if max_tokens <= CUT_ABOVE_TOKENS:
        return None
    # The end of a sentence is followed by white space: one character more than there is room for.
    text = text[: max_tokens * _MAX_CHARACTERS_PER_TOKEN + 1]
    tokens_at = tokens_before(text)
    end = int(np.searchsorted(tokens_at, max_tokens, side="right"))
    for ends in (_SENTENCE_END, _WORD_END):
        cuts = [match.end() for match in ends.finditer(text, 0, end)]
        if longest := _longest_within(text, cuts, max_tokens, tokens_at):
            return longest
    return None


def _longest_within(text: str, cuts: Sequence[int], max_tokens: int, tokens_at: NDArray[np.uint32]) -> str:
    """Give `text` up to the last of `cuts` that fits; "" if none does."""
    blank = len(text) - len(text.lstrip())
    allowance = max_tokens
    while allowance > 0:
        within = bisect_right(cuts, allowance, key=lambda cut: int(tokens_at[cut]))
        if within == 0 or (cut := cuts[within - 1]) <= blank:
            return ""
        # Cut out of the text, its beginning may have a few tokens more than it had within the text.
        surplus = count_tokens(text[:cut]) - max_tokens
        if surplus <= 0:
            return text[:cut]
        allowance -= surplus
    return ""
