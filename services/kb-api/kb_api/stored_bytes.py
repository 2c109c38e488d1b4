"""Quota of the bytes of texts that an organization may store over HTTP."""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.http import quotas
from kb_shared.mongo import document_texts
from kb_shared.mongo.database import Database

COUNTED_FOR_S: Final = 10.0
"""Seconds for which a count is valid: an organization can exceed its limit by the texts of a few seconds."""
_COSTS_AT_MOST: Final = 0.05
"""Greatest share of time that is spent counting the texts of an organization with very many texts."""
_MOST_KNOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Counted:
    count: int
    valid_until: float


class StoredBytes:
    """Counts the bytes of each organization; there is one for a process."""

    def __init__(self, database: Database, *, limit: int) -> None:
        """Construct it. A limit of 0 means no limit."""
        self._database = database
        self._limit = limit
        self._known: BoundedCache[str, _Counted] = BoundedCache(_MOST_KNOWN)
        self._counting: dict[str, asyncio.Task[int]] = {}

    async def require_quota(self, organization_id: str) -> None:
        """Raise RequestError 409 `quota-exceeded` if the organization has stored as much as it may."""
        await quotas.require_quota(
            lambda: self._count(organization_id),
            self._limit,
            things="bytes of texts",
            setting="KB_MAX_STORED_BYTES",
            remedy="Delete documents: their texts are removed a day later",
        )

    async def _count(self, organization_id: str) -> int:
        known = self._known.find(organization_id)
        if known is not None and monotonic() < known.valid_until:
            return known.count
        counting = self._counting.get(organization_id)
        if counting is None:
            counting = self._counting[organization_id] = asyncio.create_task(self._count_again(organization_id))
            counting.add_done_callback(lambda _: self._counting.pop(organization_id))
        # A request that is cancelled must not end the count for others that wait for it.
        return await asyncio.shield(counting)

    async def _count_again(self, organization_id: str) -> int:
        began = monotonic()
        count = await document_texts.count_stored_bytes(self._database, organization_id)
        ended = monotonic()
        valid_for_s = max(COUNTED_FOR_S, (ended - began) / _COSTS_AT_MOST)
        self._known.put(organization_id, _Counted(count, ended + valid_for_s))
        return count
