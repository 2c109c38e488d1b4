"""Finds out whether a provider answers an organization, with one call that costs a few tokens.

A chat model that answers is called twice more, to see what it can do. The provider bills the tokens to whose key it is.
"""

from dataclasses import replace

from kb_api.called_models import TEXT, ProviderCheck, check_chat, describe_vector, measure
from kb_api.check_advice import advise_about_answers
from kb_api.check_server import ServerChecks
from kb_shared.chat.models import ChatCatalogue, ChatModel
from kb_shared.chat.provider import ChatProvider
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import NotFound, RequestError
from kb_shared.providers.known_providers import LOCAL, PROVIDERS
from kb_shared.providers.openai_server import OpenAIServers
from kb_shared.providers.organization_keys import ListedModels


class ProviderChecks:
    """Checks providers. One for a process."""

    def __init__(
        self,
        embedder: Embedder,
        chat_models: ChatCatalogue,
        chat: ChatProvider,
        *,
        servers: OpenAIServers,
        default_model: str,
    ) -> None:
        """Construct it; `default_model` is used for its provider if the caller names no model."""
        self._embedder = embedder
        self._chat_models = chat_models
        self._chat = chat
        self._of_servers = ServerChecks(embedder, chat_models, chat, servers=servers)
        self._default_model = default_model

    async def check(self, organization_id: str, provider: str, *, model: str | None) -> ProviderCheck:
        """Call `model`, or the cheapest embedding model of the provider, or else its cheapest chat model.

        Of a server of one's own, list the models and call one that it lists, for an answer and for a vector.

        Raises:
            NotFound: no provider is called so.
            RequestError: 422 `unknown-model`: it has no such model.
        """
        if provider not in PROVIDERS and provider != LOCAL:
            raise NotFound("LLM provider")
        if (access := await self._of_servers.find_access(organization_id, provider)) is not None:
            return await self._of_servers.check(organization_id, provider, access, wanted=model)
        name = model or self._choose(provider)
        if self._is_embedding_model(name, provider):
            call = self._embedder.ask_unguarded(organization_id, name, TEXT)
            checked, vector = await measure(call, provider=provider, model=name)
            return checked if vector is None else replace(checked, embeddings=describe_vector(vector, None))
        if self._is_chat_model(name, provider):
            reached = self._find_chat_model(organization_id, name)
            checked, chat_model = await measure(reached, provider=provider, model=name)
            if chat_model is None:
                return checked
            answered = await check_chat(self._chat, chat_model, provider=provider)
            return replace(answered, advice=advise_about_answers(answered))
        raise _unknown_model(provider)

    async def close(self) -> None:
        await self._chat.close()
        await self._of_servers.close()

    def _choose(self, provider: str) -> str:
        if self._is_embedding_model(self._default_model, provider):
            return self._default_model
        catalogue = self._embedder.models.catalogue
        chosen = catalogue.cheapest_of(provider) or self._chat_models.cheapest_of(provider)
        if chosen is None:
            raise _unknown_model(provider)
        return chosen

    def _is_embedding_model(self, name: str, provider: str) -> bool:
        return _has(self._embedder.models.catalogue, provider, name)

    def _is_chat_model(self, name: str, provider: str) -> bool:
        return _has(self._chat_models, provider, name)

    async def _find_chat_model(self, organization_id: str, name: str) -> ChatModel:
        reached = await self._embedder.models.keys.reach(organization_id, name, self._chat_models)
        return self._chat_models.get(name, reached.access, provider=reached.provider)


def _has(catalogue: ListedModels, provider: str, name: str) -> bool:
    return catalogue.find_provider(name) == provider and (provider == LOCAL or catalogue.is_listed(provider, name))


def _unknown_model(provider: str) -> RequestError:
    return RequestError(
        422, "unknown-model", f"{provider} has no such model here; GET /embedding-models and /chat-models list models."
    )
