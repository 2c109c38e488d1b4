from kb_api.dependencies import Admin, Database, ProviderKeys
from kb_contracts.api.llm_providers import LlmProviderList, LlmProviderView, PutLlmProvider
from kb_contracts.api.model import MessageResponse
from kb_shared.embedding.models import PROVIDERS
from kb_shared.errors import NotFound
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers
from kb_shared.mongo.llm_providers import LlmProvider

router = organization_router("LLM providers")


@router.get(
    "/llm-providers", operation_id="llm_providers.list", summary="List providers", response_model=LlmProviderList
)
async def list_all(database: Database, caller: Admin, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> LlmProviderList:
    """List the providers for which the organization has stored a key, without the keys."""
    kept, total_count = await llm_providers.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return LlmProviderList(llm_providers=[_view(each) for each in kept], total_count=total_count)


@router.put(
    "/llm-providers/{provider}",
    operation_id="llm_providers.put",
    summary="Store the key of a provider",
    response_model=LlmProviderView,
    responses=responses("provider-keys-not-available"),
)
async def put(provider_keys: ProviderKeys, caller: Admin, provider: str, body: PutLlmProvider) -> LlmProviderView:
    """Use this key and these limits for all calls of the organization to the provider from now on."""
    if provider not in PROVIDERS:
        raise NotFound("LLM provider")
    kept = await provider_keys.put(
        caller,
        provider,
        api_key=body.api_key,
        api_base=body.api_base,
        requests_per_minute=body.requests_per_minute,
        tokens_per_minute=body.tokens_per_minute,
    )
    return _view(kept)


@router.get(
    "/llm-providers/{provider}",
    operation_id="llm_providers.get",
    summary="Get a provider",
    response_model=LlmProviderView,
)
async def get(database: Database, caller: Admin, provider: str) -> LlmProviderView:
    """Return the limits and the address of a provider for which the organization has stored a key."""
    kept = await llm_providers.find(database, caller.organization_id, provider)
    if kept is None:
        raise NotFound("LLM provider")
    return _view(kept)


@router.delete(
    "/llm-providers/{provider}",
    operation_id="llm_providers.delete",
    summary="Delete the key of a provider",
    response_model=MessageResponse,
)
async def delete(provider_keys: ProviderKeys, caller: Admin, provider: str) -> MessageResponse:
    """Delete the key of the organization. The key of the deployment is used again, if there is one."""
    if not await provider_keys.delete(caller.organization_id, provider):
        raise NotFound("LLM provider")
    return MessageResponse(message="LLM provider deleted successfully")


def _view(kept: LlmProvider) -> LlmProviderView:
    return LlmProviderView(
        provider=kept.provider,
        api_key_last4=kept.api_key_last4,
        api_base=kept.api_base,
        requests_per_minute=kept.requests_per_minute,
        tokens_per_minute=kept.tokens_per_minute,
        updated_at=kept.updated_at,
        updated_by=kept.updated_by,
    )
