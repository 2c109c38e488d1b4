"""Search requests: a pool of queries per KB, modes, and filters."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.load.arrivals import ZipfChoice
from benchmarks.load.population import LoadPartition

MODES: Final = ("hybrid", "vector", "text")
TOP_K: Final = 10
_WORDS_A_QUERY: Final = 5
_WORD: Final = re.compile(r"\w+")


class QueryPool:
    """Queries of five consecutive words of a document. A few queries of a KB are asked much more often than others."""

    def __init__(
        self, *, queries_of_kb: int, skew: float, modes: Mapping[str, float], filtered: float, dice: random.Random
    ) -> None:
        self._number = queries_of_kb
        self._skewed = ZipfChoice(skew=skew)
        self._modes = modes
        self._filtered = filtered
        self._dice = dice
        self._queries: dict[str, list[str]] = {}

    def fill(self, partition: LoadPartition, texts: Sequence[str]) -> None:
        """Take the queries of a KB from these texts."""
        drawn = (self._some_words(self._dice.choice(texts)) for _ in range(self._number if texts else 0))
        self._queries[partition.kb_id] = [query for query in drawn if query] or ["documentation"]

    def queries_of(self, partition: LoadPartition) -> Sequence[str]:
        return self._queries[partition.kb_id]

    def next_request(self, partition: LoadPartition) -> dict[str, Any]:
        """Return the body of the next search of a KB."""
        queries = self._queries[partition.kb_id]
        mode = self._dice.choices(MODES, [self._modes.get(each, 0.0) for each in MODES])[0]
        body: dict[str, Any] = {
            "query": queries[self._skewed.choose(len(queries), self._dice)],
            "mode": mode,
            "top_k": TOP_K,
        }
        if self._dice.random() < self._filtered:
            body["metadata_filter"] = {"language": "en"}
        return body

    def _some_words(self, text: str) -> str:
        words = _WORD.findall(text[:20_000])
        start = self._dice.randrange(max(1, len(words) - _WORDS_A_QUERY))
        return " ".join(words[start : start + _WORDS_A_QUERY])
