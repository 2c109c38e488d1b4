"""Embedding models that a knowledge base can use."""

from pydantic import BaseModel, Field


class EmbeddingModelView(BaseModel):
    name: str = Field(description="Name for the field `embedding_model` of a knowledge base.")
    provider: str
    dimensions: int | None = Field(description="Default number of dimensions of a vector; null if it is not known.")
    max_input_tokens: int | None = Field(description="Greatest number of tokens of one text; null if it is not known.")
    key_present: bool = Field(
        description="Whether this organization can use the model, with its own key or that of the deployment."
    )


class EmbeddingModelList(BaseModel):
    embedding_models: list[EmbeddingModelView]
    total_count: int = Field(description="Number of items on all pages.")
