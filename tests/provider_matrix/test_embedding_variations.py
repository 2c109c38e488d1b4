"""What an embedding provider may answer."""

from typing import Any

import pytest

from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.errors import ProviderRefused, ProviderUnavailable
from kb_shared.providers.access import Access
from tests.hostile_provider import hostile_provider
from tests.provider_matrix.answering import answers
from tests.provider_matrix.embedding_variations import VECTORS, Variation, all_variations

VARIATIONS = all_variations()


async def ask(variation: Variation) -> list[list[float]]:
    provider = Provider(timeout_s=60, private_addresses=True)
    catalogue = ModelCatalogue(bundled_models(), local_models_api_base=None, environment={})
    async with hostile_provider(answers(variation.body, status=variation.status, kind=variation.kind)) as hostile:
        model = catalogue.get("text-embedding-3-small", Access("key", hostile.api_base))
        try:
            found = await provider.embed(["a", "b", "c"], model=model, dimensions=2, input_type="document")
        finally:
            await provider.close()
    return [vector.tolist() for vector in found]


def test_the_matrix_is_large_enough() -> None:
    assert len(VARIATIONS) >= 30
    assert len({each.name for each in VARIATIONS}) == len(VARIATIONS)


@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda each: each.name)
async def test_vectors_are_those_of_the_texts_or_the_error_says_what_is_wrong(variation: Variation) -> None:
    if variation.error is None:
        assert await ask(variation) == VECTORS
        return
    with pytest.raises((ProviderRefused, ProviderUnavailable)) as raised:
        await ask(variation)
    facts: dict[str, Any] = vars(raised.value)
    assert facts["error_type"] == variation.error
    assert variation.says in str(raised.value)
