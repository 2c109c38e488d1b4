"""Finds the marks of citations in a text, such as `[1]` and `[1, 2]`, and removes unknown ones. Pure.

A mark is everything that a reader sees as one: also with spaces in it, with brackets escaped for Markdown, or written
as HTML references. Text in code has no marks. Code is what every Markdown program treats as code: a block whose fence
begins a line, and a span within a line.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

_OPENING: Final = r"(?:\\?\[|&(?:#0{0,5}91|#x0{0,4}5b|lbrack|lsqb);)"
_CLOSING: Final = r"(?:\\?\]|&(?:#0{0,5}93|#x0{0,4}5d|rbrack|rsqb);)"
_MARK: Final = re.compile(
    rf"(?P<space>[ \t]?){_OPENING}\s*+(?P<numbers>\d{{1,6}}(?>(?:\s*+,\s*+\d{{1,6}})*))\s*+{_CLOSING}"
    rf"(?=(?P<goes_on>[\d\s,]*+{_CLOSING}|[`~])?)",
    re.IGNORECASE,
)
_GOES_ON_BEHIND: Final = frozenset("[;,0123456789 \t\n`~\\")
"""Characters before a mark whose two sides form another mark, or code, once it is removed."""
_UNKNOWN: Final = "[?]"
_SPAN: Final = re.compile(r"(?<![\\`])(?P<ticks>`{1,3})(?!`)[^`\n]*+(?P=ticks)(?!`)")
_FENCE: Final = re.compile(r"^(?:(?P<ticks>`{3,}+)[^`\n]*+|(?P<tildes>~{3,}+)[^\n]*+)\n", re.MULTILINE)
_UNFINISHED_FENCE: Final = re.compile(r"(?:`{1,2}|`{3,}[^`\n]*|~{1,2}|~{3,}[^\n]*)\Z")
_TICKS: Final = re.compile(r"\\?`+")
_BEHIND: Final = r"[\d\s,]*+(?:\\|&[#\w]{0,9})?"
_UNFINISHED_MARK: Final = re.compile(
    rf"[ \t]?(?:\\|&[#\w]{{0,9}}|{_OPENING}{_BEHIND}(?:{_CLOSING}{_BEHIND})?)?\Z", re.IGNORECASE
)
_END_OF_CODE: Final = re.compile("[`\n]")
_END_OF_TICKS: Final = re.compile("[^`]")
_END_OF_MARK: Final = re.compile(r"[^\d\s,]")
_END_OF_LINE: Final = re.compile("\n")
_LONG: Final = 3
"""Length from which held text is searched again only when its end has come."""


def find_numbers(text: str) -> Iterator[int]:
    """Yield all numbers that a text cites, in order."""
    found: list[int] = []

    def collect_number(number: int) -> bool:
        found.append(number)
        return True

    remove_unknown_marks(text, collect_number)
    yield from found


def remove_unknown_marks(text: str, is_known: Callable[[int], bool]) -> str:
    """Return the text without the marks of unknown numbers."""
    pieces = MarkStreamFilter(is_known)
    return pieces.feed(text) + pieces.end()


class MarkStreamFilter:
    """Removes unknown marks from a text that is streamed in pieces.

    The end of a piece that may be the beginning of a mark or of code is held until more has arrived.
    """

    def __init__(self, is_known: Callable[[int], bool]) -> None:
        self._is_known = is_known
        self._held: list[str] = []
        self._waits_for: re.Pattern[str] | None = None
        self._end_of_block: re.Pattern[str] | None = None
        """Pattern of the end of the current code block."""
        self._last = "\n"
        """Last character that was passed on."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        self._held.append(piece)
        if self._waits_for is not None and self._waits_for.search(piece) is None:
            return ""
        shown: list[str] = []
        text = self._whole_blocks("".join(self._held), shown)
        end, self._waits_for = self._end_of_clear(text)
        self._held = [text[end:]]
        self._pass_on(text[:end], shown)
        return "".join(shown)

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        shown: list[str] = []
        self._pass_on("".join(self._held), shown)
        return "".join(shown)

    def _whole_blocks(self, text: str, shown: list[str]) -> str:
        """Pass on everything up to the last beginning or end of a code block; return the rest."""
        done = 0
        at_line = 0 if self._last == "\n" else text.find("\n") + 1 or len(text)
        while True:
            border = (self._end_of_block or _FENCE).search(text, max(done, at_line))
            if border is None:
                return text[done:]
            if self._end_of_block is None:
                self._pass_on(text[done : border.start()], shown)
                fence = border["ticks"] or border["tildes"]
                self._end_of_block = re.compile(rf"^{fence}{fence[0]}*[ \t]*\n", re.MULTILINE)
                self._show(border[0], shown)
            else:
                self._show(text[done : border.end()], shown)
                self._end_of_block = None
            done = border.end()

    def _end_of_clear(self, text: str) -> tuple[int, re.Pattern[str] | None]:
        """Return up to where later pieces can change nothing, and the pattern to wait for if that is not the end."""
        line = text.rfind("\n") + 1
        if self._end_of_block is not None:
            return line, _END_OF_LINE if line < len(text) else None
        if (line or self._last == "\n") and _UNFINISHED_FENCE.match(text, line):
            ending = _end_of_code(text) if text[line] == "`" else _END_OF_LINE
            return line, ending if len(text) - line > _LONG else None
        spans = [span.end() for span in _SPAN.finditer(text, line) if span.end() < len(text)]
        ticks = [each.start() for each in _TICKS.finditer(text, spans[-1] if spans else line)]
        # It depends on later backticks whether the last ones here begin a span.
        end = ticks[-2:][0] if ticks else len(text)
        if (unfinished := _UNFINISHED_MARK.search(text, 0, end)) is not None:
            end = unfinished.start()
        if ticks:
            return end, _end_of_code(text)
        return end, _END_OF_MARK if len(text) - end > _LONG and text[-1] not in "\\&" else None

    def _pass_on(self, text: str, shown: list[str]) -> None:
        if self._end_of_block is not None:
            self._show(text, shown)
            return
        end = 0
        for span in _SPAN.finditer(text):
            self._pass_on_prose(text[end : span.start()], shown, before_code=True)
            self._show(span[0], shown)
            end = span.end()
        self._pass_on_prose(text[end:], shown)

    def _pass_on_prose(self, text: str, shown: list[str], *, before_code: bool = False) -> None:
        end = 0
        for mark in _MARK.finditer(text):
            self._show(text[end : mark.start()], shown)
            end = mark.end()
            goes_on = mark["goes_on"] is not None or (before_code and end == len(text))
            self._show(self._remove_unknown(mark, goes_on=goes_on), shown)
        self._show(text[end:], shown)

    def _remove_unknown(self, mark: re.Match[str], *, goes_on: bool) -> str:
        numbers = [int(number) for number in mark["numbers"].split(",")]
        known = [number for number in numbers if self._is_known(number)]
        if known == numbers:
            return mark[0]
        if known:
            return f"{mark['space']}[{', '.join(map(str, known))}]"
        return _UNKNOWN if goes_on and self._last in _GOES_ON_BEHIND else ""

    def _show(self, text: str, shown: list[str]) -> None:
        if text:
            shown.append(text)
            self._last = text[-1]


def _end_of_code(text: str) -> re.Pattern[str]:
    """Return the pattern to wait for at the end of a text that may end in code."""
    return _END_OF_TICKS if text[-1] == "`" else _END_OF_CODE
