"""The `token` and `word` chunkers: cuts between tokens, at a grapheme or at a word.

The other chunkers leave to `split_at_words` what they find no coarser place to cut in.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from kb_shared.chunking.boundaries import starts_grapheme, starts_word, trimmed
from kb_shared.chunking.chunk import Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.windows import split_in_windows
from kb_shared.text.tokens import TokenStarts, token_starts

_WINDOW_CODE_POINTS = 32_768


def split_at_tokens(counted: CountedText, outer: Span, limit: int) -> Iterator[Span]:
    """Yield spans that cover `outer`, as long as they can be with at most `limit` tokens once trimmed.

    Over the limit is only what no token boundary parts: code points whose bytes the tokenizer has run together.
    """
    split = partial(_split, counted, limit=limit, at_words=False)
    return split_in_windows(outer, split, window=_WINDOW_CODE_POINTS)


def split_at_words(counted: CountedText, outer: Span, limit: int) -> Iterator[Span]:
    """Yield spans as `split_at_tokens` does that also end at whitespace, unless a word alone is over `limit`."""
    split = partial(_split, counted, limit=limit, at_words=True)
    return split_in_windows(outer, split, window=_WINDOW_CODE_POINTS)


def _split(counted: CountedText, window: Span, *, limit: int, at_words: bool) -> list[Span]:
    starts = _token_starts(counted.text, window)
    spans: list[Span] = []
    here = 0
    while starts.offsets[here] < window.end:
        there = _best_cut(
            counted.text,
            starts,
            here=here,
            there=_furthest_fitting(counted, starts, here, limit=limit),
            at_words=at_words,
        )
        spans.append(Span(starts.offsets[here], starts.offsets[there]))
        here = there
    return spans


def _token_starts(text: str, window: Span) -> TokenStarts:
    starts = token_starts(text[window.start : window.end])
    return TokenStarts([window.start + offset for offset in starts.offsets], starts.tokens_before)


def _furthest_fitting(counted: CountedText, starts: TokenStarts, here: int, *, limit: int) -> int:
    """Return the index in `starts` of the last place up to which the text from `here` fits, at least `here + 1`.

    Counted on the cut text: where the text begins and ends can change how the tokenizer sees it, by a token or two.
    """
    budget = limit
    while True:
        there = bisect_right(starts.tokens_before, starts.tokens_before[here] + budget) - 1
        if there <= here + 1:
            return here + 1
        over = counted.count(*trimmed(counted.text, starts.offsets[here], starts.offsets[there])) - limit
        if over <= 0:
            return there
        budget -= over


def _best_cut(text: str, starts: TokenStarts, *, here: int, there: int, at_words: bool) -> int:
    """Return the last good place after `here` and not after `there`, or `there` when none is or all is taken."""
    if there == len(starts.offsets) - 1:
        return there
    if at_words:
        for candidate in range(there, here, -1):
            if starts_word(text, starts.offsets[candidate]):
                return candidate
    # Not further back than half: a long run of combining marks must not leave a chunk of one letter.
    for candidate in range(there, (here + there) // 2, -1):
        if starts_grapheme(text, starts.offsets[candidate]):
            return candidate
    return there
