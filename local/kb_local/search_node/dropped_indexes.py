"""Indexes that were dropped a moment ago, and answer until a real deployment notices it."""

import time

from kb_local.search_node.change_feed import Namespace
from kb_local.search_node.generation import BuiltIndex
from kb_local.search_node.search_index import SearchIndex


class DroppedIndexes:
    def __init__(self, answers_for_s: float) -> None:
        self._answers_for_s = answers_for_s
        self._indexes: dict[tuple[Namespace, str], tuple[float, BuiltIndex]] = {}

    def add(self, index: SearchIndex, built: BuiltIndex) -> None:
        now = time.monotonic()
        self._indexes = {name: dropped for name, dropped in self._indexes.items() if dropped[0] > now}
        if self._answers_for_s:
            self._indexes[index.namespace, index.name] = (now + self._answers_for_s, built)

    def find(self, namespace: Namespace, name: str) -> BuiltIndex | None:
        """Return what still answers in place of an index that is not listed any more."""
        until, built = self._indexes.get((namespace, name), (0.0, None))
        return built if until > time.monotonic() else None
