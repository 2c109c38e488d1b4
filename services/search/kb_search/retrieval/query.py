"""The query of a search, and its caller."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.context_budget import PrioritizeBy
from kb_search.retrieval.function_words import leave_out_function_words
from kb_shared.mongo.index_queries import MOST_CLAUSES, QueryWords, count_clauses, count_paths
from kb_shared.mongo.query_log import Origin
from kb_shared.text.spellings import find_spellings
from kb_shared.text.text_normalization import AS_WRITTEN, SPELLED

_MAX_WORDS: Final = 256
_MAX_SPELLINGS: Final = 80
_MOST_REPEATS: Final = 4
_SCOPE_CLAUSES: Final = 2
"""Clauses on the organization and the KB."""
_LONGEST_WORD: Final = 255
"""Number of characters after which Lucene begins another word."""
# One word each: emoji and other pictures, ideographs and kana. Lucene takes fewer of them for words.
_SINGLE: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3005-\u3007\u3021-\u3030\u3038-\u30ff\u3297\u3299\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00016fe0-\U00018dff\U0001b000-\U0001b2ff\U0001f000-\U0001faff\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"[{_SINGLE}]|[^\W{_SINGLE}]{{1,{_LONGEST_WORD}}}")


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

    def words_for_index(self, text_normalization: int, filters: Sequence[Mapping[str, Any]] = ()) -> QueryWords:
        """Return the words for the text index of a KB with this normalization, cut to what a query may contain.

        Words that every text has are left out, so that they alone make no match (`function_words`).

        Args:
            text_normalization: Normalization of the KB.
            filters: Operators of `$search` by which the query filters, besides organization and KB.
        """
        has_spellings = text_normalization == SPELLED
        paths = count_paths(has_spellings=has_spellings)
        spelled, parts = self._spellings() if has_spellings else ([], [])
        others = (len(spelled) + len(parts)) * paths
        left = MOST_CLAUSES - count_clauses([*filters]) - _SCOPE_CLAUSES - others
        text = self._first_words(min(_MAX_WORDS, left // paths), folded=text_normalization != AS_WRITTEN)
        return QueryWords(text, spelled, parts, has_spellings)

    def _spellings(self) -> tuple[list[str], list[str]]:
        """Return other spellings of wholes and of parts.

        What is several words counts as often: otherwise any chunk with two of its words would be better.
        """
        spelled: list[str] = []
        parts: dict[str, None] = {}
        for spelling in find_spellings(self.text, in_query=True):
            words = min(len(self.text[spelling.start : spelling.end].split()), _MOST_REPEATS)
            spelled += [term for term in spelling.wholes if term not in spelled for _ in range(words)]
            parts |= dict.fromkeys(spelling.parts)
            if len(spelled) + len(parts) >= _MAX_SPELLINGS:
                break
        del spelled[_MAX_SPELLINGS:]
        return spelled, [part for part in parts if part not in spelled][: _MAX_SPELLINGS - len(spelled)]

    def _first_words(self, count: int, *, folded: bool) -> str:
        text = kept = leave_out_function_words(self.text)
        if folded and not text.isascii():
            # One character can stand for several words: U+FDFA for four. Each character is normalized separately: the
            # time to order the combining marks of a text grows with the square of its length.
            text = "".join(unicodedata.normalize("NFKC", character) for character in text)
        for number, word in enumerate(_WORD.finditer(text), 1):
            if number == count:
                return text[: word.end()]
        return kept
