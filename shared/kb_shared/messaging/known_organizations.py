"""Tells which organizations exist: those with an API key, also a revoked one, or with a KB."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pymongo.read_concern import ReadConcern

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.database import Database

_REMEMBERED: Final = 10_000
_LINEARIZABLE: Final = ReadConcern("linearizable")
_KNOWN_FOR_S: Final = 60.0
"""Time for which an organization counts as there after it was found. One that is missing is looked for each time."""


class KnownOrganizations:
    """Looks organizations up; concurrent questions share one command."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: BoundedCache[str, bool] = BoundedCache(_REMEMBERED, lifetime_s=_KNOWN_FOR_S)
        self._found: BatchLoader[str, bool] = BatchLoader(self._find)

    async def is_known(self, organization_id: str) -> bool:
        """Return whether an organization exists."""
        if self._known.find(organization_id):
            return True
        is_known = bool(await self._found(organization_id))
        if is_known:
            self._known.put(organization_id, value=True)
        return is_known

    async def _find(self, organization_ids: Sequence[str]) -> Mapping[str, bool]:
        found = await _find_existing(self._database, organization_ids)
        if missing := set(organization_ids) - found:
            # A primary that is cut off may not have an organization yet, and its answer would be final.
            found |= await _find_existing(self._database.with_options(read_concern=_LINEARIZABLE), missing)
        return dict.fromkeys(found, True)


async def _find_existing(database: Database, organization_ids: Collection[str]) -> set[str]:
    found = await api_keys.find_organizations(database, organization_ids)
    if missing := set(organization_ids) - found:
        found |= await knowledge_bases.find_organizations(database, missing)
    return found
