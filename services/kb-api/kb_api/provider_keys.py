"""Organizations' own keys of providers: taken in, and sealed again when the key that seals them changed."""

from typing import Final
from urllib.parse import urlsplit

import structlog

from kb_api.services import Services
from kb_shared.embedding.models import PROVIDERS
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import circuits, index_jobs, llm_providers, rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.majority import majority_reads
from kb_shared.providers.public_addresses import NotPublic, public_addresses_of
from kb_shared.secrets.key_ring import KeyRing, Unreadable
from kb_shared.stored_time import now

LONG_ENOUGH_TO_SHOW_ITS_END: Final = 16
"""Characters."""
_AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_MENDED_BY_A_KEY: Final = ("provider_auth", "provider_key_missing", "provider_quota", "rate_limited")

_log = structlog.get_logger()


async def keep_provider_key(
    api: Services,
    caller: Caller,
    provider: str,
    *,
    api_key: str,
    api_base: str | None,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
) -> LlmProvider:
    """Use this key of `provider` for all of the organization from now on (on other replicas seconds later).

    Raises:
        RequestError: 422 `validation-error`; 503 `provider-keys-not-available`.
    """
    if api.key_ring is None:
        raise RequestError(
            503,
            "provider-keys-not-available",
            "This deployment keeps no keys of organizations; ask your operator to set KB_PROVIDER_KEYS.",
        )
    kept = LlmProvider(
        organization_id=caller.organization_id,
        provider=provider,
        sealed=api.key_ring.seal(api_key, organization_id=caller.organization_id, provider=provider),
        api_key_last4=api_key[-4:] if len(api_key) >= LONG_ENOUGH_TO_SHOW_ITS_END else None,
        api_base=await _allowed_address(api, provider, api_base),
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        updated_at=now(),
        updated_by=caller.key_id,
    )
    await llm_providers.put(api.database, kept)
    await _take_effect(api, caller.organization_id, provider)
    return kept


async def delete_provider_key(api: Services, caller: Caller, provider: str) -> bool:
    """Go back to the environment's key; False if there was no other."""
    if not await llm_providers.delete(api.database, caller.organization_id, provider):
        return False
    await _take_effect(api, caller.organization_id, provider)
    return True


async def _take_effect(api: Services, organization_id: str, provider: str) -> None:
    api.models.forget(organization_id, provider)
    # What the old key was refused, or owes, says nothing about the new one.
    await circuits.reset(api.database, organization_id)
    await rate_limits.forget_models(api.database, organization_id)
    for error_type in _MENDED_BY_A_KEY:
        await index_jobs.make_due(api.database, organization_id, error_type=error_type)


async def _allowed_address(api: Services, provider: str, api_base: str | None) -> str | None:
    """`api_base` as it is stored. That it is public is seen to again whenever a connection to it is opened."""
    needed = PROVIDERS[provider].address
    if api_base is None:
        if provider == "azure":
            raise invalid_field("api_base", "Input should be the address of your Azure OpenAI resource")
        return None
    if needed is None:
        raise invalid_field("api_base", "This provider has one address only; leave it out")
    address = api_base.rstrip("/")
    if not api.settings.allow_private_providers and not await _is_public(provider, address):
        raise invalid_field("api_base", "Input should be an https address of a public server")
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


async def seal_again(database: Database, key_ring: KeyRing | None) -> None:
    """Seal with the ring's first key what was sealed with another, so that the other may be taken out of the ring."""
    if key_ring is None:
        return
    # What only an isolated primary has as sealed again might be sealed with the old key tomorrow.
    async with majority_reads(database) as majority:
        sealed_otherwise = await llm_providers.sealed_otherwise(majority, key_ring.current)
    for kept in sealed_otherwise:
        bound = {"organization_id": kept.organization_id, "provider": kept.provider}
        try:
            api_key = key_ring.open(kept.sealed, **bound)
        except Unreadable:
            _log.warning("provider_key.unreadable", sealed_with=kept.sealed.key_id, **bound)
            continue
        await llm_providers.seal_again(database, kept, key_ring.seal(api_key, **bound))
        _log.info("provider_key.sealed_again", **bound)
