"""The query of a search, and its caller."""

import re
import unicodedata
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.context_budget import PrioritizeBy
from kb_shared.mongo.query_log import Origin
from kb_shared.text.text_normalization import AS_WRITTEN

# Lucene takes 1024 clauses in a query, one for each word and path. In scripts without spaces, a character is a word.
_MAX_WORDS: Final = 256
_WORD: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|\w+")


class Mode(StrEnum):
    HYBRID = "hybrid"
    VECTOR = "vector"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class SearchCaller:
    """Caller of a search."""

    key_id: str
    origin: Origin
    run_id: str | None = None
    agent_id: str | None = None
    """Agent of the run, or the one that a caller names."""
    is_logged: bool = True
    """False for a search that only explains another one."""
    kb_ids: frozenset[str] | None = None
    """KBs to which the key is limited: the others do not exist for it. None: all."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    text: str
    mode: Mode = Mode.HYBRID
    top_k: int = 5
    skip: int = 0
    min_score: float | None = None
    """Minimum relevance; None: the setting of the KB."""
    coalesce_neighbors: int | None = None
    """Number of chunks on either side of a match; None: the setting of the KB."""
    max_tokens: int | None = None
    """Token budget of all results; None: no limit."""
    prioritize_by: PrioritizeBy = "similarity"
    criteria: Criteria = field(default_factory=Criteria)
    candidates_of_leg: int | None = None
    """Number of candidates to request from each index at first; None: enough for this page and some further ones."""

    @property
    def matches_needed(self) -> int:
        """Return the number of matches that must be known to cut this page."""
        return self.skip + self.top_k

    @property
    def uses_vectors(self) -> bool:
        return self.mode is not Mode.TEXT

    @property
    def uses_text(self) -> bool:
        return self.mode is not Mode.VECTOR

    def text_for_index(self, text_normalization: int) -> str:
        """Return the text, cut to as many words as a text index takes, for a KB with this normalization."""
        text = self.text
        if text_normalization != AS_WRITTEN and not text.isascii():
            # One character can stand for several words: U+FDFA for four. Each character is normalized separately: the
            # time to order the combining marks of a text grows with the square of its length.
            text = "".join(unicodedata.normalize("NFKC", character) for character in text)
        for number, word in enumerate(_WORD.finditer(text), 1):
            if number == _MAX_WORDS:
                return text[: word.end()]
        return self.text
