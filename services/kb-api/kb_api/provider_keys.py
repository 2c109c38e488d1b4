"""Provider keys of organizations: stored sealed, and sealed again when the sealing key has changed."""

from typing import Final
from urllib.parse import urlsplit

import structlog

from kb_shared.embedding.models import PROVIDERS
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import circuits, index_jobs, llm_providers, rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.majority import majority_reads
from kb_shared.mongo.stored_time import now
from kb_shared.providers.public_addresses import NotPublic, public_addresses_of
from kb_shared.secrets.key_ring import KeyRing, Unreadable

MIN_CHARACTERS_TO_SHOW_END: Final = 16
"""Length from which the last four characters of a key are shown."""
_AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_RETRIED_WITH_A_NEW_KEY: Final = ("provider_auth", "provider_key_missing", "provider_quota", "rate_limited")
"""Errors of index jobs that a new key may fix."""

_log = structlog.get_logger()


class ProviderKeys:
    """Stores and deletes the provider keys of organizations."""

    def __init__(
        self, database: Database, *, models: OrganizationModels, key_ring: KeyRing | None, allow_private: bool
    ) -> None:
        """Construct it.

        Args:
            key_ring: seals the keys; None if this deployment stores none.
            allow_private: whether the address of a provider may be private.
        """
        self._database = database
        self._models = models
        self._key_ring = key_ring
        self._allow_private = allow_private

    async def put(
        self,
        caller: Caller,
        provider: str,
        *,
        api_key: str,
        api_base: str | None,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
    ) -> LlmProvider:
        """Use this key of `provider` for the whole organization from now on (on other replicas seconds later).

        Raises:
            RequestError: 422 `validation-error`; 503 `provider-keys-not-available`.
        """
        if self._key_ring is None:
            raise RequestError(
                503,
                "provider-keys-not-available",
                "This deployment stores no provider keys of organizations; ask your operator to set KB_PROVIDER_KEYS.",
            )
        kept = LlmProvider(
            organization_id=caller.organization_id,
            provider=provider,
            sealed=self._key_ring.seal(api_key, organization_id=caller.organization_id, provider=provider),
            api_key_last4=api_key[-4:] if len(api_key) >= MIN_CHARACTERS_TO_SHOW_END else None,
            api_base=await self._check_address(provider, api_base),
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            updated_at=now(),
            updated_by=caller.key_id,
        )
        await llm_providers.put(self._database, kept)
        await self._apply(caller.organization_id, provider)
        return kept

    async def delete(self, organization_id: str, provider: str) -> bool:
        """Delete the organization's key, so that the deployment's is used. Returns False if there was none."""
        if not await llm_providers.delete(self._database, organization_id, provider):
            return False
        await self._apply(organization_id, provider)
        return True

    async def _apply(self, organization_id: str, provider: str) -> None:
        self._models.forget(organization_id, provider)
        # Circuit breakers and rate limits of the old key do not apply to the new one.
        await circuits.reset(self._database, organization_id)
        await rate_limits.reset_models(self._database, organization_id)
        for error_type in _RETRIED_WITH_A_NEW_KEY:
            await index_jobs.make_due(self._database, organization_id, error_type=error_type)

    async def _check_address(self, provider: str, api_base: str | None) -> str | None:
        """Return `api_base` as it is stored. Each new connection checks again that the address is public."""
        needed = PROVIDERS[provider].address
        if api_base is None:
            if provider == "azure":
                raise invalid_field("api_base", "must be the address of your Azure OpenAI resource")
            return None
        if needed is None:
            raise invalid_field("api_base", "must be left out: this provider has a fixed address")
        address = api_base.rstrip("/")
        if not self._allow_private and not await _is_public(provider, address):
            raise invalid_field("api_base", "must be an https address of a public server")
        return address


async def _is_public(provider: str, address: str) -> bool:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme != "https" or not host or not plain:
        return False
    if provider == "azure" and not host.endswith(_AZURE_HOSTS):
        return False
    try:
        await public_addresses_of(host, port)
    except NotPublic:
        return False
    return True


async def reseal_keys(database: Database, key_ring: KeyRing | None) -> None:
    """Seal with the first key of the ring all keys that were sealed with another, so that the other can be removed."""
    if key_ring is None:
        return
    # A write that only an isolated primary has may be rolled back.
    async with majority_reads(database) as majority:
        sealed_otherwise = await llm_providers.find_sealed_with_other_key(majority, key_ring.current)
    for kept in sealed_otherwise:
        bound = {"organization_id": kept.organization_id, "provider": kept.provider}
        try:
            api_key = key_ring.open(kept.sealed, **bound)
        except Unreadable:
            _log.warning("provider_key.unreadable", sealed_with=kept.sealed.key_id, **bound)
            continue
        await llm_providers.reseal(database, kept, key_ring.seal(api_key, **bound))
        _log.info("provider_key.resealed", **bound)
