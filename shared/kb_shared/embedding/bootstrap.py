"""The embedder as every service has it."""

import os
from datetime import timedelta

from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.guarded_provider import GuardedProvider
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.metering.budget import Spending
from kb_shared.mongo.database import Database
from kb_shared.providers.circuit_breaker import CircuitBreaker
from kb_shared.providers.provider_guard import ProviderGuard
from kb_shared.providers.rate_limiter import RateLimiter
from kb_shared.secrets.key_ring import KeyRing
from kb_shared.settings import EmbeddingSettings


def create_key_ring(settings: EmbeddingSettings) -> KeyRing | None:
    """Create the key ring; None if no organization's keys are kept. Raises UnusableKeyRing."""
    return KeyRing.parse(settings.provider_keys.get_secret_value()) if settings.provider_keys else None


def create_embedder(database: Database, settings: EmbeddingSettings, *, patience_s: float = 15.0) -> Embedder:
    """Construct an embedder; close it when the service stops.

    Args:
        database: that holds cache, ledger and outbox.
        settings: of the service.
        patience_s: how long a request is repeated, or waits for the limits of its model; short where a person waits.

    Raises:
        UnusableKeyRing: see `create_key_ring`.
    """
    catalogue = ModelCatalogue(
        bundled_models(),
        local_models_api_base=settings.local_models_api_base,
        environment=os.environ,
        late_models=settings.late_models,
        prices=settings.prices,
    )
    guard = ProviderGuard(
        CircuitBreaker(database, probe_lifetime=timedelta(seconds=2 * settings.embedding_timeout_s)),
        RateLimiter(database),
        patience_s=patience_s,
    )
    return Embedder(
        database,
        GuardedProvider(
            Provider(timeout_s=settings.embedding_timeout_s, private_addresses=settings.allow_private_addresses), guard
        ),
        OrganizationModels(database, catalogue, create_key_ring(settings)),
        spending=Spending(database),
        cache_scope=settings.embedding_cache_scope,
    )
