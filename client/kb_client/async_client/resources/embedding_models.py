from kb_client.async_client.operation import AsyncResource, listing
from kb_client.call import PageCall
from kb_contracts.api.embedding_models import EmbeddingModelList, EmbeddingModelView


class AsyncEmbeddingModels(AsyncResource):
    """Models that embed texts."""

    @listing
    def list(
        self, *, skip: int | None = None, limit: int | None = None
    ) -> PageCall[EmbeddingModelList, EmbeddingModelView]:
        """Return a page of the models."""
        return PageCall(
            "GET",
            "/embedding-models",
            EmbeddingModelList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.embedding_models,
        )
