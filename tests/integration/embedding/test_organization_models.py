from datetime import UTC, datetime

import pytest

from kb_shared.embedding.models import BundledModel, ModelCatalogue
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.errors import ProviderKeyMissing, UnknownModel
from kb_shared.mongo import llm_providers
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.providers import organization_keys
from kb_shared.secrets.key_ring import KeyRing

RING = KeyRing({"1": bytes(32)})
NAME = "text-embedding-3-small"


def models(database: Database, ring: KeyRing | None = RING) -> OrganizationModels:
    catalogue = ModelCatalogue(
        {NAME: BundledModel("openai", 8191, 1536)},
        local_models_api_base="http://127.0.0.1:9/v1",
        environment={"OPENAI_API_KEY": "sk-platform"},
    )
    return OrganizationModels(database, catalogue, ring)


async def put(database: Database, organization_id: str, api_key: str) -> None:
    sealed = RING.seal(api_key, organization_id=organization_id, provider="openai")
    await llm_providers.put(
        database, LlmProvider(organization_id, "openai", sealed, None, None, 60, None, datetime.now(UTC), "key")
    )


async def test_an_organizations_key_comes_first_and_others_have_the_platforms(database: Database) -> None:
    await put(database, "acme", "sk-acme")
    found = models(database)

    own, others = await found.get("acme", NAME), await found.get("other", NAME)
    assert (own.api_key, others.api_key) == ("sk-acme", "sk-platform")
    assert own.access is not None
    assert own.access.requests_per_minute == 60
    assert others.access is None


@pytest.mark.parametrize("ring", [None, KeyRing({"2": bytes(32)}), KeyRing({"1": bytes([1]) * 32})])
async def test_the_platform_does_not_pay_for_an_organization_whose_key_cannot_be_read(
    database: Database, ring: KeyRing | None
) -> None:
    await put(database, "acme", "sk-acme")

    with pytest.raises(ProviderKeyMissing):
        await models(database, ring).get("acme", NAME)


async def test_a_row_moved_to_another_organization_is_of_no_use_there(database: Database) -> None:
    await put(database, "acme", "sk-acme")
    row = await database[llm_providers.NAME].find_one({"organization_id": "acme"})
    assert row is not None
    await database[llm_providers.NAME].insert_one(row | {"_id": "thief/openai", "organization_id": "thief"})

    with pytest.raises(ProviderKeyMissing):
        await models(database).get("thief", NAME)


async def test_a_key_that_another_replica_changed_is_used_before_long(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(database, "acme", "sk-old")
    found = models(database)
    assert (await found.get("acme", NAME)).api_key == "sk-old"
    await put(database, "acme", "sk-new")
    assert (await found.get("acme", NAME)).api_key == "sk-old", "looked up once for many calls"
    monkeypatch.setattr(organization_keys, "FRESH_S", 0.0)
    assert (await found.get("acme", NAME)).api_key == "sk-new"


async def test_the_cache_of_keys_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organization_keys, "MAX_KNOWN", 3)
    found = models(database)
    for number in range(10):
        await found.get(f"organization-{number}", NAME)
    assert len(found.keys._known) == 3


async def test_a_local_model_needs_no_key_and_an_unknown_model_is_refused(database: Database) -> None:
    await put(database, "acme", "sk-acme")
    assert (await models(database).get("acme", "hash-16")).access is None
    with pytest.raises(UnknownModel):
        await models(database).get("acme", "no-such-model")
