"""Lists the embedding models, and turns the name that a user gives into a call of LiteLLM.

The catalogue is closed: the local models, the deployment's late models, and those of `PROVIDERS` that LiteLLM's
bundled list knows. A provider is reached with the key of the environment, or with an organization's own
(`organization_models`). OpenAI, and whatever speaks its API, is asked without LiteLLM (`providers/openai_server.py`).
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kb_shared.errors import ProviderKeyMissing, UnknownModel
from kb_shared.prices import EmbeddingPrice, Prices
from kb_shared.providers.access import OPENAI_COMPATIBLE, Access

InputType = Literal["document", "query"]

OPENAI_API_BASE: Final = "https://api.openai.com/v1"
MAX_DIMENSIONS: Final = 8192
"""Limit of dimensions: an Atlas index takes no more."""

_HASH_MODEL: Final = re.compile(r"hash-([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class BundledModel:
    """Facts about a model, from LiteLLM's list or from ours of the local ones."""

    provider: str
    max_input_tokens: int | None
    dimensions: int | None
    usd_per_token: float | None = None
    """Price of a token; None if the list has none."""


LOCAL: Final = "local"
LOCAL_MODELS: Final[Mapping[str, BundledModel]] = {
    "all-MiniLM-L6-v2": BundledModel(LOCAL, max_input_tokens=256, dimensions=384),
    "use-multilingual-v3": BundledModel(LOCAL, max_input_tokens=512, dimensions=512),
}


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Description of a model that may be named, whether there is a key for it or not."""

    name: str
    provider: str
    """Name of the provider; `local` for models that this deployment serves itself."""
    max_input_tokens: int | None
    dimensions: int | None
    price: EmbeddingPrice | None
    """Price of the model in this deployment; None if it is not known."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """All that a call to the provider takes, but the texts."""

    name: str
    """Name as the user gave it."""
    label: str
    """Label in metrics, from a closed set."""
    route: str
    """Model name as LiteLLM expects it."""
    api_base: str | None
    api_key: str = field(repr=False)
    max_input_tokens: int | None
    """Number of tokens above which the provider cuts or refuses a text; None if it is not known."""
    default_dimensions: int | None
    """Dimensions that the model returns by default; None if unknown."""
    fingerprint: str
    """Fingerprint of provider, address and deployment: the same name at another address is another vector space."""
    base64: bool = False
    """True if vectors may be requested as base64."""
    input_types: Mapping[InputType, str] = field(default_factory=dict)
    """The provider's words for what a text is; empty where the model makes no difference."""
    access: Access | None = None
    """Key and address of the organization, where its own key is used.

    Vectors paid for with it are not shared with others.
    """
    late_source: str | None = None
    """Source of a late model: the folder or the name at the hub. It is not called through LiteLLM."""
    price: EmbeddingPrice | None = None
    """Price of the model; None if it is not known."""

    @property
    def server_name(self) -> str:
        """Name as the provider knows it."""
        return self.route.removeprefix(OPENAI_COMPATIBLE)

    def nano_usd(self, tokens: int) -> int | None:
        """Return what the embedding of a text of so many tokens costs; None where the price is not known."""
        return None if self.price is None else self.price.nano_usd(tokens)


@dataclass(frozen=True, slots=True)
class _ProviderEnvironment:
    """A provider that LiteLLM has a route of its own for."""

    keys: Sequence[str]
    """Environment variables that must be set, the key itself first."""
    address: str | None = None
    """Environment variable that says where the deployment is."""
    input_types: Mapping[InputType, str] = field(default_factory=dict)


PROVIDERS: Final[Mapping[str, _ProviderEnvironment]] = {
    "anthropic": _ProviderEnvironment(["ANTHROPIC_API_KEY"]),
    "azure": _ProviderEnvironment(["AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"], address="AZURE_API_BASE"),
    "cohere": _ProviderEnvironment(
        ["COHERE_API_KEY"], input_types={"document": "search_document", "query": "search_query"}
    ),
    "fireworks_ai": _ProviderEnvironment(["FIREWORKS_AI_API_KEY"]),
    "gemini": _ProviderEnvironment(["GEMINI_API_KEY"]),
    "mistral": _ProviderEnvironment(["MISTRAL_API_KEY"]),
    "nebius": _ProviderEnvironment(["NEBIUS_API_KEY"]),
    "openai": _ProviderEnvironment(["OPENAI_API_KEY"], address="OPENAI_API_BASE"),
    "together_ai": _ProviderEnvironment(["TOGETHERAI_API_KEY"]),
    "voyage": _ProviderEnvironment(["VOYAGE_API_KEY"], input_types={"document": "document", "query": "query"}),
}


