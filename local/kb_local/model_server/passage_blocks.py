"""Reads a passage as the blocks that its writer made: headings, paragraphs, lists, tables and code. Pure.

Plain text, Markdown and what other formats become are read alike: a line that stands alone, without the mark of an end,
is a heading, and lines that are not full begin new blocks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

MOST_HEADING_WORDS: Final = 9
_LEAST_FULL_LINE: Final = 45
"""Characters of a line that was probably broken because it was full."""

_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})")
_HEADING: Final = re.compile(r"#{1,6}\s+(?P<text>\S[^\n]*)")
_UNDERLINE: Final = re.compile(r"={3,}|-{3,}|~{3,}|\^{3,}")
_RULE: Final = re.compile(r"[\s|+:=*_.\-\u2500-\u257f]*")
_ITEM: Final = re.compile(r"\s*(?:[-*+\u2022\u2023\u25e6\u2013]|\(?(?:\d{1,3}|[a-z])[.)])\s+(?=\S)")
_SPEAKER: Final = re.compile(r"(?:[QAF]|Question|Answer|Frage|Antwort)\s?[:.]\s+(?=\S)")
_ROW: Final = re.compile(r"\|(?P<cells>[^\n]*)\|")
# HTML, images, directives and references.
_MARKUP: Final = re.compile(
    r"<[^>]*>?|\[?!\[[^\n]*|\.\.\s[^\n]*|:[a-z]+:[^\n]*|\[[^\]]+\]:\s[^\n]*|\[\[\[?[^\n]*|\]\]\][^\n]*"
)
_ADDRESS: Final = re.compile(r"<?https?://\S+")
_AFTER_END: Final = r"[)\]\"'\u201d\u2019\u00bb*_`]*\Z"
_CLOSED: Final = re.compile(rf"[.!?\u2026:;\u3002\uff01\uff1f\u061f\u0964]{_AFTER_END}")
_QUESTION: Final = re.compile(rf"[?\uff1f\u061f]{_AFTER_END}")
_NEVER_IN_HEADING: Final = "=<>|{}()$/"


@dataclass(frozen=True, slots=True)
class PassageBlock:
    kind: Literal["heading", "question", "text", "item", "row", "head", "code"]
    """A `head` is the first row of a table."""
    text: str
    raw: str = ""
    """The text with the mark of its item."""
    is_numbered: bool = False
    """True for an item of a list that begins with a number."""


def is_question(text: str) -> bool:
    return _QUESTION.search(text) is not None


def is_closed(text: str) -> bool:
    """Return whether a text ends with a mark of punctuation."""
    return _CLOSED.search(text) is not None


def read_blocks(text: str) -> list[PassageBlock]:
    """Return the blocks of a passage in order."""
    blocks = list(_BlockReader(text.replace("\t", "    ").split("\n")).read())
    return [
        replace(block, kind="heading") if _is_numbered_heading(before, block, after) else block
        for before, block, after in zip([None, *blocks], blocks, [*blocks[1:], None], strict=False)
    ]


def _is_numbered_heading(before: PassageBlock | None, block: PassageBlock, after: PassageBlock | None) -> bool:
    """Return whether a line with a number is no item of a list, but stands alone above a text."""
    if not block.is_numbered or (before is not None and before.is_numbered):
        return False
    # The last line of a passage may be an item, whose neighbours are in the passages beside it.
    stands_alone = not is_closed(block.text) if after is None else after.kind not in {"item", "heading"}
    is_short = len(block.text.split()) <= MOST_HEADING_WORDS or is_question(block.text)
    return stands_alone and is_short


@dataclass(slots=True)
class _BlockReader:
    """Reads the blocks of a passage line by line."""

    lines: Sequence[str]
    _held: list[str] = field(default_factory=list)
    _kind: Literal["text", "item", "code"] = "text"
    _mark: str = ""

    def read(self) -> Iterator[PassageBlock]:
        is_code = False
        for position, line in enumerate(self.lines):
            if _FENCE.match(line.strip()):
                yield from self._end()
                is_code = not is_code
                self._kind = "code" if is_code else "text"
            elif is_code:
                self._held.append(line)
            elif alone := self._block_of_one_line(position):
                yield from self._end()
                yield from filter(None, alone)
            else:
                yield from self._add(line)
        yield from self._end()

    def _block_of_one_line(self, position: int) -> list[PassageBlock | None]:
        """Return what a line is that belongs to no paragraph; [None] for one that is left out, nothing for text."""
        line = self.lines[position].strip()
        if heading := _HEADING.fullmatch(line):
            return [PassageBlock("heading", heading["text"].strip(" #"))]
        if not self._held and self._is_underlined(position):
            return [PassageBlock("heading", line)]
        if row := _ROW.fullmatch(line):
            is_rule = _RULE.fullmatch(line) is not None
            kind: Literal["head", "row"] = "head" if self._is_rule_of_table(position + 1) else "row"
            return [None] if is_rule else [PassageBlock(kind, " ".join(row["cells"].split()))]
        is_left_out = _RULE.fullmatch(line) or _MARKUP.fullmatch(line) or (not self._held and _ADDRESS.fullmatch(line))
        return [None] if is_left_out else []

    def _is_underlined(self, position: int) -> bool:
        line, below = self.lines[position].strip(), self._line(position + 1)
        return bool(line) and _UNDERLINE.fullmatch(below) is not None and len(below) >= len(line) // 2

    def _is_rule_of_table(self, position: int) -> bool:
        line = self._line(position)
        return _ROW.fullmatch(line) is not None and _RULE.fullmatch(line) is not None

    def _line(self, position: int) -> str:
        return self.lines[position].strip() if position < len(self.lines) else ""

    def _add(self, line: str) -> Iterator[PassageBlock]:
        item = _ITEM.match(line)
        if item or (self._held and _is_line_of_its_own(self._held[-1], line)):
            yield from self._end()
        if item:
            self._kind, self._mark = "item", item[0].strip()
            line = line[item.end() :]
        self._held.append(line)

    def _end(self) -> Iterator[PassageBlock]:
        lines, kind, mark = self._held, self._kind, self._mark
        self._held, self._kind, self._mark = [], "text", ""
        if not lines:
            return
        text = " ".join(" ".join(lines).split())
        if kind == "text" and (speaker := _SPEAKER.match(text)):
            yield PassageBlock("question" if speaker[0][0] in "QF" else "text", text[speaker.end() :], raw=text)
        elif kind == "text" and len(lines) == 1 and _looks_like_heading(text):
            yield PassageBlock("heading", text)
        else:
            yield PassageBlock(kind, text, raw=f"{mark} {text}".strip(), is_numbered=any(map(str.isdigit, mark)))


def _is_line_of_its_own(before: str, line: str) -> bool:
    """Return whether a line is no continuation of the one before it: that one was not full."""
    is_full = len(before.rstrip()) >= _LEAST_FULL_LINE
    begins = not line.lstrip()[:1].islower()
    return begins and (not is_full or (_is_record(before) and _is_record(line)))


def _is_record(line: str) -> bool:
    name, colon, value = line.strip().partition(": ")
    return bool(colon and value) and len(name.split()) <= 3


def _looks_like_heading(text: str) -> bool:
    """Return whether a line that stands alone is a heading without a mark."""
    words = text.split()
    if is_closed(text) or len(words) > MOST_HEADING_WORDS or ": " in text or "; " in text:
        return False
    return not text[:1].islower() and not any(each in text for each in _NEVER_IN_HEADING)
