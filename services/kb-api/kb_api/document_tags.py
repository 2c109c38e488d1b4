"""Registers the tags of document events that are sent over HTTP, within the quota of tags."""

from collections.abc import Collection
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.http.quotas import require_quota
from kb_shared.mongo import tags
from kb_shared.mongo.database import Database

_REMEMBERED: Final = 100_000


class DocumentTags:
    """Knows the registered tags of organizations; there is one for a process."""

    def __init__(self, database: Database, *, limit: int) -> None:
        """Begin without known tags. A limit of 0 means no limit."""
        self._database = database
        self._limit = limit
        # A tag stays registered, even when it is deleted.
        self._known: BoundedCache[tuple[str, str], bool] = BoundedCache(_REMEMBERED)

    async def register(self, organization_id: str, *, tag_ids: Collection[str]) -> None:
        """Register the tags that are new. Costs nothing if this process knows all of them.

        Raises:
            RequestError: 409 `quota-exceeded`; no tag was registered.
        """
        unsure = {tag_id for tag_id in tag_ids if not self._known.find((organization_id, tag_id))}
        if not unsure:
            return
        new = await tags.find_unregistered(self._database, organization_id, tag_ids=unsure)
        if new:
            await self._require_quota(organization_id, new=len(new))
            await tags.register(self._database, organization_id, tag_ids=new)
        for tag_id in unsure:
            self._known.put((organization_id, tag_id), value=True)

    async def _require_quota(self, organization_id: str, *, new: int) -> None:
        async def count_with_others() -> int:
            """Count as if all new tags but one were there already."""
            return await tags.count(self._database, organization_id) + new - 1

        await require_quota(count_with_others, self._limit, things="tags", setting="KB_MAX_TAGS")
