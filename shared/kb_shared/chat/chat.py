"""The only way to a chat model: with the organization's key, within its limits and its budget, not during an outage."""

import asyncio
import os
from datetime import timedelta
from typing import Final

import stamina

from kb_shared.chat.completion import Completion, Question
from kb_shared.chat.models import ChatCatalogue, ChatModel
from kb_shared.chat.provider import ChatProvider, OnText, broken_off, bundled_chat_models, estimated_tokens
from kb_shared.chat.purse import Payment, Purse
from kb_shared.embedding.bootstrap import create_key_ring
from kb_shared.errors import ProviderUnavailable
from kb_shared.metering.budget import Spending
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.providers.circuit_breaker import CircuitBreaker
from kb_shared.providers.organization_keys import OrganizationKeys
from kb_shared.providers.rate_limiter import RateLimiter
from kb_shared.providers.retry_policy import RetryPolicy
from kb_shared.settings import ChatSettings

_CIRCUITS: Final = "chat/"
"""Before the model's name: an outage of its embeddings says nothing about its chat."""
_AFTER_WORK: Final = frozenset({"provider_timeout", "bad_answer"})
"""Errors of a provider that has read the prompt."""


class Chat:
    """Asks chat models for all organizations."""

    def __init__(
        self,
        catalogue: ChatCatalogue,
        keys: OrganizationKeys,
        provider: ChatProvider,
        *,
        purse: Purse,
        circuits: CircuitBreaker,
        limiter: RateLimiter,
        patience_s: float,
        timeout_s: float,
    ) -> None:
        """Wire it.

        Args:
            catalogue: the models by name.
            keys: of organizations.
            provider: asked.
            purse: keeps organizations within their budgets, and charges them.
            circuits: keep an organization away from a provider that is out for it.
            limiter: keeps all replicas within the limits of a model.
            patience_s: for how long a call is tried again in place while its provider is unavailable.
            timeout_s: of one call.
        """
        self.catalogue = catalogue
        self._keys = keys
        self._provider = provider
        self._purse = purse
        self._circuits = circuits
        self._limiter = limiter
        self._patience_s = patience_s
        self._timeout_s = timeout_s

    async def model(self, organization_id: str, name: str) -> ChatModel:
        """Return the model as `organization_id` reaches it.

        Raises:
            ModelNotAllowed: organizations may not use it here.
            UnknownModel: nothing is called so.
            ProviderKeyMissing: there is no key of its provider, or it can't be read.
            UnknownPrice: the organization has a budget in money, and nobody knows what the model costs.
        """
        provider = self.catalogue.provider_of(name)
        access = None if provider is None else await self._keys.find(organization_id, provider)
        model = self.catalogue.get(name, access)
        await self._purse.check_price(organization_id, model)
        return model

    async def complete(
        self,
        organization_id: str,
        question: Question,
        *,
        model: ChatModel,
        on_text: OnText | None = None,
    ) -> Completion:
        """Ask, and for some seconds again while the provider is unavailable and nothing was heard of an answer.

        Args:
            organization_id: whose limits and circuit count.
            question: what is asked.
            model: of this organization.
            on_text: told each piece of the text as it comes.

        Raises:
            ProviderUnavailable: after some seconds of trying again, or in the middle of an answer.
            ProviderRefused: trying again changes nothing.
            BudgetExhausted: the dearest answer that the question allows has no room this month.
            UnknownPrice: as `model`.
            Parked: a limit is used up for longer than the patience, or the provider is known to be out.
        """
        heard = _Heard(on_text)
        retry_policy = RetryPolicy(self._patience_s)

        def again(error: Exception) -> bool | float:
            return False if heard.anything else retry_policy.decide(error)

        async for attempt in stamina.retry_context(
            on=again, attempts=None, timeout=self._patience_s, wait_max=4.0, wait_jitter=0.5
        ):
            with attempt:
                return await self._ask_once(organization_id, question, model, heard)
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        await self._limiter.settle()
        await self._purse.close()
        await self._provider.close()

    async def _ask_once(
        self, organization_id: str, question: Question, model: ChatModel, heard: "_Heard"
    ) -> Completion:
        access = model.access
        bucket = Bucket.of_model(
            organization_id,
            _CIRCUITS + model.name,
            requests_per_minute=access.requests_per_minute if access else None,
            tokens_per_minute=access.tokens_per_minute if access else None,
        )
        try:
            async with (
                self._purse.opened(organization_id, question, model) as paying,
                self._circuits.guard(CircuitId(organization_id, model.fingerprint, _CIRCUITS + model.name)),
            ):
                await self._limiter.reserve(
                    bucket, tokens=estimated_tokens(question.messages), patience_s=self._timeout_s
                )
                return await self._complete(question, model, heard, paying)
        except ProviderUnavailable as error:
            if error.error_type == "provider_429" and error.retry_after_s:
                # For every replica: the next one to ask would only be told the same.
                await self._limiter.close(bucket, error.retry_after_s)
            raise

    async def _complete(self, question: Question, model: ChatModel, heard: "_Heard", paying: Payment) -> Completion:
        try:
            completion = await self._provider.complete(
                question, model=model, timeout_s=self._timeout_s, on_text=heard.listener
            )
        except BaseException as error:
            # A caller who left ends it, too.
            if heard.anything or was_paid_for(error):
                paying.owe(broken_off(heard.text, question, model), model=model)
            raise
        paying.owe(completion, model=model)
        return completion


def was_paid_for(error: BaseException) -> bool:
    """Return whether a model was working when the call was abandoned, for an unknown time."""
    match error:
        case asyncio.CancelledError():
            return True
        case ProviderUnavailable():
            return error.error_type in _AFTER_WORK
        case _:
            return False


class _Heard:
    """Part of an answer that was passed on: if there is any, the call can't be repeated."""

    def __init__(self, on_text: OnText | None) -> None:
        self._pieces: list[str] = []
        self._on_text = on_text
        self.listener = self._listen if on_text is not None else None

    @property
    def anything(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    async def _listen(self, text: str) -> None:
        assert self._on_text is not None
        self._pieces.append(text)
        await self._on_text(text)


def create_chat(database: Database, settings: ChatSettings) -> Chat:
    """Wire it; close it when the service stops. Raises UnusableKeyRing."""
    return Chat(
        ChatCatalogue(
            bundled_chat_models(),
            local_models_api_base=settings.local_models_api_base,
            environment=os.environ,
            allowed=settings.chat_models,
            prices=settings.prices,
        ),
        OrganizationKeys(database, create_key_ring(settings)),
        ChatProvider(private_addresses=settings.allow_private_providers),
        purse=Purse(database, Spending(database)),
        circuits=CircuitBreaker(database, probe_lifetime=timedelta(seconds=2 * settings.chat_timeout_s)),
        limiter=RateLimiter(database),
        patience_s=settings.chat_patience_s,
        timeout_s=settings.chat_timeout_s,
    )
