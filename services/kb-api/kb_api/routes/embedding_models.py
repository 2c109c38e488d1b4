from kb_api.dependencies import Database, OrganizationModels, Reader
from kb_contracts.api.embedding_models import EmbeddingModelList, EmbeddingModelView
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers

router = organization_router("embedding models")


@router.get(
    "/embedding-models",
    operation_id="embedding_models.list",
    summary="List embedding models",
    response_model=EmbeddingModelList,
)
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
