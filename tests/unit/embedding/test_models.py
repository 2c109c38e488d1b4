import pytest

from kb_shared.embedding.models import BundledModel, EmbeddingModel, ModelCatalogue
from kb_shared.errors import ProviderKeyMissing, ProviderRefused, UnknownModel
from kb_shared.providers.access import Access

BUNDLED = {
    "text-embedding-3-small": BundledModel("openai", 8191, 1536),
    "cohere/embed-v4.0": BundledModel("cohere", 128_000, 1536),
    "azure/text-embedding-3-small": BundledModel("azure", 8192, None),
    "exotic/model": BundledModel("exotic", None, None),
}
KEYS = {"OPENAI_API_KEY": "sk-secret", "COHERE_API_KEY": "co-secret"}
AZURE = {"AZURE_API_KEY": "az", "AZURE_API_VERSION": "1", "AZURE_API_BASE": "https://one.example"}
LOCAL = "http://127.0.0.1:9/v1"


def model(name: str, *, environment: dict[str, str] | None = None, local: str | None = LOCAL) -> EmbeddingModel:
    found = KEYS if environment is None else environment
    return ModelCatalogue(BUNDLED, local_models_api_base=local, environment=found).get(name)


def test_a_local_model_needs_no_key_and_is_asked_where_the_setting_says() -> None:
    hashed = model("hash-64", environment={})

    assert (hashed.route, hashed.api_base, hashed.default_dimensions) == ("hosted_vllm/hash-64", LOCAL, 64)
    assert model("all-MiniLM-L6-v2", environment={}).default_dimensions == 384
    assert model("use-multilingual-v3", environment={}).default_dimensions == 512


def test_openai_is_asked_through_the_cheap_route_with_its_key() -> None:
    openai = model("text-embedding-3-small")

    assert openai.route == "hosted_vllm/text-embedding-3-small"
    assert openai.api_base == "https://api.openai.com/v1"
    assert openai.api_key == "sk-secret"
    assert openai.base64


def test_other_providers_are_asked_by_their_own_route_and_words() -> None:
    cohere = model("cohere/embed-v4.0")

    assert (cohere.route, cohere.base64) == ("cohere/embed-v4.0", False)
    assert cohere.input_types["query"] == "search_query"


@pytest.mark.parametrize("name", ["gpt-4", "exotic/model", "hash-0", "hash-8193", "hash-064", "hash-64 ", "", "../x"])
def test_the_catalogue_is_closed(name: str) -> None:
    with pytest.raises(UnknownModel):
        model(name)


def test_local_models_are_unknown_where_none_are_served() -> None:
    with pytest.raises(UnknownModel, match="KB_LOCAL_MODELS_API_BASE"):
        model("hash-64", local=None)


@pytest.mark.parametrize(
    ("name", "named"),
    [("text-embedding-3-small", "OPENAI_API_KEY"), ("azure/text-embedding-3-small", "AZURE_API_VERSION")],
)
def test_a_missing_key_is_named(name: str, named: str) -> None:
    with pytest.raises(ProviderKeyMissing, match=named) as missing:
        model(name, environment={"OPENAI_API_KEY": ""})
    assert isinstance(missing.value, ProviderRefused)


def test_the_same_name_behind_another_address_is_another_vector_space() -> None:
    proxied = model("text-embedding-3-small", environment=KEYS | {"OPENAI_API_BASE": "https://proxy.example/v1"})
    one = model("azure/text-embedding-3-small", environment=AZURE)
    two = model("azure/text-embedding-3-small", environment=AZURE | {"AZURE_API_BASE": "https://two.example"})

    assert proxied.fingerprint != model("text-embedding-3-small").fingerprint
    assert one.fingerprint != two.fingerprint


def test_a_local_model_is_the_same_after_its_server_took_another_port() -> None:
    assert model("hash-64").fingerprint == model("hash-64", local="http://127.0.0.1:10/v1").fingerprint
    assert model("hash-64").fingerprint != model("hash-65").fingerprint


def test_metric_labels_are_a_closed_set_and_keys_are_never_shown() -> None:
    assert model("hash-64").label == model("hash-65").label == "hash"
    assert "sk-secret" not in repr(model("text-embedding-3-small"))


def test_an_organizations_own_access_stands_in_for_the_environments() -> None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=None, environment=KEYS | {"OPENAI_API_BASE": "https://e"})
    own = catalogue.get("text-embedding-3-small", Access("sk-own", requests_per_minute=60))
    elsewhere = catalogue.get("text-embedding-3-small", Access("sk-own", "https://own.example/v1"))

    # Not to the environment's address: who runs that is not the organization's business partner.
    assert (own.api_key, own.api_base) == ("sk-own", "https://api.openai.com/v1")
    assert elsewhere.api_base == "https://own.example/v1"
    assert len({own.fingerprint, elsewhere.fingerprint, catalogue.get("text-embedding-3-small").fingerprint}) == 3
    assert own.access is not None
    assert catalogue.get("text-embedding-3-small").access is None
    assert "sk-own" not in repr(own)


def test_the_same_address_is_the_same_vector_space_with_any_key() -> None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=None, environment=KEYS)
    own = catalogue.get("text-embedding-3-small", Access("sk-own"))

    assert own.fingerprint == catalogue.get("text-embedding-3-small").fingerprint


def test_a_key_of_an_organization_is_enough_where_the_environment_has_none() -> None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=None, environment={})

    assert catalogue.get("cohere/embed-v4.0", Access("co-own")).api_key == "co-own"
    assert [catalogue.has_key(provider) for provider in ("cohere", "local")] == [False, True]


def test_the_models_there_are_can_be_listed_without_any_key() -> None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=LOCAL, environment={})

    assert [(each.name, each.provider) for each in catalogue.described()] == [
        ("all-MiniLM-L6-v2", "local"),
        ("azure/text-embedding-3-small", "azure"),
        ("cohere/embed-v4.0", "cohere"),
        ("text-embedding-3-small", "openai"),
        ("use-multilingual-v3", "local"),
    ]
