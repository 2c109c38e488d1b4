"""Lists the providers of models, with the variables of the environment that a deployment reaches them by.

Four of them may be servers that somebody runs: their models have any name, in LiteLLM's form (`ollama/llama3.1`,
`hosted_vllm/meta-llama/Llama-3.1-8B-Instruct`) or plain. The models of the others are those of LiteLLM's list.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

from kb_shared.errors import ProviderKeyMissing, UnknownModel
from kb_shared.providers.access import Access

InputType = Literal["document", "query"]

LOCAL: Final = "local"
OPENAI: Final = "openai"
OLLAMA: Final = "ollama"
VLLM: Final = "vllm"
OPENAI_API_BASE: Final = "https://api.openai.com/v1"
WITHOUT_KEY: Final = "none"
"""Key that is sent to a server that takes any."""


@dataclass(frozen=True, slots=True)
class ProviderEnvironment:
    """A provider, and how the environment of the services gives access to it."""

    keys: Sequence[str]
    """Environment variables that must be set, the key itself first."""
    address: str | None = None
    """Environment variable that says where the deployment is."""
    input_types: Mapping[InputType, str] = field(default_factory=dict)
    optional_key: str | None = None
    """Environment variable of the key, where a server may need none."""
    prefixes: Sequence[str] = ()
    """Beginnings of the names of models, before a slash, that say that it is this provider's; LiteLLM's first."""


PROVIDERS: Final[Mapping[str, ProviderEnvironment]] = {
    "anthropic": ProviderEnvironment(["ANTHROPIC_API_KEY"]),
    "azure": ProviderEnvironment(["AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"], address="AZURE_API_BASE"),
    "cohere": ProviderEnvironment(
        ["COHERE_API_KEY"], input_types={"document": "search_document", "query": "search_query"}
    ),
    "fireworks_ai": ProviderEnvironment(["FIREWORKS_AI_API_KEY"]),
    "gemini": ProviderEnvironment(["GEMINI_API_KEY"]),
    "mistral": ProviderEnvironment(["MISTRAL_API_KEY"]),
    "nebius": ProviderEnvironment(["NEBIUS_API_KEY"]),
    OLLAMA: ProviderEnvironment(
        ["OLLAMA_API_BASE"],
        address="OLLAMA_API_BASE",
        optional_key="OLLAMA_API_KEY",
        prefixes=("ollama", "ollama_chat"),
    ),
    OPENAI: ProviderEnvironment(["OPENAI_API_KEY"], address="OPENAI_API_BASE", prefixes=("openai",)),
    "openai-compatible": ProviderEnvironment(
        ["OPENAI_LIKE_API_BASE"],
        address="OPENAI_LIKE_API_BASE",
        optional_key="OPENAI_LIKE_API_KEY",
        prefixes=("openai_like", "openai-compatible"),
    ),
    "together_ai": ProviderEnvironment(["TOGETHERAI_API_KEY"]),
    VLLM: ProviderEnvironment(
        ["HOSTED_VLLM_API_BASE"],
        address="HOSTED_VLLM_API_BASE",
        optional_key="HOSTED_VLLM_API_KEY",
        prefixes=("hosted_vllm", "vllm"),
    ),
    "voyage": ProviderEnvironment(["VOYAGE_API_KEY"], input_types={"document": "document", "query": "query"}),
}
OWN_SERVERS: Final = tuple(name for name, provider in PROVIDERS.items() if provider.prefixes)
"""Providers that may be a server which somebody runs; `openai` only where an address is given."""
NEED_ADDRESS: Final = tuple(name for name, provider in PROVIDERS.items() if provider.optional_key is not None)
"""Providers of them that have no usual address, and may take requests without a key."""
RUN_BY_THEIR_USERS: Final = frozenset({OLLAMA, VLLM})
"""Providers whose models cost nothing a token, unless the deployment sets a price."""
_PROVIDER_OF_PREFIX: Final = {prefix: name for name, each in PROVIDERS.items() for prefix in each.prefixes}
_OF_OPEN_WEIGHTS: Final = "openai/gpt-oss"
"""Beginning of names that servers of open weights use whole, although it looks like LiteLLM's form."""
_ENDPOINTS: Final = ("/chat/completions", "/embeddings", "/models")
_OWN_API_OF_OLLAMA: Final = "/api"


