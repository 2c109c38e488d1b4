"""Says what follows from what a model or its server can't do, in one sentence each, with what to do about it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kb_shared.providers.known_providers import OLLAMA, VLLM

if TYPE_CHECKING:
    from kb_api.called_models import ProviderCheck

_ROOM: Final = 12_000
"""Tokens of a prompt with passages and of its answer: what a run usually needs."""
_USUAL_CONTEXT: Final = 16_384
_HEADING_TOKENS: Final = 64
_LARGEST_CHUNK: Final = 512
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  # compared, not bound


def advise(check: "ProviderCheck", model: str) -> list[str]:
    """Return the advice about a model that was called."""
    if check.abilities is None and check.embeddings is None:
        return list(_about_failure(check, model))
    return [*_about_answers(check), *_about_vectors(check)]


def advise_about_answers(check: "ProviderCheck") -> list[str]:
    """Return the advice about a chat model of a provider whose models have one purpose each."""
    return [] if check.abilities is None else list(_about_answers(check))


def advise_unreachable(error_type: str, provider: str, api_base: str) -> list[str]:
    """Return the advice about a server whose models can't be listed."""
    parts = urlsplit(api_base)
    if error_type == "no_models":
        return ["Fetch one first, as by `ollama pull llama3.1`."] if provider == OLLAMA else []
    if error_type == "provider_auth":
        return [f"Give its key: `kb providers set {provider} --key-from VARIABLE`."]
    if error_type == "provider_incompatible":
        return ["Check the address: the API of such servers usually ends in /v1."]
    if error_type not in {"provider_5xx", "provider_timeout"}:
        return []
    advice = [f"Check that the server runs at {parts.scheme}://{parts.netloc}, as seen from the services."]
    if parts.hostname in _LOOPBACK:
        advice.append(
            "Where the services run in containers, 127.0.0.1 and localhost are the container: write "
            f"{parts.scheme}://host.docker.internal:{parts.port or 80}, and let the server listen on all addresses"
            + (" (OLLAMA_HOST=0.0.0.0)." if provider == OLLAMA else " (--host 0.0.0.0).")
        )
    if parts.scheme == "https":
        advice.append("A server of one's own often speaks http and not https.")
    return advice


def _about_failure(check: "ProviderCheck", model: str) -> Iterator[str]:
    if check.models and model not in {each.name for each in check.models}:
        yield f"The server has no model {model}, but: {', '.join(each.name for each in check.models[:10])}."
        if check.provider == OLLAMA:
            yield f"`ollama pull {model}` fetches it."


def _about_answers(check: "ProviderCheck") -> Iterator[str]:
    abilities = check.abilities
    if abilities is None:
        yield "It gives no answers: use it for knowledge bases only (`kb kb create --model`)."
        return
    if not abilities.calls_tools:
        how = {
            OLLAMA: "; models that can are at https://ollama.com/search?c=tools",
            VLLM: "; vLLM needs --enable-auto-tool-choice and the --tool-call-parser of the model",
        }.get(check.provider, "")
        yield f"It calls no tools, so a run searches once, with the question, before the model answers{how}."
    if not abilities.streams:
        yield "It does not stream, so an answer appears when it is complete."
    if not abilities.follows_schema:
        yield "It follows no JSON schema: answers are not affected, but it can't turn texts into entries (check-ins)."
    context = abilities.max_input_tokens
    if context is not None and context < _ROOM:
        how = (
            f"Ollama cuts the beginning off without a word: set OLLAMA_CONTEXT_LENGTH={_USUAL_CONTEXT} where it runs, "
            "and start it again"
            if check.provider == OLLAMA
            else "what is longer is refused: start the server with more (of vLLM, --max-model-len)"
        )
        yield f"It reads {context} tokens, and a question with passages and its answer may need {_ROOM}. {how}."


def _about_vectors(check: "ProviderCheck") -> Iterator[str]:
    embeddings = check.embeddings
    if embeddings is None:
        yield "It gives no vectors, so knowledge bases need another model for their embeddings."
        return
    limit = embeddings.max_input_tokens
    if check.abilities is None and limit is not None and limit < _LARGEST_CHUNK + _HEADING_TOKENS:
        size = max(limit - _HEADING_TOKENS, 16)
        yield f"It reads {limit} tokens of a text: create knowledge bases with --chunk-size {size} or less."
