"""Bounds the number of series with the label `kb_id`: only so many KBs have their own at a time."""

from typing import Final, Self

from prometheus_client import Counter

OTHER_KNOWLEDGE_BASES: Final = "_other"
"""Value of `kb_id` for all KBs without series of their own."""
DEFAULT_LIMIT: Final = 2_000


class SeriesOfKnowledgeBases:
    """KBs that have series of their own: the first ones that were counted, until they are forgotten."""

    def __init__(self) -> None:
        self.limit = DEFAULT_LIMIT
        """Greatest number of KBs with series of their own."""
        self._kb_ids: set[str] = set()

    def label(self, kb_id: str) -> str:
        """Return the value of `kb_id` for a KB. It may get series of its own with this call."""
        if kb_id not in self._kb_ids and len(self._kb_ids) >= self.limit:
            return OTHER_KNOWLEDGE_BASES
        self._kb_ids.add(kb_id)
        return kb_id

    def forget(self, kb_id: str) -> None:
        """Make room for another KB."""
        self._kb_ids.discard(kb_id)

    def kb_ids(self) -> set[str]:
        """Return the KBs with series of their own."""
        return set(self._kb_ids)


SERIES: Final = SeriesOfKnowledgeBases()
"""KBs with series in this process. All counters share them, so that a KB has either all of its series or none."""


class KnowledgeBaseCounter(Counter):
    """Counter with `kb_id` as its first label, which `SERIES` limits."""

    def labels(self, *labelvalues: object, **labelkwargs: object) -> Self:
        assert not labelkwargs, "labels are given in their order, with kb_id as the first"
        kb_id, *others = labelvalues
        return super().labels(SERIES.label(str(kb_id)), *others)
