"""Finds the models of an organization: with its own key of the provider if it has one, else with the deployment's."""

from kb_shared.embedding.models import EmbeddingModel, ModelCatalogue
from kb_shared.mongo.database import Database
from kb_shared.providers.organization_keys import OrganizationKeys
from kb_shared.secrets.key_ring import KeyRing


class OrganizationModels:
    """Models by organization and name."""

    def __init__(self, database: Database, catalogue: ModelCatalogue, key_ring: KeyRing | None) -> None:
        """Construct it; without a key ring no organization's key can be read."""
        self.catalogue = catalogue
        self.keys = OrganizationKeys(database, key_ring)

    async def get(self, organization_id: str, name: str) -> EmbeddingModel:
        """Return the model as `organization_id` reaches it.

        Raises:
            UnknownModel: nothing is called so.
            ProviderKeyMissing: neither the organization nor the environment has a key of its provider, or the
                organization's can't be read.
        """
        reached = await self.keys.reach(organization_id, name, self.catalogue)
        return self.catalogue.get(name, reached.access, provider=reached.provider)

    def forget(self, organization_id: str, provider: str) -> None:
        """Read the key again at the next call: this process has changed or deleted it."""
        self.keys.forget(organization_id, provider)
