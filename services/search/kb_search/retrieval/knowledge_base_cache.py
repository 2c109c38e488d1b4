from collections.abc import Mapping, Sequence
from typing import Final

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.bulk_lookup import OrganizationKey, bulk_lookup
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

_MAX_CACHED: Final = 10_000


class KnowledgeBaseCache:
    """Remembers KBs as this process read them last. They may have changed since."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look_up: BatchLoader[OrganizationKey, KnowledgeBase] = BatchLoader(
            bulk_lookup(database, knowledge_bases.find_by_ids)
        )
        self._known: BoundedCache[OrganizationKey, KnowledgeBase] = BoundedCache(_MAX_CACHED)

    def find_cached(self, organization_id: str, *, kb_ids: Sequence[str]) -> Mapping[str, KnowledgeBase] | None:
        """Return the KBs as they were read last, by id; None if one of them is not cached."""
        known = {kb_id: self._known.find(OrganizationKey(organization_id, kb_id)) for kb_id in kb_ids}
        cached = {kb_id: kb for kb_id, kb in known.items() if kb is not None}
        return cached if len(cached) == len(known) else None

    async def read_current(self, organization_id: str, *, kb_ids: Sequence[str] | None) -> Mapping[str, KnowledgeBase]:
        """Read the current state of the given KBs that exist; of all KBs of the organization if None.

        Concurrent searches share one query of MongoDB.
        """
        if kb_ids is None:
            return {kb.kb_id: kb for kb in await knowledge_bases.find_of_organization(self._database, organization_id)}
        # An id that is not ASCII is no id of a KB, and could make the shared query fail for the other searches.
        wanted = [OrganizationKey(organization_id, kb_id) for kb_id in kb_ids if kb_id.isascii()]
        found = dict(zip(wanted, await run_all_or_cancel(map(self._look_up, wanted)), strict=True))
        for each, kb in found.items():
            self._update(each, kb)
        return {kb.kb_id: kb for kb in found.values() if kb is not None}

    def _update(self, each: OrganizationKey, kb: KnowledgeBase | None) -> None:
        if kb is None or kb.status is Status.DELETING:
            self._known.discard(each)
            return
        self._known.put(each, kb)
