"""Provider keys of organizations: stored sealed, and sealed again when the sealing key has changed."""

from typing import Final
from urllib.parse import urlsplit

import structlog

from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import circuits, index_jobs, llm_providers, rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.majority import majority_reads
from kb_shared.mongo.stored_time import now
from kb_shared.providers.known_providers import NEED_ADDRESS, OWN_SERVERS, PROVIDERS, WITHOUT_KEY, canonical_address
from kb_shared.providers.public_addresses import HOW_TO_ALLOW, NotPublic, public_addresses_of
from kb_shared.secrets.key_ring import KeyRing, Unreadable

MIN_CHARACTERS_TO_SHOW_END: Final = 16
"""Length from which the last four characters of a key are shown."""
_AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_EXAMPLES: Final = {
    "ollama": "http://127.0.0.1:11434",
    "openai-compatible": "https://models.example.com/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
_RETRIED_WITH_A_NEW_KEY: Final = (
    "provider_auth",
    "provider_key_missing",
    "provider_quota",
    "rate_limited",
    "other_vectors",
)
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
        api_key: str | None,
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
        address = await self._check_address(provider, api_base)
        if api_key is None and (provider not in OWN_SERVERS or address is None):
            raise invalid_field("api_key", "must be given: only a server with an `api_base` may need no key")
        before = await llm_providers.find(self._database, caller.organization_id, provider)
        if api_key is None and before is not None and before.api_base == address:
            sealed, last4 = before.sealed, before.api_key_last4
        else:
            # The key of another address is not for this one.
            used = api_key or WITHOUT_KEY
            sealed = self._key_ring.seal(used, organization_id=caller.organization_id, provider=provider)
            last4 = used[-4:] if len(used) >= MIN_CHARACTERS_TO_SHOW_END else None
        kept = LlmProvider(
            organization_id=caller.organization_id,
            provider=provider,
            sealed=sealed,
            api_key_last4=last4,
            api_base=address,
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
            if provider in NEED_ADDRESS:
                raise invalid_field("api_base", f"must be the address of your server, such as {_EXAMPLES[provider]}")
            return None
        if needed is None:
            raise invalid_field("api_base", "must be left out: this provider has a fixed address")
        try:
            parts = urlsplit(api_base.strip())
            host, port = parts.hostname or "", parts.port or 443
        except ValueError:
            parts, host, port = urlsplit(""), "", 0
        if parts.scheme not in {"http", "https"} or not host:
            raise invalid_field("api_base", "must be a complete address, which begins with http:// or https://")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise invalid_field("api_base", "must be an address without a user name, a password, `?` and `#`")
        if not self._allow_private:
            await _require_public(provider, parts.scheme, host=host, port=port)
        return canonical_address(provider, api_base)


async def _require_public(provider: str, scheme: str, *, host: str, port: int) -> None:
    if provider == "azure" and not host.endswith(_AZURE_HOSTS):
        raise invalid_field("api_base", f"must be an address of Azure, which ends in {' or '.join(_AZURE_HOSTS)}")
    try:
        if scheme == "https":
            await public_addresses_of(host, port)
            return
    except NotPublic:
        pass
    raise invalid_field("api_base", f"must be an https address of a public server; {HOW_TO_ALLOW}")


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
