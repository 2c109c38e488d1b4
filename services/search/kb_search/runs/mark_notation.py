"""Decides what is a mark of a citation and which passages it names. Pure.

Models write `[1]`, but also `[1-3]`, `[1 and 2]`, `[^1]`, `[source 1]`, `[S1]`, `<sup>1</sup>`, a raised digit, `(1)`,
`(1)(2)`, or marks in brackets of other scripts. These are rewritten as `[1]`, which every client understands. Brackets
are also a part of texts: `[2019] EWHC`, `[0, 1]`, `a[7]`; so are raised digits and names such as `S1`.
What can be either is a citation only if its number is that of a passage, or little above.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kb_search.runs.raised_numbers import RAISED_DIGITS, can_cite, without_raising

MORE_THAN_FOUND: Final = 8
"""Distance of an invented number from the greatest one of a passage, at most. A greater one is part of the text."""
MAX_MARK_CHARACTERS: Final = 150
_MAX_NUMBERS: Final = 20

_OPENING: Final = r"(?:\\?\[|[\u3010\u3014\uff3b]|&(?:#0{0,5}91|#x0{0,4}5b|lbrack|lsqb);)"
_CLOSING: Final = r"(?:\\?\]|[\u3011\u3015\uff3d]|&(?:#0{0,5}93|#x0{0,4}5d|rbrack|rsqb);)"
_WORD: Final = (
    r"(?:(?:source|passage|document|doc|reference|ref|citation|cite|chunk|result|id|excerpt|extract|snippet|context"
    r"|quelle|fundstelle|extrait|passaggio|fonte|fuente|pasaje|documento|bron|k\u00e4lla|\u017ar\u00f3d\u0142o)[esn]?"
    r"|\u6765\u6e90|\u6587\u6863|\u6bb5\u843d|\u8d44\u6599|\u5f15\u7528|\u51fa\u5178|\u8cc7\u6599|\u6587\u66f8|\ucd9c\ucc98|\ubb38\uc11c)"
)
"""Words for a passage, in the languages in which models answer."""
_TAGS: Final = "sup|cite|citation|source|ref"
_LETTER: Final = r"s(?=\d)"
_LABEL: Final = rf"(?:{_LETTER}|[\^#]|(?:(?:see|siehe)[ ])?{_WORD}[ ]?(?:no\.|nr\.)?[.:#_-]?)\s{{0,3}}"
_ITEM: Final = rf"(?:{_LABEL})?\d{{1,6}}\^?"
_TO: Final = r"(?:[-\u2010-\u2014]|to\b|bis\b)"
_AND: Final = (
    r"(?:[,\u3001\uff0c]\s{0,9}(?:and\b|und\b|&(?![#a-z]))|&(?![#a-z])|[,;\u3001\uff0c\uff1b]|(?:and|und|et|or|y)\b)"
)
_ITEMS: Final = rf"{_ITEM}(?>(?:\s{{0,9}}(?:{_TO}|{_AND})\s{{0,9}}{_ITEM}){{0,{_MAX_NUMBERS}}})"
_CHAIN: Final = rf"{_ITEMS}(?:\)[ ]?\(\d{{1,6}}){{0,9}}"
_PAGE: Final = (
    r"[,:]?\s{0,3}\(?(?:pp?|pages?|S|Seiten?|lines?|Zeilen?|sections?|\u00a7{1,2})\.?\s{0,3}"
    r"\d{1,5}(?:\s?[-\u2010-\u2014]\s?\d{1,5})?\)?"
)
_FILE: Final = r"[,:|]?\s{1,3}[^\[\]\u3010\u3011\u3014\u3015\uff3b\uff3d\n]{1,60}\.[a-z][a-z0-9]{1,4}"
_TAIL: Final = rf"(?P<tail>\u2020[^\[\]\u3010\u3011\u3014\u3015\uff3b\uff3d\n]{{0,60}}|(?P<page>{_PAGE})|{_FILE})"

MARK: Final = re.compile(
    rf"(?P<space>[ \t]?)(?:(?P<square>{_OPENING})\s{{0,30}}(?P<numbers>{_ITEMS})\s{{0,30}}{_TAIL}?\s{{0,30}}{_CLOSING}"
    rf"|<(?P<tag>{_TAGS})>\s?\[?(?P<raised>{_ITEMS})\]?\s?</(?P=tag)>|\((?P<round>{_CHAIN})\)|\{{(?P<curly>\d{{1,6}})\}}"
    rf"|(?P<digits>[{RAISED_DIGITS}]{{1,3}}))",
    re.IGNORECASE,
)
_BEGUN: Final = (
    r"\s{0,30}[\^#]?[^\W\d_]{0,12}[\s.:#_-]{0,6}(?:[^\W\d_]{1,12}[\s.:#_-]{0,6})?(?:n[or]?\.?\s?)?"
    rf"(?:\d[^\[\]\u3010\u3011\u3014\u3015\uff3b\uff3d$`<>]{{0,{MAX_MARK_CHARACTERS}}})?"
)
_TAG_BEGUN: Final = r"/?[a-z]{0,8}"
_BROKEN_OFF: Final = rf"(?:\\|&[#\w]{{0,9}}|<(?:{_TAG_BEGUN})?)"
UNFINISHED_MARK: Final = re.compile(
    rf"[ \t]?(?:{_BROKEN_OFF}|[{RAISED_DIGITS}]{{1,3}}|(?:{_OPENING}|<(?:{_TAGS})>\s?\[?|[({{]){_BEGUN}"
    rf"(?:{_BROKEN_OFF}"
    rf"|(?:(?:{_CLOSING}|[)}}])(?:\s?<{_TAG_BEGUN})?|(?:{_CLOSING}\s?)?</(?:{_TAGS})>)(?:[ \t]|\()?)?)?\Z",
    re.IGNORECASE,
)
"""End of a text that is the beginning of a mark, or a mark of which it depends on what follows whether it is one."""

_PLAIN: Final = re.compile(r"\d+(?:\s*,\s*\d+)*")
_LABELLED: Final = re.compile(_LABEL, re.IGNORECASE)
_LETTERED: Final = re.compile(_LETTER, re.IGNORECASE)
_PARTS: Final = re.compile(rf"(?P<number>\d+)|(?P<to>{_TO})", re.IGNORECASE)
_RANGE: Final = re.compile(rf"\d\s*{_TO}", re.IGNORECASE)
_OPEN_BEHIND: Final = re.compile(
    rf"(?:[\[\u3010\u3014\uff3b]|<(?:{_TAGS})>|(?:#0*91|#x0*5b|lbrack|lsqb);)[^\]\u3011\u3015\uff3d]{{0,60}}\Z",
    re.IGNORECASE,
)
_REFERENCE_BEHIND: Final = re.compile(r"&[#\w]{0,9}\Z")
_GOES_ON: Final = re.compile(r"[A-Za-z0-9_{]|[ \t]?=|\([^A-Za-z/#.<]")
"""Text behind brackets that are an element or a part of a word."""
_LAST_WORD: Final = re.compile(r"\w{1,40}\Z")
_IDENTIFIER: Final = re.compile(r"[A-Za-z]|\w*(?:_|\d[^\W\d]|[^\W\d]\d|[a-z][A-Z])\w*", re.ASCII)
_ELEMENT_BEHIND: Final = re.compile(r"\w\[[^\[\]]{1,9}\]\Z")
_ADDRESS_BEHIND: Final = re.compile(r"(?:https?://|www\.)\S{0,60}\Z", re.IGNORECASE)
_OPERATOR_BEHIND: Final = re.compile(r"(?:[=\u2208\u2264\u2265]|\\[a-z]+|\w\(|\{[^{}]{0,50}\"\s?:)\s?\Z", re.IGNORECASE)
"""An operator, a command of LaTeX, the beginning of arguments or a name in JSON."""
_QUOTE_OPENS: Final = re.compile(r"(?:^|\s)[\"'\u201c\u201e\u00ab\u2018(]\Z")
_STATEMENT_BEHIND: Final = re.compile(r"(?P<word>[^\W\d_]{3,40})[\"”»]?\Z")
_RAISED_BEHIND: Final = re.compile(r"(?:[^\W\d_]{4}|[.,;:!?\"”»)\]])\Z")
_SENTENCE_BEHIND: Final = re.compile(r"(?P<word>[^\W\d_]{3,40})[.!?][\"”»]?\Z")
_NEXT_SENTENCE: Final = re.compile(r"\s|\Z")
_ENDS_STATEMENT: Final = re.compile(r"[.!?\n]|\Z")
_NUMBERED: Final = re.compile(
    r"(?:section|subsection|paragraph|article|clause|step|item|point|option|case|rule|class|group|level|phase|type"
    r"|table|figure|equation|formula|number|schedule|annex|appendix|part|chapter|absatz|satz|nummer|artikel"
    r"|ziffer|punkt|schritt|abschnitt|tabelle|gleichung|art|para|sec|abs|ziff)s?",
    re.IGNORECASE,
)
"""Words that a number in round brackets belongs to."""
_QUOTABLE: Final = re.compile(rf"\[[^\[\]\n]{{1,60}}\](?!\()|[{RAISED_DIGITS}]{{1,3}}")
_NAME: Final = re.compile(r"\bs\d{1,6}\b", re.IGNORECASE)
"""Name of something that `[S1]` can mean instead of a passage, such as a train."""
_LONGEST_WORD: Final = 40


@dataclass(frozen=True, slots=True)
class CitableNumbers:
    """Meaning of the numbers of an answer: the passages 1 to `highest`, or a bracket that stands in their texts."""

    highest: int = 0
    quoted: frozenset[str] = frozenset()
    """Brackets and raised numbers in the texts of the passages, each with the word before it, without spaces."""
    names: frozenset[str] = frozenset()
    """Words such as `S1` in these texts."""

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "CitableNumbers":
        """Return the numbers of passages with these texts."""
        known = list(texts)
        found = ((text, each) for text in known for each in _QUOTABLE.finditer(text))
        quoted = (_with_word(text[max(0, each.start() - 60) : each.start()], each[0]) for text, each in found)
        names = (name.lower() for text in known for name in _NAME.findall(text))
        return cls(len(known), frozenset(quoted), frozenset(names))

    def has(self, number: int) -> bool:
        """Return whether a passage has this number."""
        return 1 <= number <= self.highest

    def may_have(self, number: int) -> bool:
        """Return whether a model could have meant a passage by this number."""
        return 1 <= number <= self.highest + MORE_THAN_FOUND

    def quotes(self, before: str, bracket: str) -> bool:
        """Return whether a bracket or a raised number stands in a passage behind the same word."""
        return _with_word(before, bracket) in self.quoted

    def names_any(self, numbers: Iterable[int]) -> bool:
        """Return whether the passages have a name, such as `S1`, with any of these numbers."""
        return not self.names.isdisjoint(f"s{number}" for number in numbers)


@dataclass(frozen=True, slots=True)
class Mark:
    """A citation as the model wrote it."""

    numbers: Sequence[int]
    space: str
    """Space before it, which is removed with it."""
    text: str
    is_plain: bool
    """True if it is written as `[1]` or `[1, 2]`."""
    page: str = ""

    def written(self, numbers: Sequence[int]) -> str:
        """Return the mark with these of its numbers."""
        if self.is_plain and list(numbers) == list(self.numbers):
            return self.text
        page = f", {self.page.strip(' ,:()')}" if self.page else ""
        return f"{self.space}[{', '.join(map(str, numbers))}]{page}"


def read_mark(found: re.Match[str], *, before: str, after: str, citable: CitableNumbers) -> Mark | None:
    """Return the citation that a match of `MARK` is; None if it is part of the text.

    Args:
        found: What may be a mark.
        before: Text before it, at least its last words.
        after: The next two characters; fewer at the end of the text.
        citable: Numbers of the passages.
    """
    read = _read_brackets if found["digits"] is None else _read_raised
    return read(found, before, after=after, citable=citable)


def _read_brackets(found: re.Match[str], before: str, *, after: str, citable: CitableNumbers) -> Mark | None:
    body = found["numbers"] or found["raised"] or found["round"] or found["curly"]
    numbers = _read_numbers(body)
    if not numbers or len(found[0]) > MAX_MARK_CHARACTERS or not all(map(citable.may_have, numbers)):
        return None
    is_known, is_plain = all(map(citable.has, numbers)), False
    if not any(map(citable.has, numbers)) and _RANGE.search(body):
        return None
    before += found["space"]
    is_lettered = _LETTERED.match(body) is not None
    if is_lettered and (not is_known or found["square"] is None or citable.names_any(numbers)):
        return None
    if found["square"] is None:
        if (found["tag"] or "sup").lower() == "sup" and not (
            is_known and _ends_a_statement(found, before, after=after)
        ):
            return None
    elif (
        found["square"] not in "\u3010\u3014\uff3b"
        and found["tail"] is None
        and (is_lettered or not _LABELLED.match(body))
    ):
        if _is_part_of_text(found, before, after=after, is_known=is_known, citable=citable):
            return None
        is_plain = _PLAIN.fullmatch(body) is not None
    return Mark(numbers, found["space"], found[0], is_plain, found["page"] or "")


def _read_raised(found: re.Match[str], before: str, *, after: str, citable: CitableNumbers) -> Mark | None:
    """Return the citation that raised digits are; None if they are a power, or stand so in a passage."""
    digits = without_raising(found["digits"])
    numbers = [int(digits)] if citable.has(int(digits)) else list(map(int, digits))
    if found["space"] or digits.startswith("0") or not all(map(citable.has, numbers)):
        return None
    is_one = can_cite(before, after) and not citable.quotes(before, found["digits"])
    return Mark(numbers, "", found[0], is_plain=False) if is_one else None


def needs_place(before: str, after: str) -> bool:
    """Return whether the text around a mark would form another mark, or code, once the mark is removed."""
    if _OPEN_BEHIND.search(before) or _REFERENCE_BEHIND.search(before) or before.endswith("]("):
        return True
    return after[:1] in {"`", "~"} and before[-1:] in {" ", "\t", "\n", "`", "~", "\\"}


def _read_numbers(body: str) -> list[int]:
    """Return the numbers of a mark, with those within its ranges; none if it has a wrong range, or no such number."""
    numbers: list[int] = []
    is_range = False
    for part in _PARTS.finditer(body):
        if part["to"] is not None:
            # The hyphen of a label, such as `doc-1`, stands before the first number.
            is_range = bool(numbers)
            continue
        if part["number"].startswith("0"):
            return []
        number = int(part["number"])
        if is_range and not numbers[-1] < number <= numbers[-1] + _MAX_NUMBERS:
            return []
        numbers += range(numbers[-1] + 1, number + 1) if is_range else [number]
        is_range = False
    return numbers


def _is_part_of_text(found: re.Match[str], before: str, *, after: str, is_known: bool, citable: CitableNumbers) -> bool:
    """Decide whether numbers in square brackets are an element, an interval, a quotation or a link."""
    if _OPEN_BEHIND.search(before):
        # What it is part of may be a mark.
        return False
    if _GOES_ON.match(after):
        return True
    if _ELEMENT_BEHIND.search(before) or _OPERATOR_BEHIND.search(before):
        return True
    word = _LAST_WORD.search(before)
    is_named = word is not None and (_IDENTIFIER.fullmatch(word[0]) or (word[0].isdigit() and not is_known))
    if is_named and not (is_known and _ADDRESS_BEHIND.search(before)):
        return True
    if not is_known and _QUOTE_OPENS.search(before):
        return True
    is_single = found["numbers"].isdigit()
    return not (is_single and is_known) and citable.quotes(before, found[0])


def _ends_a_statement(found: re.Match[str], before: str, *, after: str) -> bool:
    """Decide whether a number that is raised, or in other than square brackets, stands where a citation stands."""
    if found["raised"] is not None:
        return _RAISED_BEHIND.search(before.rstrip()) is not None
    if found["round"] is not None and _LABELLED.match(found["round"]):
        return True
    # Several numbers, such as `(1)(2)`, are no item of a list.
    if found["round"] is not None and ")" in found["round"]:
        sentence = _SENTENCE_BEHIND.search(before.rstrip(" \t"))
        if not _takes_number(sentence):
            return _NEXT_SENTENCE.match(after) is not None
    statement = _STATEMENT_BEHIND.search(before.rstrip(" \t"))
    is_apart = before[-1:] in {" ", "\t"} and not _takes_number(statement)
    return is_apart and _ENDS_STATEMENT.match(after) is not None


def _takes_number(behind: re.Match[str] | None) -> bool:
    """Return whether a number in round brackets belongs to what stands behind it: a word such as "section", or none."""
    return behind is None or _NUMBERED.fullmatch(behind["word"]) is not None


def _with_word(before: str, bracket: str) -> str:
    words = before.split()
    return (words[-1][-_LONGEST_WORD:] if words else "") + "".join(bracket.split())
