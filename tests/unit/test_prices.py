"""What models cost: the deployment's word first, LiteLLM's table next, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chat.models import BundledChatModel, ChatCatalogue
from kb_shared.chat.provider import bundled_chat_models
from kb_shared.embedding.models import BundledModel, ModelCatalogue
from kb_shared.embedding.provider import bundled_models
from kb_shared.prices import MAX_USD, NANO_USD, ModelPrice, Prices, nano_usd
from kb_shared.settings import EmbeddingSettings

LOCAL = "http://127.0.0.1:9/v1"
KEYS = {"OPENAI_API_KEY": "sk-secret"}
BUNDLED = {
    "text-embedding-3-small": BundledModel("openai", 8191, 1536, usd_per_token=2e-8),
    "unpriced": BundledModel("openai", None, None),
}
CHAT = {
    "gpt-4o-mini": BundledChatModel("openai", None, 16_384, 1.5e-7, 6e-7, takes_schema=True),
    "unpriced": BundledChatModel("openai", None, None, None, None, takes_schema=False),
}


def embedding_cost(name: str, prices: Prices | None = None) -> int | None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=LOCAL, environment=KEYS, prices=prices)
    return catalogue.get(name).nano_usd(1_000)


def chat_cost(name: str, prices: Prices | None = None) -> int | None:
    catalogue = ChatCatalogue(CHAT, local_models_api_base=LOCAL, environment=KEYS, prices=prices)
    return catalogue.get(name).nano_usd(1_000, 100)


def test_without_settings_litellms_table_counts_and_what_it_does_not_price_has_no_price() -> None:
    assert embedding_cost("text-embedding-3-small") == 20_000
    assert embedding_cost("unpriced") is None
    assert chat_cost("gpt-4o-mini") == 150_000 + 60_000
    assert chat_cost("unpriced") is None


def test_local_models_are_free_unless_they_have_a_price() -> None:
    assert (embedding_cost("hash-16"), chat_cost("demo-extractive")) == (0, 0)
    own = Prices(by_model={"demo-extractive": ModelPrice(prompt=1, completion=10)})
    assert chat_cost("demo-extractive", own) == 2_000_000


def test_a_price_of_a_model_comes_before_the_price_of_an_spu_and_that_before_litellms() -> None:
    prices = Prices(usd_per_spu=0.001, by_model={"unpriced": ModelPrice(prompt=2, completion=4)})
    assert embedding_cost("text-embedding-3-small", prices) == 1_000_000
    assert embedding_cost("hash-16", prices) == 1_000_000
    assert embedding_cost("unpriced", prices) == 2_000_000
    assert chat_cost("unpriced", prices) == 2_400_000
    assert chat_cost("gpt-4o-mini", prices) == 210_000, "an SPU is an embedding"


@pytest.mark.parametrize("prices", [Prices(), Prices(usd_per_spu=0.001)])
def test_a_listed_model_has_the_price_that_is_charged(prices: Prices) -> None:
    catalogue = ModelCatalogue(BUNDLED, local_models_api_base=LOCAL, environment=KEYS, prices=prices)
    listed = {each.name: each.price for each in catalogue.described()}
    assert listed.keys() >= {"text-embedding-3-small", "unpriced", "all-MiniLM-L6-v2"}
    for name, price in listed.items():
        assert catalogue.get(name).price == price, name


@given(st.integers(0, 10**15))
def test_dollars_that_are_whole_nano_dollars_are_not_rounded_up(amount: int) -> None:
    assert nano_usd(amount / NANO_USD) == amount


@given(st.floats(0, MAX_USD))
def test_dollars_are_never_rounded_down(usd: float) -> None:
    assert nano_usd(usd) >= usd * NANO_USD * (1 - 1e-12) - 0.001


def test_prices_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_USD_PER_SPU", "0.0001")
    monkeypatch.setenv("KB_MODEL_PRICES", '{"gpt-4o-mini": {"prompt": 0.15, "completion": 0.6}}')
    prices = EmbeddingSettings().prices
    assert prices == Prices(0.0001, {"gpt-4o-mini": ModelPrice(prompt=0.15, completion=0.6)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KB_USD_PER_SPU", "-1"),
        ("KB_USD_PER_SPU", "inf"),
        ("KB_MODEL_PRICES", '{"m": {"prompt": -1}}'),
        ("KB_MODEL_PRICES", '{"m": {"completion": 1}}'),
        ("KB_MODEL_PRICES", '{"m": {"prompt": 1, "input": 1}}'),
    ],
)
def test_prices_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name.removeprefix("KB_").lower()):
        EmbeddingSettings()


def test_the_prices_of_litellms_table_are_numbers_that_can_be_added_up() -> None:
    embedding = [model.usd_per_token for model in bundled_models().values()]
    chat = [
        price
        for model in bundled_chat_models().values()
        for price in (model.usd_per_prompt_token, model.usd_per_completion_token)
    ]
    for price in [*embedding, *chat]:
        assert price is None or (isinstance(price, int | float) and 0 <= price < 0.01)
