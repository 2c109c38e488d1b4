"""Passages as a model sees them: numbered within a run, cleaned, and marked as data that nobody has to obey. Pure."""

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

_CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""All but the line feed and the tab."""
_BIDIRECTIONAL: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""They make a text read otherwise than it is stored."""
_INVISIBLE: Final = r"\u00ad\u034f\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"
_TAGS: Final = r"\ufe00-\ufe0f\U000e0000-\U000e0fff"
"""Tag characters and variation selectors, which nobody sees and models read: any text can be written in them."""
_UNSEEN: Final = re.compile(f"[{_CONTROLS}{_BIDIRECTIONAL}{_INVISIBLE}{_TAGS}]+")


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A chunk that a search of this run has returned."""

    number: int
    """Number of the citation, `[number]`; 0 until the book has assigned one."""
    citation: str
    """Id of the chunk: the same text for ever."""
    kb_id: str
    document_id: str
    document_name: str
    chunk_index: int
    page_start: int | None
    page_end: int | None
    relevance: float | None
    """None of a neighbour, and where nobody compared vectors."""
    truncated: bool
    text: str

    def as_citation(self) -> dict[str, Any]:
        """Return the fields that a run and its answer contain."""
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
        }


@dataclass(slots=True)
class PassageBook:
    """All passages of one run; one that is found twice keeps its number."""

    _by_chunk: dict[tuple[str, str], CitedPassage] = field(default_factory=dict)

    def enter(self, passage: CitedPassage) -> CitedPassage:
        """Return it with its number, and with the longest text of it that was found so far."""
        key = passage.kb_id, passage.citation
        known = self._by_chunk.get(key)
        number = len(self._by_chunk) + 1 if known is None else known.number
        if known is None or len(passage.text) > len(known.text):
            known = self._by_chunk[key] = replace(passage, number=number)
        return known

    def texts(self) -> Iterator[str]:
        """Yield the texts of all passages and the names of their documents, as the model saw them."""
        for passage in self._by_chunk.values():
            yield cleaned(passage.document_name)
            yield cleaned(passage.text)

    def find(self, number: int) -> CitedPassage | None:
        """The passage cited by `[number]`."""
        return next((each for each in self._by_chunk.values() if each.number == number), None)

    def has(self, number: int) -> bool:
        """Return whether `[number]` cites a passage."""
        return 1 <= number <= len(self._by_chunk)


@dataclass(frozen=True, slots=True)
class PromptDelimiter:
    """Delimiter of data in the prompts of one run. It is random, so no document can contain it."""

    mark: str

    @classmethod
    def fresh(cls) -> "PromptDelimiter":
        return cls(secrets.token_hex(8))

    def around(self, data: Any) -> str:
        """`data` as JSON, in which no line is one of the marks."""
        encoded = json.dumps(data, ensure_ascii=False).replace(self.mark, "")
        return f"<<<{self.mark}>>>\n{encoded}\n<<<end {self.mark}>>>"


def shown(passages: Sequence[CitedPassage], *, omitted_count: int, delimiter: PromptDelimiter) -> str:
    """Build the result of a search for the model."""
    return delimiter.around(
        {
            "passages": [
                {
                    "id": f"[{passage.number}]",
                    "document": cleaned(passage.document_name),
                    **({} if passage.page_start is None else {"page": passage.page_start}),
                    "text": cleaned(passage.text),
                    **({"truncated": True} if passage.truncated else {}),
                }
                for passage in passages
            ],
            "omitted_count": omitted_count,
        }
    )


def cleaned(text: str) -> str:
    """`text` without what a person would not see in it: control, direction, tag and invisible characters."""
    return _UNSEEN.sub("", text)
