"""Registers the tags that documents name, once in each process. A tag stays registered, even when deleted."""

from collections.abc import Collection
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.mongo import tags
from kb_shared.mongo.database import Database

_REMEMBERED: Final = 100_000


class KnownTags:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: BoundedCache[tuple[str, str], bool] = BoundedCache(_REMEMBERED)

    async def register(self, organization_id: str, *, tag_ids: Collection[str]) -> None:
        new = [tag_id for tag_id in tag_ids if not self._known.find((organization_id, tag_id))]
        await tags.register(self._database, organization_id, tag_ids=new)
        for tag_id in new:
            self._known.put((organization_id, tag_id), value=True)
