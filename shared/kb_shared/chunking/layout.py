"""Parts of a Markdown text that belong together: places that are not cut, and blocks that are too long."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kb_shared.chunking.boundaries import trimmed
from kb_shared.chunking.chunk import Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.lines import line_end
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.tables import Table

_FILLER = "x"  # no splitter cuts after it
_MAX_GAP_CODE_POINTS = 1_000
_MAX_OPENING_TOKENS = 64


@dataclass(frozen=True, slots=True)
class LongBlock:
    """A table or a code block over the limit.

    Attributes:
        start: where it begins, or the headings right above it do.
        end: where it ends.
        table: None for code.
    """

    start: int
    end: int
    table: Table | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a text, which says where it may be cut.

    Attributes:
        seen: the text as a splitter is to see it, of the same length: letters stand in tables and code that fit,
            between a heading and what it is the heading of, and after each of the short lines that a text begins with.
        long_blocks: in order.
    """

    seen: str
    long_blocks: Sequence[LongBlock]


def layout_of(counted: CountedText, outline: Outline, limit: int) -> Layout:
    """Return what to keep together so that a chunk has at most `limit` tokens."""
    whole, long_blocks = _blocks(counted, outline, limit)
    opening = list(_gaps_in_opening(counted, outline, limit, blocks={*whole, *long_blocks}))
    gaps = _gaps_under_headings(counted, outline, limit, whole=whole, long_blocks=long_blocks)
    return Layout(
        seen=_covered(counted.text, [*(Span(*block) for block in whole.items()), *gaps, *opening]),
        long_blocks=sorted(long_blocks.values(), key=lambda block: block.start),
    )


def _blocks(counted: CountedText, outline: Outline, limit: int) -> tuple[dict[int, int], dict[int, LongBlock]]:
    """Return the ends of the blocks that fit and those that don't, by where they begin."""
    whole: dict[int, int] = {}
    long_blocks: dict[int, LongBlock] = {}
    blocks: list[Span | Table] = [*outline.code, *outline.tables]
    for block in blocks:
        start, end = trimmed(counted.text, block.start, block.end)
        if counted.between(start, end) <= limit:
            whole[start] = end
        else:
            long_blocks[start] = LongBlock(start, end, block if isinstance(block, Table) else None)
    return whole, long_blocks


def _gaps_under_headings(
    counted: CountedText,
    outline: Outline,
    limit: int,
    *,
    whole: dict[int, int],
    long_blocks: dict[int, LongBlock],
) -> Iterator[Span]:
    """Yield what is between a heading and what it is the heading of, unless both are too long to stay together.

    A block in `long_blocks` gets the headings above it as its beginning.
    """
    text = counted.text
    ends = dict(whole)
    # From the last one on, since a heading may stand over another.
    for index in range(len(outline.headings) - 1, -1, -1):
        heading = outline.headings[index]
        gap = _gap(text, line_end(text, heading.start))
        if gap is None:
            continue
        below = outline.headings[index + 1] if index + 1 < len(outline.headings) else None
        if below is not None and below.start == gap.end and below.level <= heading.level:
            continue
        if gap.end in long_blocks:
            long_blocks[heading.start] = replace(long_blocks.pop(gap.end), start=heading.start)
        elif gap.end not in ends:
            yield gap
        elif counted.between(heading.start, ends[gap.end]) <= limit:
            ends[heading.start] = ends[gap.end]
            yield gap


def _gaps_in_opening(counted: CountedText, outline: Outline, limit: int, *, blocks: Collection[int]) -> Iterator[Span]:
    """Yield the offsets below each of the short lines that a text begins with, if more plain text follows.

    They are its title, who wrote it and when. In a chunk of their own, because a long paragraph follows, they would be
    found instead of what they are about.
    """
    text = counted.text
    opening, _ = trimmed(text, 0, len(text))
    line = opening
    while line not in blocks and not outline.is_heading(line):
        _, end = trimmed(text, line, line_end(text, line))
        if counted.between(opening, end) > min(_MAX_OPENING_TOKENS, limit // 4):
            return
        gap = _gap(text, end)
        if gap is None or gap.end in blocks or outline.is_heading(gap.end):
            return
        yield gap
        line = gap.end


def _gap(text: str, start: int) -> Span | None:
    """Return the whitespace from `start` on; None for a desert, or where nothing follows."""
    stretch = text[start : start + _MAX_GAP_CODE_POINTS]
    end = start + len(stretch) - len(stretch.lstrip())
    return Span(start, end) if end < start + len(stretch) else None


def _covered(text: str, places: Sequence[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in sorted(places):
        parts += (text[position:start], _FILLER * (end - start))
        position = end
    return "".join((*parts, text[position:])) if parts else text
