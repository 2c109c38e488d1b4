"""Checks that the key and the KBs with which a search began are still the same when its hits are read (ADR 11).

A search begins with the key and the KBs as this process read them last, so a query whose vector is cached waits for no
lookup. It reads both again in the snapshot of its hits. So the answer was allowed at the time of this snapshot.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kb_search.retrieval.knowledge_base_cache import KnowledgeBaseCache
from kb_shared.http.authentication import CachedKey
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.database import Row, mongo_errors
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

_CHECK_AFTER_FAILURE_S: Final = 3.0
"""Seconds to check again after a failure. MongoDB may be the cause, and the caller has already waited for it."""


class StaleRead(Exception):
    """The key or a KB has changed since the search began; the search has to restart."""


class OptimisticRead:
    """A key and KBs as they were read last. Hits are valid only if both are the same in the snapshot of the hits."""

    def __init__(
        self,
        cache: KnowledgeBaseCache,
        organization_id: str,
        *,
        kbs: Mapping[str, KnowledgeBase],
        key: CachedKey | None,
        is_confirmed: bool,
    ) -> None:
        """Start with this key and these KBs.

        Args:
            cache: Reads the KBs again.
            organization_id: Organization of the key and of all KBs.
            kbs: KBs by id.
            key: The key; None if the caller has read it for this request.
            is_confirmed: True if the KBs were read for this request.
        """
        self.kbs = kbs
        self._cache = cache
        self._organization_id = organization_id
        self._key = key
        self._confirmed = is_confirmed and (key is None or key.is_current)
        self._stale = False
        self._indexing: frozenset[str] = frozenset()
        self._lock = asyncio.Lock()

    @property
    def organization_id(self) -> str:
        return self._organization_id

    @property
    def extra_stages(self) -> list[Row]:
        """Return stages that add the rows for `check` to a query on any collection, read in its snapshot."""
        of_key = [] if self._key is None else [api_keys.build_union_stage(self._key.stored.key)]
        of_kbs = [knowledge_bases.build_union_stage(self._organization_id, kb_ids=[*self.kbs])] if self.kbs else []
        return [*of_key, *of_kbs]

    @property
    def max_extra_rows(self) -> int:
        """Return the maximum number of rows that the stages add."""
        return len(self.kbs) + int(self._key is not None)

    def check(self, rows: Sequence[Row]) -> None:
        """Compare the key and the KBs with the rows that the stages added. Raises StaleRead."""
        keys = [api_keys.read_row(row["api_key"]) for row in rows if "api_key" in row]
        read = [knowledge_bases.read_union_row(row["knowledge_base"]) for row in rows if "knowledge_base" in row]
        self._indexing = frozenset(kb.kb_id for kb, shown in read if shown is Status.INDEXING)
        self._set_confirmed(
            same=keys == ([] if self._key is None else [self._key.stored])
            and _without_last_searched({kb.kb_id: kb for kb, _ in read}) == _without_last_searched(self.kbs)
        )

    def show(self, kb: KnowledgeBase) -> KnowledgeBase:
        """Return a KB with the status that people saw in the snapshot of the hits."""
        return replace(kb, status=Status.INDEXING) if kb.kb_id in self._indexing else kb

    async def confirm(self) -> None:
        """Read the key and the KBs again now, unless that was done for this request.

        Raises:
            StaleRead: They have changed.
            RequestError, NotFound: The key is refused.
            TransientError: MongoDB is not available.
        """
        async with self._lock:
            if self._stale:
                raise StaleRead
            if self._confirmed:
                return
            with mongo_errors():
                if self._key is not None:
                    await self._key.read_again()
                kbs = await self._cache.read_current(self._organization_id, kb_ids=[*self.kbs])
            self._set_confirmed(same=_without_last_searched(kbs) == _without_last_searched(self.kbs))

    async def is_current(self) -> bool:
        """Return whether the key and the KBs are unchanged, so that a failure of the search has another cause.

        True if MongoDB does not answer in time.

        Raises:
            RequestError, NotFound: The key is refused.
            TransientError: MongoDB is not available.
        """
        # Also if that was done for this request: when a KB is deleted during it, its indexes disappear.
        self._confirmed = False
        try:
            async with asyncio.timeout(_CHECK_AFTER_FAILURE_S):
                await self.confirm()
        except StaleRead:
            return False
        except TimeoutError:
            return True
        return True

    def _set_confirmed(self, *, same: bool) -> None:
        self._confirmed, self._stale = same, not same
        if not same:
            raise StaleRead


def _without_last_searched(kbs: Mapping[str, KnowledgeBase]) -> dict[str, KnowledgeBase]:
    """Return the KBs without the field that each search changes."""
    return {kb_id: replace(kb, last_searched_at=None) for kb_id, kb in kbs.items()}
