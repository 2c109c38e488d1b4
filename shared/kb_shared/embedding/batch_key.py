"""Common properties of the texts of one request to a provider."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from kb_shared.embedding.models import EmbeddingModel
from kb_shared.embedding.purchases import Purpose
from kb_shared.mongo.embedding_cache import LIFETIME, VectorSpace
from kb_shared.providers.access import Access
from kb_shared.providers.known_providers import InputType

SHORT_LIFETIME: Final = timedelta(days=7)
"""Lifetime of vectors of queries, which seldom repeat, and of dimension probes, to notice a changed provider."""


@dataclass(frozen=True, slots=True)
class BatchKey:
    """Texts with the same key may travel in one request."""

    organization_id: str
    space: VectorSpace
    access: Access | None
    """Key and address of the provider: after a change of the key, no batch uses the old one."""
    input_type: InputType
    short_lived: bool

    @property
    def dimensions(self) -> int | None:
        """Return the number of dimensions to ask for; None means the default of the model."""
        return self.space.dimensions or None

    @property
    def lifetime(self) -> timedelta:
        return SHORT_LIFETIME if self.short_lived else LIFETIME

    @property
    def lifetime_from_use(self) -> timedelta | None:
        """Return the lifetime that another use gives to a stored vector; None: a short-lived one is not kept longer."""
        return None if self.short_lived else LIFETIME


def batch_key(
    model: EmbeddingModel, dimensions: int | None, purpose: Purpose, *, cache_scope: Literal["organization", "global"]
) -> BatchKey:
    """Return the key of texts that are embedded for `purpose`; `dimensions` is None if the number is not known yet."""
    space = VectorSpace(
        # Vectors that were paid for with an organization's own key are never shared with another one.
        scope="global" if cache_scope == "global" and model.access is None else purpose.organization_id,
        provider_fingerprint=model.fingerprint,
        model=model.name,
        dimensions=dimensions or 0,
        input_type=purpose.input_type,
    )
    short_lived = purpose.short_lived or purpose.input_type == "query" or dimensions is None
    return BatchKey(purpose.organization_id, space, model.access, purpose.input_type, short_lived)
