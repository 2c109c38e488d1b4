"""Embedding models that a knowledge base can use."""

from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

_MODEL: Final = {
    "name": "text-embedding-3-small",
    "provider": "openai",
    "dimensions": 1536,
    "max_input_tokens": 8191,
    "usd_per_million_tokens": 0.02,
    "usd_per_embedding": 0.0,
    "key_present": True,
}


class EmbeddingModelView(BaseModel):
    name: str = Field(description="Name for the field `embedding_model` of a knowledge base.")
    provider: str
    dimensions: int | None = Field(description="Default number of dimensions of a vector; null if it is not known.")
    max_input_tokens: int | None = Field(description="Greatest number of tokens of one text; null if it is not known.")
    usd_per_million_tokens: float | None = Field(
        default=None, description="Price of a million tokens of texts in US dollars; null if it is not known."
    )
    usd_per_embedding: float | None = Field(
        default=None,
        description="Price of each embedding in US dollars, besides that of its tokens; null if it is not known.",
    )
    key_present: bool = Field(
        description="Whether this organization can use the model, with its own key or that of the deployment."
    )


class EmbeddingModelList(BaseModel):
    model_config = example({"embedding_models": [_MODEL], "total_count": 1})

    embedding_models: list[EmbeddingModelView]
    total_count: int = Field(description="Number of items on all pages.")
