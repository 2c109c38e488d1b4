"""Selects the passages that fit into a token budget. Pure.

Passages are taken by priority until one does not fit. If more than 100 tokens are left, the beginning of that passage
is kept, cut after a sentence or otherwise after a word. All passages after it are left out.
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

"""Size of a context whose request names none."""
CUT_ABOVE_TOKENS: Final = 100
"""Number of tokens up to which the beginning of a passage is too short to be useful."""
_MAX_CHARACTERS_PER_TOKEN: Final = 16
"""Limit of characters per token when a beginning is cut, three times as many as text has. Counting tokens of longer
texts takes long: 32 line feeds are one token."""
_WEIGHT_OF_SIMILARITY: Final = 0.7
_OLD: Final = timedelta(days=365)
"""Age from which the recency of a document is 0."""

_SENTENCE_END: Final = re.compile(r"[.!?\u2026][\"')\]\u201d\u2019]*(?=\s)|[\u3002\uff01\uff1f]|\n(?=[^\S\n]*\n)")
_WORD_END: Final = re.compile(r"(?<=\S)(?=\s)|(?<=[\u3040-\u30ff\u3400-\u9fff])(?=\S)")


@dataclass(frozen=True, slots=True)
class BudgetedPassage:
    text: str
    tokens: int
    """Tokens of `text`."""
    relevance: float
    """Relevance from 0 to 1."""
    upload_date: datetime


@dataclass(frozen=True, slots=True)
class FittedPassage:
    position: int
    """Index of the passage among those given."""
    text: str
    """The whole text, or its beginning."""
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class FittedContext:
    kept: Sequence[FittedPassage]
    """Passages that fit, by priority."""
    omitted_count: int
    total_tokens: int


def fit_passages(
    passages: Sequence[BudgetedPassage],
    *,
    max_tokens: int,
    prioritize_by: PrioritizeBy,
    now: datetime,
) -> FittedContext:
    """Keep the passages that fit into `max_tokens`.

    Args:
        passages: Passages, best first. Passages with the same priority keep their order.
        now: Time at which the age of a document is measured.
    """
    kept: list[FittedPassage] = []
    left = max_tokens
    for position in _by_priority(passages, prioritize_by, now=now):
        passage = passages[position]
        if passage.tokens > left:
            if (cut := cut_beginning(passage.text, left)) is not None:
                kept.append(FittedPassage(position, cut, count_tokens(cut), truncated=True))
            break
        kept.append(FittedPassage(position, passage.text, passage.tokens, truncated=False))
        left -= passage.tokens
    return FittedContext(kept, len(passages) - len(kept), sum(one.tokens for one in kept))


def _by_priority(passages: Sequence[BudgetedPassage], prioritize_by: PrioritizeBy, *, now: datetime) -> Sequence[int]:
    if prioritize_by == "similarity":
        # The rank is used, not the relevance: it also contains what the text index found.
        return range(len(passages))
    scores = [_priority(passage, prioritize_by, now=now) for passage in passages]
    return sorted(range(len(passages)), key=lambda position: -scores[position])


def _priority(passage: BudgetedPassage, prioritize_by: PrioritizeBy, *, now: datetime) -> float:
    if prioritize_by == "recency":
        return passage.upload_date.timestamp()
    recency = min(max(1 - (now - passage.upload_date) / _OLD, 0.0), 1.0)
    return _WEIGHT_OF_SIMILARITY * passage.relevance + (1 - _WEIGHT_OF_SIMILARITY) * recency


def cut_beginning(text: str, max_tokens: int) -> str | None:
    """Return the longest beginning that fits, cut after a sentence or else a word; None if it would be too short."""
    if max_tokens <= CUT_ABOVE_TOKENS:
        return None
    # One more character than fits, because the end of a sentence is recognized by the white space after it.
    text = text[: max_tokens * _MAX_CHARACTERS_PER_TOKEN + 1]
    tokens_at = tokens_before(text)
    end = int(np.searchsorted(tokens_at, max_tokens, side="right"))
    for ends in (_SENTENCE_END, _WORD_END):
        cuts = [match.end() for match in ends.finditer(text, 0, end)]
        if longest := _longest_within(text, cuts, max_tokens=max_tokens, tokens_at=tokens_at):
            return longest
    return None


def _longest_within(text: str, cuts: Sequence[int], *, max_tokens: int, tokens_at: NDArray[np.uint32]) -> str:
    """Return `text` up to the last of `cuts` that fits; "" if none does."""
    blank = len(text) - len(text.lstrip())
    allowance = max_tokens
    while allowance > 0:
        within = bisect_right(cuts, allowance, key=lambda cut: int(tokens_at[cut]))
        if within == 0 or (cut := cuts[within - 1]) <= blank:
            return ""
        # The beginning alone can have a few tokens more than the same part had within the whole text.
        surplus = count_tokens(text[:cut]) - max_tokens
        if surplus <= 0:
            return text[:cut]
        allowance -= surplus
    return ""
