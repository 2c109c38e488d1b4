"""Names the provider of an embedding model, as the chunks of entries show it."""

from kb_shared.embedding.models import ModelCatalogue
from kb_shared.errors import UnknownModel


class EmbeddingProviders:
    def __init__(self, catalogue: ModelCatalogue) -> None:
        self._catalogue = catalogue

    def label(self, model: str) -> str:
        """Return provider and model, such as `openai/text-embedding-3-small`."""
        try:
            provider = self._catalogue.provider_of(model)
        except UnknownModel:
            # The operator has removed it since.
            return model
        return model if model.startswith(f"{provider}/") else f"{provider}/{model}"
