from typing import Annotated

from fastapi import Query

from kb_api.dependencies import Database, OrganizationModels, Reader
from kb_contracts.api.embedding_models import EmbeddingModelList, EmbeddingModelView
from kb_shared.embedding.models import ModelDescription
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
    database: Database,
    models: OrganizationModels,
    caller: Reader,
    *,
    key_present: Annotated[
        bool | None, Query(description="Only models that this organization can use now, or only the others.")
    ] = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> EmbeddingModelList:
    """List the models that a knowledge base can use, by name."""
    own_keys = await llm_providers.find_names(database, caller.organization_id)
    catalogue = models.catalogue
    views = [
        _view(each, key_present=each.provider in own_keys or catalogue.has_key(each.provider))
        for each in catalogue.described()
    ]
    found = [each for each in views if key_present is None or each.key_present is key_present]
    return EmbeddingModelList(embedding_models=found[skip : skip + limit], total_count=len(found))


def _view(described: ModelDescription, *, key_present: bool) -> EmbeddingModelView:
    price = described.price
    return EmbeddingModelView(
        name=described.name,
        provider=described.provider,
        dimensions=described.dimensions,
        max_input_tokens=described.max_input_tokens,
        usd_per_million_tokens=None if price is None else round(price.usd_per_token * 1_000_000, 6),
        usd_per_embedding=None if price is None else price.usd_per_embedding,
        key_present=key_present,
    )
