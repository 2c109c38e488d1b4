from collections.abc import Mapping

from kb_api.dependencies import Admin, Database, ProviderChecks, ProviderKeys
from kb_api.pause_provider import pause_provider, resume_provider
from kb_api.routes.knowledge_bases import document_error
from kb_contracts.api.llm_providers import (
    CheckLlmProvider,
    LlmProviderList,
    LlmProviderView,
    ProviderCheckView,
    ProviderPauseView,
    PutLlmProvider,
)
from kb_contracts.api.model import MessageResponse
from kb_shared.errors import NotFound
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers, provider_pauses
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.provider_pauses import ProviderPause
from kb_shared.providers.known_providers import PROVIDERS

router = organization_router("LLM providers")


@router.get(
    "/llm-providers", operation_id="llm_providers.list", summary="List providers", response_model=LlmProviderList
)
async def list_all(database: Database, caller: Admin, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> LlmProviderList:
    """List the providers for which the organization has stored a key, without the keys."""
    kept, total_count = await llm_providers.find_page(database, caller.organization_id, skip=skip, limit=limit)
    pauses = await provider_pauses.find_all(database, caller.organization_id)
    return LlmProviderList(llm_providers=[_view(each, pauses) for each in kept], total_count=total_count)


@router.put(
    "/llm-providers/{provider}",
    operation_id="llm_providers.put",
    summary="Store the key of a provider",
    response_model=LlmProviderView,
    responses=responses("provider-keys-not-available"),
)
async def put(
    provider_keys: ProviderKeys, database: Database, caller: Admin, *, provider: str, body: PutLlmProvider
) -> LlmProviderView:
    """Use this key and these limits for all calls of the organization to the provider from now on."""
    if provider not in PROVIDERS:
        raise invalid_field("provider", f"must be one of {', '.join(PROVIDERS)}")
    kept = await provider_keys.put(
        caller,
        provider,
        api_key=body.api_key,
        api_base=body.api_base,
        requests_per_minute=body.requests_per_minute,
        tokens_per_minute=body.tokens_per_minute,
    )
    return _view(kept, await provider_pauses.find_all(database, caller.organization_id))


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
    return _view(kept, await provider_pauses.find_all(database, caller.organization_id))


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


@router.post(
    "/llm-providers/{provider}/test",
    operation_id="llm_providers.test",
    summary="Test a provider",
    response_model=ProviderCheckView,
    responses=responses("unknown-model"),
)
async def test(checks: ProviderChecks, caller: Admin, provider: str, body: CheckLlmProvider) -> ProviderCheckView:
    """Call a model of the provider once, and return whether it answers or what is wrong.

    A chat model that answers is called twice more, to see what it can do. Of a server with an `api_base`, the models
    are listed, and one is asked for an answer and for a vector. The calls have a few tokens, which the
    provider bills to whose key it is. No SPU is charged. Also models that this
    deployment does not allow for runs can be tested.
    """
    checked = await checks.check(caller.organization_id, provider, model=body.model)
    return ProviderCheckView(
        provider=checked.provider,
        model=checked.model,
        ok=checked.error_type is None,
        error=document_error(checked.error_type, checked.message),
        duration_s=round(checked.duration_s, 3),
        abilities=checked.abilities,
        embeddings=checked.embeddings,
        models=list(checked.models),
        advice=list(checked.advice),
    )


@router.post(
    "/llm-providers/{provider}/pause",
    operation_id="llm_providers.pause",
    summary="Pause a provider",
    response_model=ProviderPauseView,
)
async def pause(database: Database, caller: Admin, provider: str) -> ProviderPauseView:
    """Let no document be embedded with this provider until it is resumed. Documents that need it wait.

    Searches and runs go on, and so do documents whose vectors were paid for before. Calls under way are finished.
    """
    paused = await pause_provider(database, caller, provider)
    return ProviderPauseView(provider=provider, paused_at=paused.paused_at, paused_by=paused.paused_by)


@router.post(
    "/llm-providers/{provider}/resume",
    operation_id="llm_providers.resume",
    summary="Resume a provider",
    response_model=ProviderPauseView,
)
async def resume(database: Database, caller: Admin, provider: str) -> ProviderPauseView:
    """Index the documents that waited while the provider was paused."""
    await resume_provider(database, caller, provider)
    return ProviderPauseView(provider=provider, paused_at=None, paused_by=None)


def _view(kept: LlmProvider, pauses: Mapping[str, ProviderPause]) -> LlmProviderView:
    pause = pauses.get(kept.provider)
    return LlmProviderView(
        provider=kept.provider,
        api_key_last4=kept.api_key_last4,
        api_base=kept.api_base,
        requests_per_minute=kept.requests_per_minute,
        tokens_per_minute=kept.tokens_per_minute,
        paused_at=pause and pause.paused_at,
        updated_at=kept.updated_at,
        updated_by=kept.updated_by,
    )
