"""Lists the chat models and how each is called. Providers have one key and address for embeddings and chat.

The catalogue has those of `PROVIDERS` that LiteLLM's bundled list knows, and the local ones, which are no language
models: one for demonstrations and the scripted ones of tests. A server of one's own has models of any name besides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kb_contracts.api.chat_models import DEMO_MODEL
from kb_shared.errors import ModelNotAllowed, UnknownModel
from kb_shared.model_patterns import is_allowed
from kb_shared.prices import Prices, nano_usd
from kb_shared.providers.access import OPENAI_COMPATIBLE, Access
from kb_shared.providers.known_providers import (
    LOCAL,
    OPENAI,
    OPENAI_API_BASE,
    OWN_SERVERS,
    RUN_BY_THEIR_USERS,
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

_OUTPUT_TOKENS_OF_ALL: Final = 4_096
"""Completion tokens of a model that LiteLLM does not know."""
_SCRIPTED_MODEL: Final = re.compile(r"scripted(-[A-Za-z0-9_-]{1,64})?")


@dataclass(frozen=True, slots=True)
class BundledChatModel:
    """Entry of a model in LiteLLM's list."""

    provider: str
    max_input_tokens: int | None
    max_output_tokens: int | None
    usd_per_prompt_token: float | None
    usd_per_completion_token: float | None
    takes_schema: bool
    """True if the provider enforces a JSON schema."""
    reasons: bool = False
    """True if the model writes its reasoning first, and chooses its temperature itself."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """All that a call to the provider takes, but the messages."""

    name: str
    """Name as the user gave it."""
    label: str
    """Label in metrics, from a closed set."""
    route: str
    """Model name as LiteLLM expects it."""
    api_base: str | None
    api_key: str = field(repr=False)
    max_input_tokens: int | None
    max_output_tokens: int | None
    """Greatest number of tokens that the model writes or may be allowed; None if there is no such limit."""
    usd_per_prompt_token: float | None
    """Price of a token of the prompt; None if it is not known."""
    usd_per_completion_token: float | None
    takes_schema: bool
    fingerprint: str
    """Fingerprint of provider and address: the key of the circuit."""
    access: Access | None = None
    """Key and address of the organization, where its own key is used."""
    reasons: bool = False
    """As in `BundledChatModel`."""

    @property
    def server_name(self) -> str:
        """Name as the provider knows it."""
        return self.route.removeprefix(OPENAI_COMPATIBLE)

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the price of so many tokens; None if the prices are not known."""
        if self.usd_per_prompt_token is None or self.usd_per_completion_token is None:
            return None
        return prompt_tokens * self.usd_per_prompt_token + completion_tokens * self.usd_per_completion_token

    def nano_usd(self, prompt_tokens: int, completion_tokens: int) -> int | None:
        """Return the same in whole nano-dollars, rounded up."""
        cost = self.cost_usd(prompt_tokens, completion_tokens)
        return None if cost is None else nano_usd(cost)


@dataclass(frozen=True, slots=True)
class ChatModelDescription:
    """Description of a model that may be named, whether there is a key for it or not."""

    name: str
    provider: str
    """Name of the provider; `local` for models that this deployment serves itself."""
    max_input_tokens: int | None
    max_output_tokens: int | None
    usd: tuple[float | None, float | None]
    """Prices of a token of the prompt and of the completion; None where they are not known."""
    takes_schema: bool


