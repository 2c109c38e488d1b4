from kb_client.async_client.operation import AsyncResource, listing
from kb_client.call import PageCall
from kb_contracts.api.embedding_models import EmbeddingModelList, EmbeddingModelView


class AsyncEmbeddingModels(AsyncResource):
    """Models that embed texts."""

    @listing
    def list(
        self, *, key_present: bool | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[EmbeddingModelList, EmbeddingModelView]:
        """Return a page of the models.

        Args:
            key_present: True for only those whose provider has a key.
            skip: number of models before the page.
            limit: of the page.
        """
        return PageCall(
            "GET",
            "/embedding-models",
            EmbeddingModelList,
            query={"key_present": key_present, "skip": skip, "limit": limit},
            items=lambda page: page.embedding_models,
        )