class ModelCatalogue:
    """The models of this deployment by the name users give."""

    def __init__(
        self,
        bundled: Mapping[str, BundledModel],
        *,
        local_models_api_base: str | None,
        environment: Mapping[str, str],
        late_models: Mapping[str, str] | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Hold what is needed to find a model.

        Args:
            bundled: LiteLLM's list by name.
            local_models_api_base: where the local models are served, ending in `/v1`; None: they are not.
            environment: variables that hold the providers' keys; read at each look-up.
            late_models: by name, where each is loaded from.
            prices: of the deployment, which come before those of `bundled`.
        """
        self._bundled = bundled
        self._local_api_base = local_models_api_base
        self._environment = environment
        self._late = late_models or {}
        self._prices = prices or Prices()

    def get(self, name: str, access: Access | None = None) -> EmbeddingModel:
        """Return the model called `name`, reached by `access` or else with the key of the environment.

        Raises:
            UnknownModel: nothing is called so, or it is local and no local models are served.
            ProviderKeyMissing: its provider's key is not in the environment.
        """
        if name in self._late:
            return replace(_late(name, self._late[name]), price=self._price(name, 0.0))
        if local := LOCAL_MODELS.get(name):
            return self._local(name, label=name, dimensions=local.dimensions, max_input_tokens=local.max_input_tokens)
        if (matched := _HASH_MODEL.fullmatch(name)) and int(matched[1]) <= MAX_DIMENSIONS:
            return self._local(name, label="hash", dimensions=int(matched[1]), max_input_tokens=None)
        bundled = self._bundled_model(name)
        used = access or access_of_environment(name, bundled.provider, self._environment)
        price = self._price(name, bundled.usd_per_token)
        return replace(self._of_provider(name, bundled, used), access=access, price=price)

    def provider_of(self, name: str) -> str | None:
        """Return the provider whose key a model takes; None of a local one, which takes none. Raises UnknownModel."""
        if name in self._late or name in LOCAL_MODELS or _HASH_MODEL.fullmatch(name):
            return None
        return self._bundled_model(name).provider

    def described(self) -> list[ModelDescription]:
        """Return all models with a fixed name, by name; the `hash-<dimensions>` of tests are not among them."""
        known = {name: bundled for name, bundled in self._bundled.items() if bundled.provider in PROVIDERS}
        if self._local_api_base is not None:
            known |= LOCAL_MODELS
        found = [
            ModelDescription(
                name,
                model.provider,
                max_input_tokens=model.max_input_tokens,
                dimensions=model.dimensions,
                price=self._price(name, 0.0 if model.provider == LOCAL else model.usd_per_token),
            )
            for name, model in known.items()
        ]
        found += [
            ModelDescription(name, LOCAL, max_input_tokens=None, dimensions=None, price=self._price(name, 0.0))
            for name in self._late
        ]
        return sorted(found, key=lambda each: each.name)

    def cheapest_of(self, provider: str) -> str | None:
        """Return the model of `provider` with the lowest listed price; None if it has no embedding model."""
        found = {each.name for each in self.described() if each.provider == provider}
        prices = {name: self._bundled[name].usd_per_token for name in found if name in self._bundled}
        return min(found, key=lambda name: (_or_infinite(prices.get(name)), name), default=None)

    def has_key(self, provider: str) -> bool:
        """Return whether the environment has all keys of `provider`."""
        return has_environment_key(provider, self._environment)

    def _bundled_model(self, name: str) -> BundledModel:
        bundled = self._bundled.get(name)
        if bundled is None or bundled.provider not in PROVIDERS:
            raise UnknownModel(f"no embedding model is called {name!r}")
        return bundled

    def _local(self, name: str, *, label: str, dimensions: int | None, max_input_tokens: int | None) -> EmbeddingModel:
        if self._local_api_base is None:
            raise UnknownModel(
                f"{name!r} is a local model and KB_LOCAL_MODELS_API_BASE does not say where it is served"
            )
        return EmbeddingModel(
            name=name,
            label=label,
            route=OPENAI_COMPATIBLE + name,
            api_base=self._local_api_base,
            api_key="none",
            max_input_tokens=max_input_tokens,
            default_dimensions=dimensions,
            # Not the address: its port may change at each start, while the name says which weights they are.
            fingerprint=fingerprint(LOCAL, "", name),
            base64=True,
            price=self._price(name, 0.0),
        )

    def _price(self, name: str, listed_usd_per_token: float | None) -> EmbeddingPrice | None:
        return self._prices.of_embedding(name, listed_usd_per_token=listed_usd_per_token)

    def _of_provider(self, name: str, bundled: BundledModel, access: Access) -> EmbeddingModel:
        provider = PROVIDERS[bundled.provider]
        compatible = bundled.provider == "openai"
        # Without an address, LiteLLM would use its own default address of this route.
        api_base = access.api_base or (OPENAI_API_BASE if compatible else None)
        return EmbeddingModel(
            name=name,
            label=name,
            route=OPENAI_COMPATIBLE + name if compatible else name,
            api_base=api_base,
            api_key=access.api_key,
            max_input_tokens=bundled.max_input_tokens,
            default_dimensions=bundled.dimensions,
            fingerprint=fingerprint(bundled.provider, api_base or "", name),
            base64=compatible,
            input_types=provider.input_types,
        )


def _or_infinite(price: float | None) -> float:
    return math.inf if price is None else price


def _late(name: str, source: str) -> EmbeddingModel:
    return EmbeddingModel(
        name=name,
        label=name,
        route="",
        api_base=None,
        api_key="",
        # What is longer is read in parts.
        max_input_tokens=None,
        default_dimensions=None,
        fingerprint=fingerprint("late", "", source),
        late_source=source,
    )


def access_of_environment(name: str, provider: str, environment: Mapping[str, str]) -> Access:
    """Return the deployment's own access to the provider of the model `name`. Raises ProviderKeyMissing."""
    described = PROVIDERS[provider]
    if missing := _missing(described.keys, environment):
        raise ProviderKeyMissing(f"{name!r} needs {' and '.join(missing)} in the environment of the services")
    api_base = environment.get(described.address) if described.address else None
    return Access(environment[described.keys[0]], api_base or None)


def has_environment_key(provider: str, environment: Mapping[str, str]) -> bool:
    """Return whether all variables of a provider are set; True of local models, which need none."""
    return provider == LOCAL or not _missing(PROVIDERS[provider].keys, environment)


def _missing(keys: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    return [key for key in keys if not environment.get(key)]


def fingerprint(provider: str, api_base: str, deployment: str) -> str:
    return hashlib.sha256(f"{provider}\x1f{api_base}\x1f{deployment}".encode()).hexdigest()[:16]
