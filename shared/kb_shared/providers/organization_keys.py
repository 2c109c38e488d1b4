"""Reads and decrypts organizations' own keys of providers, and remembers them for some seconds."""

import asyncio
from dataclasses import dataclass
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import ProviderKeyMissing
from kb_shared.mongo import llm_providers
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.providers.access import Access
from kb_shared.secrets.key_ring import KeyRing

FRESH_S: Final = 10.0
"""Time for which a key is used after it was changed or deleted on another replica."""
MAX_KNOWN: Final = 1_000


@dataclass(frozen=True, slots=True)
class _CachedAccess:
    access: Access | None
    at: float


class OrganizationKeys:
    """Keys by organization and provider."""

    def __init__(self, database: Database, key_ring: KeyRing | None) -> None:
        """Construct it; without a key ring no organization's key can be read."""
        self._database = database
        self._key_ring = key_ring
        self._known: BoundedCache[tuple[str, str], _CachedAccess] = BoundedCache(MAX_KNOWN)

    async def find(self, organization_id: str, provider: str) -> Access | None:
        """Return the organization's own key of `provider`; None if it has none and the deployment's is to be used.

        Raises:
            ProviderKeyMissing: it has one that can't be read. The environment's does not stand in for it: that would
                be another's bill.
        """
        now = asyncio.get_running_loop().time()
        known = self._known.find((organization_id, provider))
        if known is None or now - known.at > FRESH_S:
            found = await llm_providers.find(self._database, organization_id, provider)
            known = _CachedAccess(self._opened(found) if found else None, now)
            self._known.put((organization_id, provider), known)
        return known.access

    def forget(self, organization_id: str, provider: str) -> None:
        """Read the key again at the next call: this process has changed or deleted it."""
        self._known.discard((organization_id, provider))

    def _opened(self, found: LlmProvider) -> Access:
        if self._key_ring is None:
            raise ProviderKeyMissing("KB_PROVIDER_KEYS, with which this organization's keys are read, is not set")
        return Access(
            api_key=self._key_ring.open(found.sealed, organization_id=found.organization_id, provider=found.provider),
            api_base=found.api_base,
            requests_per_minute=found.requests_per_minute,
            tokens_per_minute=found.tokens_per_minute,
        )
