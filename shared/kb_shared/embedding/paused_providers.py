"""Keeps documents from providers that their organization has paused."""

import asyncio
from dataclasses import dataclass
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import ProviderPaused
from kb_shared.mongo import provider_pauses
from kb_shared.mongo.database import Database

FRESH_S: Final = 2.0
"""Time after which a pause, or the end of one, has reached every replica."""
_MAX_KNOWN: Final = 1_000
_RETRY_AFTER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class _KnownPauses:
    providers: frozenset[str]
    at: float


class PausedProviders:
    """Pauses of all organizations, read at least every two seconds. One for a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: BoundedCache[str, _KnownPauses] = BoundedCache(_MAX_KNOWN)

    async def check(self, organization_id: str, provider: str) -> None:
        """Raise ProviderPaused if the organization has paused the provider."""
        now = asyncio.get_running_loop().time()
        known = self._known.find(organization_id)
        # A known pause is read again: a document that comes back after the resumption must not wait once more.
        if known is None or now - known.at > FRESH_S or provider in known.providers:
            pauses = await provider_pauses.find_all(self._database, organization_id)
            known = _KnownPauses(frozenset(pauses), now)
            self._known.put(organization_id, known)
        if provider in known.providers:
            raise ProviderPaused(
                f"your organization has paused the provider {provider!r}: POST /llm-providers/{provider}/resume",
                retry_after_s=_RETRY_AFTER_S,
            )
