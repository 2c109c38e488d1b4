"""Passages as a model reads them: numbered within a run, cleaned, and delimited as data without instructions. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kb_search.runs.mark_notation import CitableNumbers
from kb_shared.chat.prompt_delimiter import PromptDelimiter

_CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Control characters except line feed and tab."""
_BIDIRECTIONAL: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Direction characters, which make a text look different from what is stored."""
_INVISIBLE: Final = r"\u00ad\u034f\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"
_TAGS: Final = r"\ufe00-\ufe0f\U000e0000-\U000e0fff"
"""Tag characters and variation selectors, which people do not see but models read. They can encode any text."""
_NOT_VISIBLE: Final = re.compile(f"[{_CONTROLS}{_BIDIRECTIONAL}{_INVISIBLE}{_TAGS}]+")
NOTHING_FOUND: Final = "Nothing was found."


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A chunk that a search of this run has returned."""

    number: int
    """Number of the citation, `[number]`; 0 until the book has assigned one."""
    citation: str
    """Id of the chunk, which always means the same text."""
    kb_id: str
    document_id: str
    document_name: str
    chunk_index: int
    page_start: int | None
    page_end: int | None
    relevance: float | None
    """Relevance of the match; None for a neighbour, or if no vectors were compared."""
    truncated: bool
    text: str
    start: int = 0
    end: int = 0
    heading_path: tuple[str, ...] = ()
    also_in: tuple[dict[str, str], ...] = ()
    """Other chunks with the same text."""

    def as_citation(self) -> dict[str, Any]:
        """Return the fields that callers get."""
        return {"chunk_id": self.citation, **self.stored_fields(), "document_deleted": False}

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields that a run is stored with."""
        return {
            "number": self.number,
            "citation": self.citation,
            "kb_id": self.kb_id,
            "document_id": self.document_id,
            "source": self.document_name,
            "chunk_index": self.chunk_index,
            "page_start": self.page_start,
            "page_end": self.page_end,
            "relevance": self.relevance,
            "start": self.start,
            "end": self.end,
            "heading_path": list(self.heading_path),
            "text": self.text,
            "truncated": self.truncated,
            "also_in": list(self.also_in),
        }


@dataclass(slots=True)
class RunPassages:
    """Passages that the searches of one run have returned; one that is found again keeps its number."""

    _by_chunk: dict[tuple[str, str], CitedPassage] = field(default_factory=dict)

    def add(self, passage: CitedPassage) -> CitedPassage:
        """Add a passage; return it with its number, and with the longest text of it that was found so far."""
        key = passage.kb_id, passage.citation
        known = self._by_chunk.get(key)
        number = len(self._by_chunk) + 1 if known is None else known.number
        if known is None or len(passage.text) > len(known.text):
            known = self._by_chunk[key] = replace(passage, number=number)
        return known

    def all(self) -> Sequence[CitedPassage]:
        """Return all passages in the order of their numbers."""
        return list(self._by_chunk.values())

    def texts(self) -> Mapping[int, Sequence[str]]:
        """Return the name of the document and the text of each passage, as the model saw them, by its number."""
        return {
            passage.number: [*map(remove_invisible_characters, (passage.document_name, passage.text))]
            for passage in self._by_chunk.values()
        }

    def find(self, number: int) -> CitedPassage | None:
        """Return the passage that `[number]` cites; None if there is none."""
        return next((each for each in self._by_chunk.values() if each.number == number), None)

    def citable(self) -> CitableNumbers:
        """Return the numbers that an answer can cite now."""
        return CitableNumbers.of_texts(passage.text for passage in self._by_chunk.values())


def render_passages(passages: Sequence[CitedPassage], *, omitted_count: int, delimiter: PromptDelimiter) -> str:
    """Build the result of a search for the model: each passage with its number, and its lines as quotations."""
    if not passages:
        return NOTHING_FOUND
    found = delimiter.enclose("\n\n".join(map(_render, passages)))
    return f"{found}\n{omitted_count} more passages did not fit." if omitted_count else found


def quote_lines(text: str) -> str:
    """Return a text as a quotation, in which no line can be taken for the end of the data or for another header."""
    return "\n".join(f"> {line}".rstrip() for line in remove_invisible_characters(text).split("\n"))


def to_one_line(text: str) -> str:
    """Return a text such as a name without line ends and invisible characters."""
    return " ".join(remove_invisible_characters(text).split())


def _render(passage: CitedPassage) -> str:
    page = "" if passage.page_start is None else f", page {passage.page_start}"
    cut = " (only its beginning)" if passage.truncated else ""
    return f"[{passage.number}] {to_one_line(passage.document_name)}{page}{cut}\n{quote_lines(passage.text)}"


def describe_passages(passages: Sequence[CitedPassage], *, omitted_count: int) -> dict[str, Any]:
    """Return the result of a search as fields."""
    return {
        "passages": [
            {
                "id": f"[{passage.number}]",
                "document": remove_invisible_characters(passage.document_name),
                **({} if passage.page_start is None else {"page": passage.page_start}),
                "text": remove_invisible_characters(passage.text),
                **({"truncated": True} if passage.truncated else {}),
            }
            for passage in passages
        ],
        "omitted_count": omitted_count,
    }


def remove_invisible_characters(text: str) -> str:
    """Return `text` without control, direction, tag and invisible characters, which a person would not see."""
    return _NOT_VISIBLE.sub("", text)