class _Listed(Protocol):
    @property
    def provider(self) -> str: ...


_ListedModel = TypeVar("_ListedModel", bound=_Listed)


def listed_models(bundled: Mapping[str, _ListedModel]) -> dict[str, _ListedModel]:
    """Return the models of LiteLLM's list whose providers are known. What a server has only the server knows."""
    return {name: each for name, each in bundled.items() if each.provider in PROVIDERS.keys() - set(NEED_ADDRESS)}


def provider_of_prefix(name: str) -> str | None:
    """Return the provider that the beginning of a model's name says; None if it says none."""
    prefix, slash, rest = name.partition("/")
    if not slash or not rest or name.startswith(_OF_OPEN_WEIGHTS):
        return None
    return _PROVIDER_OF_PREFIX.get(prefix)


def name_at_server(name: str) -> str:
    """Return the name of a model as its server knows it: without LiteLLM's prefix."""
    return name if provider_of_prefix(name) is None else name.partition("/")[2]


def canonical_address(provider: str, address: str) -> str:
    """Return the address of a server as it is stored and called: with `/v1`, without a slash or an endpoint at the end.

    The address of an endpoint at the root stays whole: such a server has no `/v1`.
    """
    found = address.strip().rstrip("/")
    if provider not in OWN_SERVERS:
        return found
    whole = found
    for endpoint in _ENDPOINTS:
        found = found.removesuffix(endpoint)
    path = urlsplit(found).path
    if provider == OLLAMA and f"{path}/".startswith(_OWN_API_OF_OLLAMA + "/"):
        found, path = found.removesuffix(path), ""
    if path:
        return found
    return f"{found}/v1" if provider == OLLAMA or found == whole else whole


def access_of_environment(name: str, provider: str, environment: Mapping[str, str]) -> Access:
    """Return the deployment's own access to the provider of the model `name`. Raises ProviderKeyMissing."""
    described = PROVIDERS[provider]
    if missing := _missing(described.keys, environment):
        variables = f"{' and '.join(missing)} in the environment of the services"
        if provider in NEED_ADDRESS:
            raise ProviderKeyMissing(
                f"{name!r} needs the address of its server: `kb providers set {provider} --api-base URL`,"
                f" or {variables}"
            )
        raise ProviderKeyMissing(f"{name!r} needs {variables}, or `kb providers set {provider}`")
    address = environment.get(described.address) if described.address else None
    key = environment.get(described.optional_key, "") if described.optional_key else environment[described.keys[0]]
    return Access(key or WITHOUT_KEY, canonical_address(provider, address) if address else None)


def has_environment_key(provider: str, environment: Mapping[str, str]) -> bool:
    """Return whether all variables of a provider are set; True of local models, which need none."""
    return provider == LOCAL or not _missing(PROVIDERS[provider].keys, environment)


def has_environment_address(provider: str, environment: Mapping[str, str]) -> bool:
    """Return whether the environment says where a server with any models is."""
    address = PROVIDERS[provider].address
    return bool(address and environment.get(address)) and has_environment_key(provider, environment)


def unknown_model(kind: str, name: str) -> UnknownModel:
    """Make the error of a name that is in no list; `kind` is "chat" or "embedding"."""
    return UnknownModel(
        f"no {kind} model is called {name!r}: `kb providers set ollama|vllm|openai-compatible --api-base URL` "
        "makes the models of a server known, under any name"
    )


def fingerprint(provider: str, api_base: str, deployment: str) -> str:
    return hashlib.sha256(f"{provider}\x1f{api_base}\x1f{deployment}".encode()).hexdigest()[:16]


def fingerprint_of_server(api_base: str, model: str) -> str:
    """Return the fingerprint of a model at a server, under whatever provider the server's address is stored."""
    parts = urlsplit(api_base)
    if parts.hostname in {"localhost", "::1"}:
        port = "" if parts.port is None else f":{parts.port}"
        api_base = parts._replace(netloc=f"127.0.0.1{port}").geturl()
    return fingerprint(OPENAI, api_base, model)


def _missing(keys: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    return [key for key in keys if not environment.get(key)]
