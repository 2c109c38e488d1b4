"""Finds out what a server of one's own has, and what one of its models can do."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from kb_api.called_models import TEXT, WITHIN_S, ProviderCheck, check_chat, describe_vector, measure
from kb_api.check_advice import advise, advise_unreachable
from kb_api.server_models import (
    AskedServer,
    choose_model,
    find_context_of_prompts,
    find_context_of_texts,
    find_served,
    list_models,
)
from kb_contracts.api.llm_providers import ServedModel
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import ProviderKeyMissing
from kb_shared.providers.access import Access
from kb_shared.providers.capped_answers import AnswerTooLarge
from kb_shared.providers.known_providers import OWN_SERVERS, PROVIDERS, name_at_server, provider_of_prefix
from kb_shared.providers.openai_server import (
    CALL_ERRORS,
    OpenAIServers,
    ServerAddress,
    UnreadableAnswer,
    failure_of_call,
)
from kb_shared.providers.provider_errors import bad_answer, classified

SERVER_WITHIN_S: Final = 120.0
"""The same of a server of one's own: it may have to load some gigabytes of a model first."""
_NOT_THERE: Final = frozenset({"provider_timeout", "provider_5xx", "provider_auth"})
"""Errors of a list after which a model need not be tried: a server may have no list, and answer all the same."""


class ServerChecks:
    """Checks servers. One for a process."""

    def __init__(
        self, embedder: Embedder, chat_models: ChatCatalogue, chat: ChatProvider, *, servers: OpenAIServers
    ) -> None:
        self._embedder = embedder
        self._chat_models = chat_models
        self._chat = chat
        self._servers = servers

    async def find_access(self, organization_id: str, provider: str) -> Access | None:
        """Return how a server of one's own is reached; None if the provider is none."""
        if provider not in OWN_SERVERS:
            return None
        try:
            own = await self._embedder.models.keys.find(organization_id, provider)
            access = own or self._chat_models.environment_access(provider)
        except ProviderKeyMissing:
            return None
        return access if access.api_base is not None else None

    async def close(self) -> None:
        await self._servers.close()

    async def check(self, organization_id: str, provider: str, access: Access, *, wanted: str | None) -> ProviderCheck:
        """List the models of a server, and call `wanted`, or one that it lists, for an answer and for a vector."""
        assert access.api_base is not None
        own = await self._embedder.models.keys.find(organization_id, provider)
        server = AskedServer(provider, ServerAddress(access.api_base, access.api_key, own is not None))
        listed = await self._list(server, wanted)
        name = wanted or choose_model(listed.models)
        if name is None or listed.error_type is not None:
            return listed
        if provider_of_prefix(name) != provider:
            name = f"{PROVIDERS[provider].prefixes[0]}/{name}"
        chat_model = self._chat_models.get(name, own, provider=provider)
        answered = await check_chat(self._chat, chat_model, provider=provider, within_s=SERVER_WITHIN_S)
        call = self._embedder.ask_unguarded(organization_id, name, TEXT)
        embedded, vector = await measure(call, provider=provider, model=name, within_s=SERVER_WITHIN_S)
        found = answered if answered.error_type is None or vector is None else embedded
        context = await self._contexts(server, name, listed.models)
        checked = replace(
            found,
            models=listed.models,
            abilities=answered.abilities and answered.abilities.model_copy(update={"max_input_tokens": context[0]}),
            embeddings=None if vector is None else describe_vector(vector, context[1]),
        )
        return replace(checked, advice=advise(checked, name_at_server(name)))

    async def _contexts(
        self, server: AskedServer, name: str, models: Sequence[ServedModel]
    ) -> tuple[int | None, int | None]:
        """Return the tokens that a model reads of a prompt, and of a text to embed; None if they are not known."""
        at_server = name_at_server(name)
        served = find_served(models, at_server)
        listed = None if served is None else served.max_input_tokens
        return (
            await find_context_of_prompts(self._servers, server, at_server) or listed,
            await find_context_of_texts(self._servers, server, at_server) or listed,
        )

    async def _list(self, server: AskedServer, wanted: str | None) -> ProviderCheck:
        """Return the list of a server. That a server has none is an error only if no model is wanted."""
        began, provider = perf_counter(), server.provider
        try:
            async with asyncio.timeout(WITHIN_S):
                models = await list_models(self._servers, server)
        except TimeoutError:
            outcome: tuple[str, str] = ("provider_timeout", f"the server did not answer within {WITHIN_S:g} s")
        except (UnreadableAnswer, AnswerTooLarge) as unusable:
            error = bad_answer(provider, str(unusable))
            outcome = (error.error_type, str(error))
        except CALL_ERRORS as failed:
            _, failure = classified(provider, failure_of_call(failed))
            outcome = (getattr(failure, "error_type", "provider_5xx"), str(failure))
        else:
            if models or wanted is not None:
                return ProviderCheck(provider, "", None, None, perf_counter() - began, models=models)
            outcome = ("no_models", "the server answers and lists no models")
        if wanted is not None and outcome[0] not in _NOT_THERE:
            return ProviderCheck(provider, "", None, None, perf_counter() - began)
        advice = advise_unreachable(outcome[0], provider, server.address.api_base)
        return ProviderCheck(provider, wanted or "", *outcome, perf_counter() - began, advice=advice)
