"""Reads the sentences of passages that can be quoted, and what stands above each of them. Pure.

Headings, questions, rules of tables, images and HTML are never quoted: a heading, a question, the line before a list or
the head of a table says what the sentences below it are about. A quotation is whole: the lines of a paragraph are
joined, and a line that announces a list or a command is quoted with it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from kb_local.model_server.passage_blocks import MOST_HEADING_WORDS, PassageBlock, is_closed, is_question, read_blocks

MOST_CHARACTERS: Final = 600
"""Limit of a quotation. A longer one is no answer, and is left out rather than cut."""
_MOST_ANNOUNCED_CHARACTERS: Final = 300
_MOST_SHORT_WORDS: Final = 2

_END: Final = re.compile(
    r"[.!?\u2026\u061f\u0964]+[)\]\"'\u201d\u2019\u00bb*_`]*(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*"
)
_ABBREVIATION: Final = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|cf|approx|ca|dr|mr|mrs|ms|prof|st|inc|ltd|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec"
    r"|bzw|evtl|ggf|inkl|usw|vgl|str|tel|z\.\s?b|d\.\s?h|u\.\s?a|p\.\s?ex|sr|sra|mme)\.\Z",
    re.IGNORECASE,
)
# `J. Smith` and `Dr. J. Smith`, but not the end of `licence B. Boats`.
_INITIAL: Final = re.compile(r"(?:^|[A-Z]\w*\.?\s)\W{0,3}[A-Z]\.\Z")
_BEFORE_NUMBER: Final = re.compile(r"\b(?:no|nos|nr|fig|sec|vol|ch|art|pp?|abs)\.\Z", re.IGNORECASE)
_BEFORE_MONTH: Final = re.compile(r"\b\d{1,2}\.\Z")
_MONTH: Final = re.compile(r"\s+(?:jan|feb|m\u00e4r|mar|apr|ma[iy]|jun|jul|aug|sep|o[kc]t|nov|de[zc])", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\s*\d")
_ONLY_NUMBER: Final = re.compile(r"\s*\(?\d{1,3}\.\Z")
_GOES_ON: Final = re.compile(r"(?:and|or|but|which|that|of|und|oder|et|ou|y|o)\b")
_NO_BEGINNING: Final = ",;)<"
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Passage:
    citation: str
    """Mark such as `[1]`, as it came with the passage; "" for a document, which is not cited."""
    text: str
    source: str = ""
    """Name of the document."""


@dataclass(frozen=True, slots=True)
class QuotableSentence:
    """A sentence, a line of a list or a row of a table, with the white space of one line."""

    citation: str
    text: str
    about: str = ""
    """The name of its document and the heading, question, line or head of a table that it stands below."""
    asked: str = ""
    """The question that it is the first answer to."""
    is_whole: bool = True
    """False if the passage probably begins or ends within it."""


@dataclass(slots=True)
class _Above:
    """Text that stands above the next block."""

    source: str
    heading: str = ""
    asked: str = ""
    is_answered: bool = False
    announced: str = ""
    head: str = ""

    def ask(self, question: str) -> None:
        self.asked, self.is_answered = question, False

    def answer(self) -> str:
        """Return the question, if the next sentence is the first one below it."""
        first, self.is_answered = not self.is_answered, True
        return self.asked if first else ""

    def text(self, kind: str) -> str:
        near = self.head if kind == "row" else self.announced if kind == "item" else ""
        return " ".join(dict.fromkeys(filter(None, (self.source, self.heading, self.asked, near))))


def read_sentences(passages: Sequence[Passage]) -> list[QuotableSentence]:
    """Return what can be quoted of passages, in order, each text once."""
    found: dict[str, QuotableSentence] = {}
    for passage in passages:
        for sentence in _sentences_of(passage):
            if sentence.text not in found and len(sentence.text) <= MOST_CHARACTERS and _WORD.search(sentence.text):
                found[sentence.text] = sentence
    return list(found.values())


def _sentences_of(passage: Passage) -> Iterator[QuotableSentence]:
    blocks = read_blocks(passage.text)
    above = _Above(passage.source)
    for position, block in enumerate(blocks):
        match block.kind:
            case "heading":
                above = _Above(passage.source, heading=block.text)
                if is_question(block.text):
                    above.ask(block.text)
            case "question":
                above.ask(block.text)
            case "head":
                above.head = block.text
            case "text" | "item" | "row":
                yield from _quotations(blocks, position, above, citation=passage.citation)
        if block.kind == "text":
            above.announced = block.text.rsplit(". ", 1)[-1] if block.text.endswith(":") else ""


def _quotations(
    blocks: Sequence[PassageBlock], position: int, above: _Above, *, citation: str
) -> Iterator[QuotableSentence]:
    """Yield the sentences of a block; a question among them is what those after it are about."""
    block, following = blocks[position], blocks[position + 1 :]
    sentences = [block.text] if block.kind == "row" else list(_split(block.text))
    for number, text in enumerate(sentences):
        if is_question(text):
            above.ask(text)
            continue
        is_end = number == len(sentences) - 1
        quoted = _with_announced(text, following) if is_end and text.endswith(":") else text
        is_cut = (number == 0 and block.kind == "text" and _begins_within(text, is_first=position == 0)) or (
            is_end and not following and block.kind == "text" and _ends_within(text)
        )
        yield QuotableSentence(
            citation,
            quoted,
            about=above.text(block.kind),
            asked=above.answer(),
            is_whole=not is_cut and not quoted.endswith(":"),
        )


def _with_announced(text: str, following: Sequence[PassageBlock]) -> str:
    """Return a line that ends with a colon, with the command or the list that it announces."""
    kind = following[0].kind if following else ""
    if kind == "item":
        announced = " ".join(block.raw for block in takewhile(lambda block: block.kind == "item", following))
    elif kind == "code" or (kind == "text" and not is_closed(following[0].text)):
        announced = following[0].raw
    else:
        return text
    return f"{text} {announced}" if len(announced) <= _MOST_ANNOUNCED_CHARACTERS else text


def _begins_within(text: str, *, is_first: bool) -> bool:
    """Return whether a text goes on with a sentence whose beginning is above it."""
    if _GOES_ON.match(text):
        return True
    return is_first and (text[:1].islower() or text[:1] in _NO_BEGINNING)


def _ends_within(text: str) -> bool:
    return not is_closed(text) and len(text.split()) > MOST_HEADING_WORDS


def _split(text: str) -> Iterator[str]:
    """Yield the sentences of a text; an answer such as `Yes.` together with the sentence after it."""
    start = 0
    for end in _END.finditer(text):
        before = text[start : end.end()]
        following = text[end.end() :].strip()
        if _goes_on(before, text[end.end() : end.end() + 12]) or (following and _is_short_answer(before)):
            continue
        yield before.strip()
        start = end.end()
    if rest := text[start:].strip():
        yield rest


def _is_short_answer(text: str) -> bool:
    return len(text.split()) <= _MOST_SHORT_WORDS and not text.strip()[:1].islower() and not is_question(text)


def _goes_on(before: str, after: str) -> bool:
    """Return whether a full stop, or another mark, ends no sentence."""
    if after.lstrip()[:1].islower() or _ONLY_NUMBER.fullmatch(before):
        return True
    if _ABBREVIATION.search(before) or _INITIAL.search(before):
        return True
    if _BEFORE_NUMBER.search(before):
        return _NUMBER.match(after) is not None
    return _BEFORE_MONTH.search(before) is not None and _MONTH.match(after) is not None
