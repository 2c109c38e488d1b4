"""Providers of models for which an organization has a key of its own."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from kb_contracts.api.memberships import DocumentError
from kb_contracts.api.model import PerMinute, StrictModel, example

# What an HTTP header can carry.
ProviderApiKey = Annotated[str, StringConstraints(min_length=1, max_length=4_096, pattern=r"^[\x21-\x7e]+$")]
ApiBase = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[\x21-\x7e]+$")]

_PROVIDER: Final = {
    "provider": "openai",
    "api_key_last4": "x7Qa",
    "api_base": None,
    "requests_per_minute": 500,
    "tokens_per_minute": None,
    "paused_at": None,
    "updated_at": "2026-01-31T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
}


class PutLlmProvider(StrictModel):
    model_config = example({"api_key": "sk-...", "requests_per_minute": 500})

    api_key: ProviderApiKey | None = Field(
        default=None,
        description="Key of the provider. It is stored encrypted and never returned. Only a server with an `api_base` "
        "may need none; without it, the key that is stored for the same address stays.",
    )
    api_base: ApiBase | None = Field(
        default=None,
        description="Address of a server: required for `ollama`, `vllm`, `openai-compatible` and `azure`, possible for "
        "`openai`, with or without `/v1`. It must be https and public unless the deployment allows private addresses "
        "(`KB_ALLOW_PRIVATE_ADDRESSES`).",
    )
    requests_per_minute: PerMinute | None = Field(
        default=None, description="Limit of requests a minute to the provider; null: no limit."
    )
    tokens_per_minute: PerMinute | None = Field(
        default=None, description="Limit of tokens a minute to the provider; null: no limit."
    )


class LlmProviderView(BaseModel):
    model_config = example(_PROVIDER)

    provider: str
    api_key_last4: str | None = Field(description="Last four characters of the key; null if the key is short.")
    api_base: str | None = Field(description="Address of the provider; null: its usual one.")
    requests_per_minute: int | None = Field(description="Limit of requests a minute to the provider; null: no limit.")
    tokens_per_minute: int | None = Field(description="Limit of tokens a minute to the provider; null: no limit.")
    paused_at: datetime | None = Field(
        description="Time at which the organization paused the provider; null if it is not paused."
    )
    updated_at: datetime
    updated_by: str = Field(description="Id of the API key that made the last change.")


class LlmProviderList(BaseModel):
    model_config = example({"llm_providers": [_PROVIDER], "total_count": 1})

    llm_providers: list[LlmProviderView] = Field(description="Providers with a key of the organization, by name.")
    total_count: int = Field(description="Number of items on all pages.")


class CheckLlmProvider(StrictModel):
    model_config = example({"model": "text-embedding-3-small"})

    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Embedding or chat model of the provider to call. Default: its cheapest embedding model, or else "
        "its cheapest chat model; of a server with an `api_base`, the first chat model that it lists.",
    )


class ChatAbilities(BaseModel):
    model_config = example(
        {
            "calls_tools": True,
            "streams": True,
            "follows_schema": True,
            "max_input_tokens": 128000,
            "refused_options": [],
        }
    )

    calls_tools: bool = Field(description="Whether the model called a tool when it was asked to.")
    streams: bool = Field(description="Whether the server streams answers.")
    follows_schema: bool = Field(description="Whether an answer followed the JSON schema that was asked for.")
    max_input_tokens: int | None = Field(description="Tokens that the model reads, as listed; null: not known.")
    refused_options: list[str] = Field(description="Options of a request that the server refuses; they are left out.")


class ServedModel(BaseModel):
    model_config = example({"name": "llama3.1:8b", "max_input_tokens": 4096})

    name: str = Field(description="Name of the model at its server.")
    max_input_tokens: int | None = Field(description="Tokens that it reads at once; null if the server does not say.")


class EmbeddingAbilities(BaseModel):
    model_config = example({"dimensions": 768, "max_input_tokens": 2048})

    dimensions: int = Field(description="Dimensions of its vectors.")
    max_input_tokens: int | None = Field(description="Tokens of a text that it reads; null if the server does not say.")


class ProviderCheckView(BaseModel):
    model_config = example(
        {
            "provider": "openai",
            "model": "text-embedding-3-small",
            "ok": False,
            "error": {
                "type": "provider_auth",
                "message": "the provider of 'text-embedding-3-small' refused its key (401)",
            },
            "duration_s": 0.31,
            "abilities": None,
            "embeddings": None,
            "models": [],
            "advice": [],
        }
    )

    provider: str
    model: str = Field(description="Model that was called; empty if a server lists none to call.")
    ok: bool = Field(description="Whether the provider has answered.")
    error: DocumentError | None = Field(
        description="What is wrong, with a type as in errors of documents; null if nothing is."
    )
    duration_s: float = Field(description="Seconds until the answer.")
    abilities: ChatAbilities | None = Field(
        default=None, description="What a chat model that has answered can do; null for other models."
    )
    embeddings: EmbeddingAbilities | None = Field(
        default=None, description="What is known of the vectors of a model; null if it gives none."
    )
    models: list[ServedModel] = Field(
        default=[], description="Models that a server with an `api_base` lists, the first hundred."
    )
    advice: list[str] = Field(
        default=[], description="What follows from that which does not work, and what to do: one sentence each."
    )


class ProviderPauseView(BaseModel):
    model_config = example({"provider": "openai", "paused_at": "2026-01-31T12:00:00Z", "paused_by": "3f9c1d2e4b5a6978"})

    provider: str
    paused_at: datetime | None = Field(description="Time at which it was paused; null if it is not paused.")
    paused_by: str | None = Field(description="Id of the API key that paused it; null if it is not paused.")
