"""Reads what a server says of its models: in the list of OpenAI's API, and, of Ollama, in the API of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kb_contracts.api.llm_providers import ServedModel
from kb_shared.providers.capped_answers import AnswerTooLarge
from kb_shared.providers.known_providers import OLLAMA
from kb_shared.providers.openai_server import CALL_ERRORS, OpenAIServers, ServerAddress, UnreadableAnswer

MOST_MODELS: Final = 100
_MAX_BYTES: Final = 4_000_000
_FAILURES: Final[tuple[type[Exception], ...]] = (*CALL_ERRORS, UnreadableAnswer, AnswerTooLarge, IndexError)
_CONTEXT_KEYS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
_EMBEDDING_NAMES: Final = ("embed", "minilm", "bge-", "/bge", "e5-", "gte-", "arctic", "retriev")
"""Parts of the names of models that give vectors and no answers. They decide only which model is tried."""


@dataclass(frozen=True, slots=True)
class AskedServer:
    provider: str
    address: ServerAddress

    @property
    def own_api(self) -> ServerAddress:
        """Return the address of Ollama's own API, beside that of OpenAI's."""
        return replace(self.address, api_base=self.address.api_base.removesuffix("/v1"))


async def list_models(servers: OpenAIServers, server: AskedServer) -> list[ServedModel]:
    """Return the models of a server, in its order.

    Raises:
        ServerFailed, UnreadableAnswer, AnswerTooLarge, httpx.HTTPError: as `OpenAIServers.ask`.
    """
    answer = await servers.read("/models", server=server.address, max_bytes=_MAX_BYTES)
    listed = answer.get("data", answer.get("models"))
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    named = [(each.get("id") or each.get("name") or each.get("model"), each) for each in entries]
    return [
        ServedModel(name=name[:200], max_input_tokens=_number(each, _CONTEXT_KEYS))
        for name, each in named
        if isinstance(name, str) and name
    ][:MOST_MODELS]


async def find_context_of_texts(servers: OpenAIServers, server: AskedServer, model: str) -> int | None:
    """Return how many tokens of a text an embedding model of Ollama reads; None if that is not known."""
    if server.provider != OLLAMA:
        return None
    said = await _ask_quietly(servers, server, "/api/show", body={"model": model})
    facts = said.get("model_info")
    items = facts.items() if isinstance(facts, dict) else ()
    return next((value for key, value in items if key.endswith(".context_length") and _is_number(value)), None)


async def find_context_of_prompts(servers: OpenAIServers, server: AskedServer, model: str) -> int | None:
    """Return the context that Ollama has loaded a model with, at which it cuts prompts; None if that is not known."""
    if server.provider != OLLAMA:
        return None
    said = await _ask_quietly(servers, server, "/api/ps", body=None)
    loaded = said.get("models")
    for each in loaded if isinstance(loaded, list) else []:
        if isinstance(each, dict) and _with_tag(model) in {_with_tag(each.get("name")), _with_tag(each.get("model"))}:
            return _number(each, ("context_length",))
    return None


def find_served(models: Sequence[ServedModel], name: str) -> ServedModel | None:
    """Return the model of a list that is called `name`, with or without Ollama's tag for the latest version."""
    return next((each for each in models if _with_tag(each.name) == _with_tag(name)), None)


def choose_model(models: Sequence[ServedModel]) -> str | None:
    """Return the model to try: the first that seems to answer, or else the first."""
    answering = [each for each in models if not any(part in each.name.lower() for part in _EMBEDDING_NAMES)]
    return next((each.name for each in [*answering, *models]), None)


async def _ask_quietly(
    servers: OpenAIServers, server: AskedServer, path: str, *, body: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Ask Ollama's own API. Older versions, and gateways before it, lack parts of it: they tell nothing."""
    try:
        if body is None:
            return await servers.read(path, server=server.own_api, max_bytes=_MAX_BYTES)
        return (await servers.ask(path, body, server=server.own_api, max_bytes=_MAX_BYTES))[0]
    except _FAILURES:
        return {}


def _with_tag(name: object) -> object:
    return f"{name}:latest" if isinstance(name, str) and ":" not in name.rpartition("/")[2] else name


def _number(entry: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    return next((entry[key] for key in keys if _is_number(entry.get(key))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
