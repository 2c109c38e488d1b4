"""The tables of a Markdown text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kb_shared.chunking.chunk import Span
from kb_shared.chunking.lines import find_at_line_starts, line_end

_LINE_WITH_PIPE = re.compile(r"^ {0,3}(?=\S)[^\n|]{0,1000}\|[^\n]*", re.MULTILINE)
_DELIMITER_ROW = re.compile(r" {0,3}\|?[ \t]*+:?-++:?[ \t]*+(?>(?:\|[ \t]*+:?-++:?[ \t]*+)*)\|?\s*+")


@dataclass(frozen=True, slots=True)
class Table:
    """Offsets in code points; the header is `start` to `body`, and empty where the table has none.

    Attributes:
        start: where the header row begins, or the first row.
        body: where the first row under the header begins.
        end: where the last row ends.
    """

    start: int
    body: int
    end: int

    def rows(self, text: str) -> Iterator[Span]:
        """Yield the rows under the header with their line feeds, so that they cover the body."""
        start = self.body
        while start < self.end:
            end = min(line_end(text, start) + 1, self.end)
            yield Span(start, end)
            start = end


def find_tables(text: str) -> Iterator[Table]:
    """Yield runs of lines with pipes: under a header and its line of dashes, or all of them begun by a pipe."""
    run: _PipeLines | None = None
    for match in find_at_line_starts(_LINE_WITH_PIPE, text):
        line = Span(match.start(), line_end(text, match.start()))
        if run is not None and line.start == run.last.end + 1:
            run.add(text, line)
            continue
        if run is not None:
            yield from run.table()
        run = _PipeLines(text, line)
    if run is not None:
        yield from run.table()


class _PipeLines:
    """Lines with pipes, one under the other; not kept, since a table may have half a million."""

    def __init__(self, text: str, line: Span) -> None:
        self.last = line
        self._first = line
        self._header: Span | None = None
        self._all_begin_with_pipe = _begins_with_pipe(text, line)

    def add(self, text: str, line: Span) -> None:
        if self._header is None:
            self._all_begin_with_pipe = self._all_begin_with_pipe and _begins_with_pipe(text, line)
            if _DELIMITER_ROW.fullmatch(text, line.start, line.end):
                self._header = Span(self.last.start, line.end)
        self.last = line

    def table(self) -> Iterator[Table]:
        """Yield the table the lines make, if they make one."""
        end = self.last.end
        if self._header is not None:
            yield Table(self._header.start, min(self._header.end + 1, end), end)
        elif self._all_begin_with_pipe and self.last is not self._first:
            yield Table(self._first.start, self._first.start, end)


def _begins_with_pipe(text: str, line: Span) -> bool:
    return text[line.start : line.start + 4].lstrip(" ").startswith("|")
