from pydantic import BaseModel, Field

from kb_api.dependencies import Database, OrganizationModels, Reader
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers

router = organization_router("embedding models")


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


@router.get("/embedding-models", summary="List embedding models", response_model=EmbeddingModelList)
async def list_all(
    database: Database, models: OrganizationModels, caller: Reader, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> EmbeddingModelList:
    """List the models that a knowledge base can use, by name."""
    own_keys = await llm_providers.find_names(database, caller.organization_id)
    catalogue = models.catalogue
    described = catalogue.described()
    return EmbeddingModelList(
        embedding_models=[
            EmbeddingModelView(
                name=each.name,
                provider=each.provider,
                dimensions=each.dimensions,
                max_input_tokens=each.max_input_tokens,
                key_present=each.provider in own_keys or catalogue.has_key(each.provider),
            )
            for each in described[skip : skip + limit]
        ],
        total_count=len(described),
    )
