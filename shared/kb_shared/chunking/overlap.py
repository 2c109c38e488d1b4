"""The end of the previous chunk, put before a chunk's text when it is embedded."""

from kb_shared.chunking.boundaries import starts_grapheme, starts_word, trimmed
from kb_shared.chunking.chunk import ChunkingConfig, SizedSpan, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.text.tokens import count_tokens


def overlap_context(counted: CountedText, span: SizedSpan, *, previous: SizedSpan, config: ChunkingConfig) -> str:
    """Return the tail of `previous` and what joins it to `span`, so that both are within `chunk_size` tokens.

    Of the whitespace between the two one character is kept, however long it is.
    """
    joint = _joint(counted.text[previous.end : span.start])
    budget = config.chunk_overlap
    while budget > 0:
        tail = Span(*trimmed(counted.text, _tail_start(counted, previous, budget), previous.end))
        if tail.start == tail.end:
            return ""
        over = max(
            counted.count(tail.start, tail.end) - config.chunk_overlap,
            _tokens_together(counted, tail, span, joint=joint) - config.chunk_size,
        )
        if over <= 0:
            return counted.text[tail.start : tail.end] + joint
        budget -= over
    return ""


def _joint(gap: str) -> str:
    if "\n" in gap:
        return "\n"
    return " " if gap else ""


def _tokens_together(counted: CountedText, tail: Span, span: SizedSpan, *, joint: str) -> int:
    text = counted.text
    if text[tail.end : span.start] == joint:
        return counted.count(tail.start, span.end)
    if joint == "\n":
        # A token ends where a line begins, so the tokens of both add up.
        return counted.count(tail.start, tail.end, then="\n") + span.token_count
    return count_tokens(text[tail.start : tail.end] + joint + text[span.start : span.end])


def _tail_start(counted: CountedText, previous: SizedSpan, tokens: int) -> int:
    """Return where the last `tokens` tokens of `previous` begin, or at the next word, if none is near grapheme."""
    first = counted.reach_back(previous.start, previous.end, tokens)
    # A word that starts in the second half only would cost more of the overlap than it is worth.
    nearby = range(first, counted.reach_back(previous.start, previous.end, tokens // 2) + 1)
    for is_good in (starts_word, starts_grapheme):
        for offset in nearby:
            if is_good(counted.text, offset):
                return offset
    return first
