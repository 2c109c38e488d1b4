"""Attributes of the spans of calls to models, of embeddings and of chat alike."""

from typing import Literal

from kb_shared.observability.tracing import AttributeValue


def call_attributes(operation: Literal["chat", "embeddings"], model: str, route: str) -> dict[str, AttributeValue]:
    """Return the attributes that are known before a call; `route` is LiteLLM's name of the model."""
    provider, has_provider, _ = route.partition("/")
    attributes: dict[str, AttributeValue] = {"gen_ai.operation.name": operation, "gen_ai.request.model": model}
    return attributes | {"gen_ai.provider.name": provider} if has_provider else attributes
