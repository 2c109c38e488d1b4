"""Lists the embedding models, and turns the name that a user gives into a call of LiteLLM.

The catalogue has the local models, the deployment's late models, and those of `PROVIDERS` that LiteLLM's bundled list
knows. A server of one's own has models of any name besides. A provider is reached with the key of the environment, or
with an organization's own (`organization_models`). OpenAI, and whatever speaks its API, is asked without LiteLLM
(`providers/openai_server.py`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kb_shared.errors import UnknownModel
from kb_shared.prices import EmbeddingPrice, Prices
from kb_shared.providers.access import OPENAI_COMPATIBLE, Access
from kb_shared.providers.known_providers import (
    LOCAL,
    OPENAI,
    OPENAI_API_BASE,
    OWN_SERVERS,
    PROVIDERS,
    RUN_BY_THEIR_USERS,
    InputType,
    access_of_environment,
    fingerprint,
    fingerprint_of_server,
    has_environment_address,
    has_environment_key,
    listed_models,
    name_at_server,
    provider_of_prefix,
    unknown_model,
)

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
    provider: str
    """Name of the provider; `local` for models that this deployment serves itself."""
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
        self._bundled = listed_models(bundled)
        self._local_api_base = local_models_api_base
        self._environment = environment
        self._late = late_models or {}
        self._prices = prices or Prices()

    def get(self, name: str, access: Access | None = None, *, provider: str | None = None) -> EmbeddingModel:
        """Return the model called `name`, reached by `access` or else with the key of the environment.

        `provider` is the one that has it; None: the one that the name says.

        Raises:
            UnknownModel: nothing is called so, or it is local and no local models are served.
            ProviderKeyMissing: its provider's key is not in the environment.
        """
        if name in self._late:
            return replace(_late(name, self._late[name]), price=self._price(name, 0.0))
        if local := LOCAL_MODELS.get(name):
            return self._local(name, label=name, dimensions=local.dimensions, max_input_tokens=local.max_input_tokens)
        if dimensions := _dimensions_of_hash(name):
            return self._local(name, label="hash", dimensions=dimensions, max_input_tokens=None)
        asked = provider or self.provider_of(name)
        used = access or access_of_environment(name, asked, self._environment)
        bundled = self._described_by(asked, name)
        if bundled is None and (asked not in OWN_SERVERS or used.api_base is None):
            raise unknown_model("embedding", name)
        bundled = bundled or BundledModel(asked, None, None, 0.0 if asked in RUN_BY_THEIR_USERS else None)
        price = self._price(name, bundled.usd_per_token)
        return replace(self._of_provider(name, bundled, used), access=access, price=price)

    def provider_of(self, name: str) -> str:
        """Return the provider that the name of a model says; `local` of one of this deployment. Raises UnknownModel."""
        if (named := self.find_provider(name)) is None:
            raise unknown_model("embedding", name)
        return named

    def find_provider(self, name: str) -> str | None:
        """Return the provider that the name of a model says; None if only a server of one's own can have it."""
        if name in self._late or name in LOCAL_MODELS or _dimensions_of_hash(name):
            return LOCAL
        bundled = self._bundled.get(name)
        return provider_of_prefix(name) if bundled is None else bundled.provider

    def is_listed(self, provider: str, name: str) -> bool:
        """Return whether the list says of a provider that it has the model."""
        return self._described_by(provider, name) is not None

    def _described_by(self, provider: str, name: str) -> BundledModel | None:
        found = self._bundled.get(name) or self._bundled.get(name_at_server(name))
        return found if found is not None and found.provider == provider else None

    def described(self) -> list[ModelDescription]:
        """Return all models with a fixed name, by name; the `hash-<dimensions>` of tests are not among them."""
        known = dict(self._bundled)
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

    def has_address(self, provider: str) -> bool:
        """Return whether the environment says where a server with any models is."""
        return has_environment_address(provider, self._environment)

    def _local(self, name: str, *, label: str, dimensions: int | None, max_input_tokens: int | None) -> EmbeddingModel:
        if self._local_api_base is None:
            raise UnknownModel(
                f"{name!r} is a local model and KB_LOCAL_MODELS_API_BASE does not say where it is served"
            )
        return EmbeddingModel(
            name=name,
            label=label,
            provider=LOCAL,
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
        compatible = bundled.provider in OWN_SERVERS
        # Without an address, LiteLLM would use its own default address of this route.
        api_base = access.api_base or (OPENAI_API_BASE if bundled.provider == OPENAI else None)
        at_server = name_at_server(name) if compatible else name
        return EmbeddingModel(
            name=name,
            # Names of own servers are as many as their users want.
            label=name if name in self._bundled else bundled.provider,
            provider=bundled.provider,
            route=OPENAI_COMPATIBLE + at_server if compatible else name,
            api_base=api_base,
            api_key=access.api_key,
            max_input_tokens=bundled.max_input_tokens,
            default_dimensions=bundled.dimensions,
            fingerprint=fingerprint_of_server(str(api_base), at_server)
            if compatible
            else fingerprint(bundled.provider, api_base or "", name),
            base64=compatible,
            input_types=provider.input_types,
        )


def _dimensions_of_hash(name: str) -> int | None:
    """Return the dimensions of a model of tests; None if the name is none of these."""
    matched = _HASH_MODEL.fullmatch(name)
    return int(matched[1]) if matched and int(matched[1]) <= MAX_DIMENSIONS else None


def _or_infinite(price: float | None) -> float:
    return math.inf if price is None else price


def _late(name: str, source: str) -> EmbeddingModel:
    return EmbeddingModel(
        name=name,
        label=name,
        provider=LOCAL,
        route="",
        api_base=None,
        api_key="",
        # What is longer is read in parts.
        max_input_tokens=None,
        default_dimensions=None,
        fingerprint=fingerprint("late", "", source),
        late_source=source,
    )
