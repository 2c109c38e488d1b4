"""The headings, code blocks and tables of a Markdown text, found in a few passes over its lines."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from kb_shared.chunking.boundaries import is_heading
from kb_shared.chunking.chunk import HEADING_SEPARATOR, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.lines import find_at_line_starts, line_end
from kb_shared.chunking.tables import Table, find_tables
from kb_shared.chunking.token_splitters import split_at_words
from kb_shared.text.tokens import count_tokens

MAX_HEADING_LINE_TOKENS = 64

_MAX_TITLE_TOKENS = MAX_HEADING_LINE_TOKENS - 4  # leaves room for the line's end
_MAX_TITLE_CODE_POINTS = 1_000
_HEADING = re.compile(r"^ {0,3}(?P<marks>#{1,6})[ \t]+(?=\S)", re.MULTILINE)
_CODE_FENCE = re.compile(r"^ {0,3}(?P<code_fence>`{3,}|~{3,})(?P<info>[^\n]*)", re.MULTILINE)


_Found = TypeVar("_Found", "Heading", Table)


class Heading(NamedTuple):
    start: int
    """Offset of the first `#`."""
    level: int
    title: str
    parent: int | None
    """Index of the heading above it."""


class Outline:
    """Answers for any span of the text under which headings it stands and of what kind it is."""

    __slots__ = ("_heading_starts", "_text", "code", "headings", "tables")

    def __init__(self, text: str) -> None:
        self._text = text
        self.code: Sequence[Span] = list(_code_blocks(text))
        self.headings: Sequence[Heading] = list(_under_each_other(_outside(_headings(text), self.code)))
        self.tables: Sequence[Table] = list(_outside(find_tables(text), self.code))
        self._heading_starts = [heading.start for heading in self.headings]

    def heading_path(self, offset: int) -> tuple[str, ...]:
        """Return the titles in force at `offset`, outermost first, one that starts there included.

        Outer titles are left out when the line they make is over `MAX_HEADING_LINE_TOKENS`.
        """
        path: tuple[str, ...] = ()
        last = bisect_right(self._heading_starts, offset) - 1
        above = last if last >= 0 else None
        while above is not None:
            heading = self.headings[above]
            longer = (heading.title, *path)
            if count_tokens(HEADING_SEPARATOR.join(longer) + "\n") > MAX_HEADING_LINE_TOKENS:
                break
            path, above = longer, heading.parent
        return path

    def is_heading(self, offset: int) -> bool:
        """Return whether a heading starts at `offset`."""
        index = bisect_left(self._heading_starts, offset)
        return index < len(self._heading_starts) and self._heading_starts[index] == offset

    def is_in_code(self, offset: int) -> bool:
        """Return whether `offset` is within a code block."""
        return _is_within(self.code, offset, offset)

    def chunk_type(self, start: int, end: int) -> str:
        """Return `code`, `table` or `heading` for a span that is nothing else, otherwise `text`."""
        if _is_within(self.code, start, end):
            return "code"
        if _is_within(self.tables, start, end):
            return "table"
        lines = self._text[start:end].split("\n")
        return "heading" if all(is_heading(line.lstrip(), 0) for line in lines if line.strip()) else "text"


def _is_within(blocks: Sequence[Span] | Sequence[Table], start: int, end: int) -> bool:
    index = bisect_right(blocks, start, key=lambda block: block.start) - 1
    return index >= 0 and end <= blocks[index].end


def _headings(text: str) -> Iterator[Heading]:
    for match in find_at_line_starts(_HEADING, text):
        end = min(line_end(text, match.end()), match.end() + _MAX_TITLE_CODE_POINTS)
        title = " ".join(text[match.end() : end].rstrip().rstrip("#").split())
        if title:
            yield Heading(match.start("marks"), len(match["marks"]), _shortened(title), None)


def _under_each_other(headings: Iterator[Heading]) -> Iterator[Heading]:
    """Yield `headings` with their parents."""
    open_headings: list[tuple[int, int]] = []  # (level, index) of those a next one may stand under
    for index, heading in enumerate(headings):
        while open_headings and open_headings[-1][0] >= heading.level:
            open_headings.pop()
        yield heading._replace(parent=open_headings[-1][1] if open_headings else None)
        open_headings.append((heading.level, index))


def _shortened(title: str) -> str:
    if count_tokens(title) <= _MAX_TITLE_TOKENS:
        return title
    first = next(iter(split_at_words(CountedText(title), Span(0, len(title)), _MAX_TITLE_TOKENS)))
    return title[first.start : first.end].strip()


def _code_blocks(text: str) -> Iterator[Span]:
    """Yield the fenced code blocks. A code fence that is never closed opens none: headings below it stay headings."""
    opened: re.Match[str] | None = None
    for match in find_at_line_starts(_CODE_FENCE, text):
        if opened is None:
            if not (match["code_fence"][0] == "`" and "`" in match["info"]):
                opened = match
        elif _closes(match, opened):
            yield Span(opened.start("code_fence"), match.end())
            opened = None


def _closes(match: re.Match[str], opened: re.Match[str]) -> bool:
    return match["code_fence"].startswith(opened["code_fence"]) and not match["info"].strip()


def _outside(found: Iterator[_Found], code: Sequence[Span]) -> Iterator[_Found]:
    return (block for block in found if not _is_within(code, block.start, block.start))
