"""Finds the marks of citations in a text, such as `[1]` and `[1, 2]`, and removes unknown ones. Pure.

`mark_notation` says what a mark looks like and what it means. Text in code and in formulas has no marks. Code is what
every Markdown program treats as code: a block whose fence begins a line, and a span within a line. A span of code that
is nothing but a known mark is one.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from kb_search.runs.mark_notation import MARK, UNFINISHED_MARK, CitableNumbers, Mark, needs_place, read_mark

_UNKNOWN: Final = "[?]"
_CODE_SPAN: Final = r"(?<![\\`])(?P<ticks>`{1,3})(?!`)(?P<code>[^`\n]*+)(?P=ticks)(?!`)"
_FORMULA: Final = r"(?<![\w\\$])\$(?![\s\d$])[^$\n`]{1,200}(?<!\s)\$(?![\w$])"
"""Formula in one line. A price such as `$5` begins none."""
_SPAN: Final = re.compile(f"{_CODE_SPAN}|{_FORMULA}")
_UNFINISHED_FORMULA: Final = re.compile(r"(?<![\w\\$])\$(?:(?![\s\d$])[^$\n`]{0,200}\$?)?\Z")
_FENCE: Final = re.compile(r"^(?:(?P<ticks>`{3,}+)[^`\n]*+|(?P<tildes>~{3,}+)[^\n]*+)\n", re.MULTILINE)
_UNFINISHED_FENCE: Final = re.compile(r"(?:`{1,2}|`{3,}[^`\n]*|~{1,2}|~{3,}[^\n]*)\Z")
_TICKS: Final = re.compile(r"\\?`+")
_END_OF_CODE: Final = re.compile("[`\n]")
_END_OF_TICKS: Final = re.compile("[^`]")
_END_OF_LINE: Final = re.compile("\n")
_LONG: Final = 3
"""Length from which held text is searched again only when its end has come."""
_LONGEST: Final = 600
"""Characters before the end of a text in which an unfinished mark or formula can begin."""
_REMEMBERED: Final = 60
"""Characters before a mark that say whether it can be one."""


def find_numbers(text: str, citable: CitableNumbers) -> Iterator[int]:
    """Yield all numbers that a text cites, in order, also those that no passage has."""
    found: list[int] = []
    pieces = MarkStreamFilter(citable, found.append)
    pieces.feed(text)
    pieces.end()
    yield from found


def remove_unknown_marks(
    text: str, citable: CitableNumbers, on_number: Callable[[int], object] = lambda _: None
) -> str:
    """Return the text without the marks of unknown numbers, and with the others written as `[1, 2]`."""
    pieces = MarkStreamFilter(citable, on_number)
    return pieces.feed(text) + pieces.end()


def remove_all_marks(text: str, citable: CitableNumbers) -> str:
    """Return the text without any mark."""
    pieces = MarkStreamFilter(citable, keeps=lambda _: False)
    return pieces.feed(text) + pieces.end()


class MarkStreamFilter:
    """Removes unknown marks from a text that is streamed in pieces.

    The end of a piece that may be the beginning of a mark, of code or of a formula is held until more has arrived.
    """

    def __init__(
        self,
        citable: CitableNumbers,
        on_number: Callable[[int], object] = lambda _: None,
        *,
        keeps: Callable[[int], bool] | None = None,
    ) -> None:
        """Construct it.

        Args:
            citable: Numbers that can be cited.
            on_number: Is told each number that is cited.
            keeps: Says which numbers stay in the text; by default those of passages.
        """
        self._citable = citable
        self._on_number = on_number
        self._keeps = keeps or citable.has
        self._held: list[str] = []
        self._waits_for: re.Pattern[str] | None = None
        self._end_of_block: re.Pattern[str] | None = None
        """Pattern of the end of the current code block."""
        self._before = "\n"
        """Last characters that were passed on."""
        self._raw_before = ""
        """Last character before the held text, as the model wrote it."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        self._held.append(piece)
        if self._waits_for is not None and self._waits_for.search(piece) is None:
            return ""
        shown: list[str] = []
        text = self._whole_blocks("".join(self._held), shown)
        end, self._waits_for = self._end_of_clear(text)
        self._held = [text[end:]]
        self._pass_on(text[:end], shown, rest=text[end:])
        return "".join(shown)

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        shown: list[str] = []
        self._pass_on("".join(self._held), shown)
        self._held = []
        return "".join(shown)

    def _whole_blocks(self, text: str, shown: list[str]) -> str:
        """Pass on everything up to the last beginning or end of a code block; return the rest."""
        done = 0
        at_line = 0 if self._before.endswith("\n") else text.find("\n") + 1 or len(text)
        while True:
            border = (self._end_of_block or _FENCE).search(text, max(done, at_line))
            if border is None:
                return text[done:]
            if self._end_of_block is None:
                self._pass_on(text[done : border.start()], shown, rest=border[0])
                fence = border["ticks"] or border["tildes"]
                self._end_of_block = re.compile(rf"^{fence}{fence[0]}*[ \t]*\n", re.MULTILINE)
                self._show(border[0], shown)
            else:
                self._show(text[done : border.end()], shown)
                self._end_of_block = None
            self._raw_before = "\n"
            done = border.end()

    def _end_of_clear(self, text: str) -> tuple[int, re.Pattern[str] | None]:
        """Return up to where later pieces can change nothing, and the pattern to wait for if that is not the end."""
        line = text.rfind("\n") + 1
        if self._end_of_block is not None:
            return line, _END_OF_LINE if line < len(text) else None
        if (line or self._before.endswith("\n")) and _UNFINISHED_FENCE.match(text, line):
            end = _beginning_of_unfinished_mark(text, line)
            ending = _end_of_code(text) if text[line] == "`" else _END_OF_LINE
            return end, ending if len(text) - line > _LONG else None
        spans = [end for _, end, _ in self._spans(text, line) if end < len(text)]
        after_spans = spans[-1] if spans else line
        ticks = [each.start() for each in _TICKS.finditer(text, after_spans)]
        # It depends on later backticks whether the last ones here begin a span.
        end = ticks[-2:][0] if ticks else len(text)
        begin = max(after_spans, end - _LONGEST)
        formula = _UNFINISHED_FORMULA.search(
            self._raw_before + text, begin + len(self._raw_before), end + len(self._raw_before)
        )
        if formula is not None:
            end = formula.start() - len(self._raw_before)
        end = _beginning_of_unfinished_mark(text, end)
        return end, _end_of_code(text) if ticks else None

    def _pass_on(self, text: str, shown: list[str], *, rest: str = "") -> None:
        """Pass on text in which all marks and spans are whole; `rest` follows it."""
        if self._end_of_block is not None:
            self._show(text, shown)
            return
        end = 0
        for begin, next_end, span in self._spans(text):
            self._pass_on_prose(text[end:begin], shown, rest=span[0])
            self._show_span(span, shown)
            end = next_end
        self._pass_on_prose(text[end:], shown, rest=rest)
        self._raw_before = text[-1:] or self._raw_before

    def _spans(self, text: str, begin: int = 0) -> Iterator[tuple[int, int, re.Match[str]]]:
        """Yield code and formulas with their places; the character before the text says whether it begins with one."""
        known = len(self._raw_before)
        for span in _SPAN.finditer(self._raw_before + text, begin + known):
            yield span.start() - known, span.end() - known, span

    def _show_span(self, span: re.Match[str], shown: list[str]) -> None:
        found = MARK.fullmatch(span["code"] or "")
        mark = None if found is None else read_mark(found, before=" ", after="", citable=self._citable)
        if found is None or mark is None or found["square"] is None or not all(map(self._keeps, mark.numbers)):
            self._show(span[0], shown)
            return
        self._tell(mark)
        self._show(mark.written(mark.numbers), shown)

    def _pass_on_prose(self, text: str, shown: list[str], *, rest: str) -> None:
        end = 0
        for found in MARK.finditer(text):
            self._show(text[end : found.start()], shown)
            end = found.end()
            after = (text[end : end + 2] + rest[:2])[:2]
            mark = read_mark(found, before=self._before, after=after, citable=self._citable)
            if mark is None:
                self._show(found[0], shown)
                continue
            self._tell(mark)
            self._show(self._remove_unknown(mark, after), shown)
        self._show(text[end:], shown)

    def _tell(self, mark: Mark) -> None:
        for number in mark.numbers:
            self._on_number(number)

    def _remove_unknown(self, mark: Mark, after: str) -> str:
        known = list(filter(self._keeps, mark.numbers))
        if known:
            return mark.written(known)
        if needs_place(self._before, after):
            return _UNKNOWN
        # The text of a link is left without its brackets: the link does not stay one, and would leave a mark.
        return f"{mark.space}{', '.join(map(str, mark.numbers))} " if after.startswith("(") else ""

    def _show(self, text: str, shown: list[str]) -> None:
        if text:
            shown.append(text)
            self._before = (self._before + text[-_REMEMBERED:])[-_REMEMBERED:]


def _beginning_of_unfinished_mark(text: str, end: int) -> int:
    unfinished = UNFINISHED_MARK.search(text, max(0, end - _LONGEST), end)
    return end if unfinished is None else unfinished.start()


def _end_of_code(text: str) -> re.Pattern[str]:
    """Return the pattern to wait for at the end of a text that may end in code."""
    return _END_OF_TICKS if text[-1] == "`" else _END_OF_CODE