class ChatCatalogue:
    """The chat models of this deployment by the name users give."""

    def __init__(
        self,
        bundled: Mapping[str, BundledChatModel],
        *,
        local_models_api_base: str | None,
        environment: Mapping[str, str],
        allowed: Sequence[str] | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Hold what is needed to find a model; see `ModelCatalogue`.

        `allowed` are names or patterns of the models that may be used, as in `is_allowed`; `prices` of the deployment
        come before those of `bundled`.
        """
        self._bundled = listed_models(bundled)
        self._local_api_base = local_models_api_base
        self._environment = environment
        self._allowed = allowed
        self._prices = prices or Prices()

    def provider_of(self, name: str) -> str:
        """Return the provider that the name of a model says; `local` of one of this deployment.

        Raises:
            ModelNotAllowed: organizations may not use it here, whether it exists or not.
            UnknownModel: nothing is called so.
        """
        if (named := self.find_provider(name)) is None:
            raise unknown_model("chat", name)
        return named

    def find_provider(self, name: str) -> str | None:
        """Return the provider that the name of a model says; None if only a server of one's own can have it.

        Raises ModelNotAllowed.
        """
        self._check_allowed(name)
        if self._is_local(name):
            return LOCAL
        bundled = self._bundled.get(name)
        return provider_of_prefix(name) if bundled is None else bundled.provider

    def is_listed(self, provider: str, name: str) -> bool:
        """Return whether the list says of a provider that it has the model."""
        return self._described_by(provider, name) is not None

    def get(self, name: str, access: Access | None = None, *, provider: str | None = None) -> ChatModel:
        """Return the model called `name`, reached by `access` or else with the key of the environment.

        `provider` is the one that has it; None: the one that the name says.

        Raises:
            ModelNotAllowed: organizations may not use it here.
            UnknownModel: nothing is called so, or it is local and no local models are served.
            ProviderKeyMissing: its provider's key is not in the environment.
        """
        self._check_allowed(name)
        if self._is_local(name):
            return self._local(name)
        asked = provider or self.provider_of(name)
        used = access or access_of_environment(name, asked, self._environment)
        bundled = self._described_by(asked, name)
        if bundled is None and (asked not in OWN_SERVERS or used.api_base is None):
            raise unknown_model("chat", name)
        return replace(self._of_provider(name, bundled or _of_own_server(asked), used), access=access)

    def _of_provider(self, name: str, bundled: BundledChatModel, access: Access) -> ChatModel:
        compatible = bundled.provider in OWN_SERVERS
        # Without an address, LiteLLM would use its own default address of this route.
        api_base = access.api_base or (OPENAI_API_BASE if bundled.provider == OPENAI else None)
        at_server = name_at_server(name) if compatible else name
        listed = (bundled.usd_per_prompt_token, bundled.usd_per_completion_token)
        of_prompt, of_completion = self._prices.of_chat(name, listed=listed)
        return ChatModel(
            name=name,
            # Names of own servers are as many as their users want.
            label=name if name in self._bundled else bundled.provider,
            route=OPENAI_COMPATIBLE + at_server if compatible else name,
            api_base=api_base,
            api_key=access.api_key,
            max_input_tokens=bundled.max_input_tokens,
            max_output_tokens=bundled.max_output_tokens,
            usd_per_prompt_token=of_prompt,
            usd_per_completion_token=of_completion,
            takes_schema=bundled.takes_schema,
            reasons=bundled.reasons,
            fingerprint=fingerprint_of_server(str(api_base), at_server)
            if compatible
            else fingerprint(bundled.provider, api_base or "", name),
        )

    def _described_by(self, provider: str, name: str) -> BundledChatModel | None:
        found = self._bundled.get(name) or self._bundled.get(name_at_server(name))
        if found is None or found.provider != provider:
            return None
        return replace(found, max_output_tokens=found.max_output_tokens or _OUTPUT_TOKENS_OF_ALL)

    def described(self) -> list[ChatModelDescription]:
        """Return all models that organizations may use here, by name; those of tests are not among them."""
        found = [
            ChatModelDescription(
                name,
                model.provider,
                max_input_tokens=model.max_input_tokens,
                max_output_tokens=model.max_output_tokens,
                usd=self._prices.of_chat(name, listed=(model.usd_per_prompt_token, model.usd_per_completion_token)),
                takes_schema=model.takes_schema,
            )
            for name, model in self._bundled.items()
        ]
        if self._local_api_base is not None:
            free = self._prices.of_chat(DEMO_MODEL, listed=(0.0, 0.0))
            found.append(ChatModelDescription(DEMO_MODEL, LOCAL, None, None, usd=free, takes_schema=True))
        allowed = [each for each in found if self._allowed is None or is_allowed(each.name, self._allowed)]
        return sorted(allowed, key=lambda each: each.name)

    def has_key(self, provider: str) -> bool:
        """Return whether the environment has all keys of `provider`."""
        return has_environment_key(provider, self._environment)

    def environment_access(self, provider: str) -> Access:
        """Return the deployment's own access to a provider. Raises ProviderKeyMissing."""
        return access_of_environment(provider, provider, self._environment)

    def has_address(self, provider: str) -> bool:
        """Return whether the environment says where a server with any models is."""
        return has_environment_address(provider, self._environment)

    def cheapest_of(self, provider: str) -> str | None:
        """Return the model of `provider` whose prompts cost least; None if it has no model with a known price."""
        prices = [(each.usd[0], each.name) for each in self.described() if each.provider == provider]
        return min(((price, name) for price, name in prices if price is not None), default=(0.0, None))[1]

    def _check_allowed(self, name: str) -> None:
        if self._allowed is not None and not is_allowed(name, self._allowed):
            raise ModelNotAllowed(f"{name!r} is none of the chat models of KB_CHAT_MODELS", allowed=self._allowed)

    def _is_local(self, name: str) -> bool:
        return name == DEMO_MODEL or _SCRIPTED_MODEL.fullmatch(name) is not None

    def _local(self, name: str) -> ChatModel:
        if self._local_api_base is None:
            raise UnknownModel(
                f"{name!r} is a local model and KB_LOCAL_MODELS_API_BASE does not say where it is served"
            )
        of_prompt, of_completion = self._prices.of_chat(name, listed=(0.0, 0.0))
        return ChatModel(
            name=name,
            label=DEMO_MODEL if name == DEMO_MODEL else "scripted",
            route=OPENAI_COMPATIBLE + name,
            api_base=self._local_api_base,
            api_key="none",
            max_input_tokens=None,
            max_output_tokens=None,
            usd_per_prompt_token=of_prompt,
            usd_per_completion_token=of_completion,
            takes_schema=True,
            fingerprint=fingerprint("local", "", name),
        )


def _of_own_server(provider: str) -> BundledChatModel:
    """Describe a model of which nothing is known but who runs it."""
    price = 0.0 if provider in RUN_BY_THEIR_USERS else None
    return BundledChatModel(provider, None, None, price, price, takes_schema=True)
