from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from kb_api.dependencies import Admin, Database, ProviderKeys
from kb_api.knowledge_base_request import PerMinute
from kb_shared.embedding.models import PROVIDERS
from kb_shared.errors import NotFound
from kb_shared.http.model import MessageResponse, StrictModel
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers
from kb_shared.mongo.llm_providers import LlmProvider

router = organization_router("LLM providers")

# What an HTTP header can carry.
ProviderApiKey = Annotated[str, StringConstraints(min_length=1, max_length=4_096, pattern=r"^[\x21-\x7e]+$")]
ApiBase = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[\x21-\x7e]+$")]


class PutLlmProvider(StrictModel):
    api_key: ProviderApiKey = Field(description="Key of the provider. It is stored encrypted and never returned.")
    api_base: ApiBase | None = Field(
        default=None,
        description="Address of the provider, only for `azure` (required) and `openai` (optional): https and public.",
    )
    requests_per_minute: PerMinute | None = Field(
        default=None, description="Limit of requests a minute to the provider; null: no limit."
    )
    tokens_per_minute: PerMinute | None = Field(
        default=None, description="Limit of tokens a minute to the provider; null: no limit."
    )


class LlmProviderView(BaseModel):
    provider: str
    api_key_last4: str | None = Field(description="Last four characters of the key; null if the key is short.")
    api_base: str | None = Field(description="Address of the provider; null: its usual one.")
    requests_per_minute: int | None = Field(description="Limit of requests a minute to the provider; null: no limit.")
    tokens_per_minute: int | None = Field(description="Limit of tokens a minute to the provider; null: no limit.")
    updated_at: datetime
    updated_by: str = Field(description="Id of the API key that made the last change.")

    @classmethod
    def from_provider(cls, kept: LlmProvider) -> "LlmProviderView":
        return cls(
            provider=kept.provider,
            api_key_last4=kept.api_key_last4,
            api_base=kept.api_base,
            requests_per_minute=kept.requests_per_minute,
            tokens_per_minute=kept.tokens_per_minute,
            updated_at=kept.updated_at,
            updated_by=kept.updated_by,
        )


@router.put("/llm-providers/{provider}", summary="Store the key of a provider", response_model=LlmProviderView)
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
    return LlmProviderView.from_provider(kept)


@router.get("/llm-providers/{provider}", summary="Get a provider", response_model=LlmProviderView)
async def get(database: Database, caller: Admin, provider: str) -> LlmProviderView:
    """Return the limits and the address of a provider for which the organization has stored a key."""
    kept = await llm_providers.find(database, caller.organization_id, provider)
    if kept is None:
        raise NotFound("LLM provider")
    return LlmProviderView.from_provider(kept)


@router.delete("/llm-providers/{provider}", summary="Delete the key of a provider", response_model=MessageResponse)
async def delete(provider_keys: ProviderKeys, caller: Admin, provider: str) -> MessageResponse:
    """Delete the key of the organization. The key of the deployment is used again, if there is one."""
    if not await provider_keys.delete(caller.organization_id, provider):
        raise NotFound("LLM provider")
    return MessageResponse(message="LLM provider deleted successfully")
