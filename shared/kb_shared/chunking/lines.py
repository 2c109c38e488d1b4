"""Find what lines begin with, a bounded stretch of the text at a time: `re` keeps the whole process waiting."""

import re
from collections.abc import Iterator

_WINDOW_CODE_POINTS = 65_536


def find_at_line_starts(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `pattern`, which begins with `^` and looks at one line only.

    Of a line longer than 65,536 code points a match may see no more than the beginning.
    """
    start = 0
    while start < len(text):
        end = start + _WINDOW_CODE_POINTS
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        yield from pattern.finditer(text, start, end)
        start = end


def line_end(text: str, offset: int) -> int:
    """Return where the line of `offset` ends, its line feed left out."""
    end = text.find("\n", offset)
    return end if end >= 0 else len(text)
