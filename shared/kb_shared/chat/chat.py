"""Calls chat models for organizations: with their key, within limits and budget, not during an outage."""

import asyncio
import os
from datetime import timedelta
from typing import Final

from kb_shared.chat.charging import CallCost, ChatCharging
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue, ChatModel
from kb_shared.chat.provider import ChatProvider, OnText, broken_off, bundled_chat_models, estimate_message_tokens
from kb_shared.embedding.bootstrap import create_key_ring
from kb_shared.errors import AnswerWithheld, ProviderUnavailable
from kb_shared.metering.budget import Spending
from kb_shared.mongo.database import Database
from kb_shared.providers.circuit_breaker import CircuitBreaker
from kb_shared.providers.organization_keys import OrganizationKeys, check_default_model
from kb_shared.providers.provider_guard import GuardedModel, ProviderGuard, guarded_model
from kb_shared.providers.rate_limiter import RateLimiter
from kb_shared.settings import ChatSettings

_CIRCUITS: Final = "chat/"
"""Prefix of the model's name in circuits: an outage of its embeddings says nothing about its chat."""
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
        charging: ChatCharging,
        guard: ProviderGuard,
        timeout_s: float,
    ) -> None:
        """Construct it.

        Args:
            catalogue: the models by name.
            keys: of organizations.
            provider: asked.
            charging: keeps organizations within their budgets, and charges them.
            guard: circuits, limits and retries of calls.
            timeout_s: of one call.
        """
        self.catalogue = catalogue
        self._keys = keys
        self._provider = provider
        self._charging = charging
        self._guard = guard
        self._timeout_s = timeout_s

    async def model(self, organization_id: str, name: str) -> ChatModel:
        """Return the model as `organization_id` reaches it.

        Raises:
            ModelNotAllowed: organizations may not use it here.
            UnknownModel: nothing is called so.
            ProviderKeyMissing: there is no key of its provider, or it can't be read.
            UnknownPrice: the organization has a budget in money, and the price of the model is not known.
        """
        reached = await self._keys.reach(organization_id, name, self.catalogue)
        model = self.catalogue.get(name, reached.access, provider=reached.provider)
        await self._charging.check_price(organization_id, model)
        return model

    async def complete(
        self,
        organization_id: str,
        request: CompletionRequest,
        *,
        model: ChatModel,
        on_text: OnText | None = None,
    ) -> Completion:
        """Ask a model, and repeat for some seconds while the provider is unavailable and no text of an answer has come.

        Args:
            organization_id: whose limits and circuit count.
            request: what is asked.
            model: of this organization.
            on_text: told each piece of the text as it comes.

        Raises:
            ProviderUnavailable: after some seconds of trying again, or in the middle of an answer.
            ProviderRefused: trying again changes nothing.
            BudgetExhausted: the dearest answer that the request allows has no room this month.
            UnknownPrice: as `model`.
            Parked: a limit is used up for longer than the guard waits, or the provider is known to be out.
        """
        heard = _HeardText(on_text)
        return await self._guard.retry(
            lambda is_counted: self._ask_once(
                organization_id, request, model=model, heard=heard, is_counted=is_counted
            ),
            model=model.label,
            may_repeat=lambda _: not heard.has_text,
        )

    async def close(self) -> None:
        await self._guard.wait_for_returns()
        await self._charging.close()
        await self._provider.close()

    async def _ask_once(
        self,
        organization_id: str,
        request: CompletionRequest,
        *,
        model: ChatModel,
        heard: "_HeardText",
        is_counted: bool,
    ) -> Completion:
        async with (
            self._charging.charge_call(organization_id, request, model) as cost,
            self._guard.admit(_guarded(organization_id, model), is_counted=is_counted) as call,
        ):
            await call.reserve_tokens(estimate_message_tokens(request.messages))
            return await self._complete(request, model, heard=heard, cost=cost)

    async def _complete(
        self, request: CompletionRequest, model: ChatModel, *, heard: "_HeardText", cost: CallCost
    ) -> Completion:
        try:
            completion = await self._provider.complete(
                request, model=model, timeout_s=self._timeout_s, on_text=heard.listener
            )
        except BaseException as error:
            # Also when the caller is gone.
            if heard.has_text or was_paid_for(error):
                cost.record(broken_off(heard.text, request, model), model=model)
            raise
        cost.record(completion, model=model)
        return completion


def _guarded(organization_id: str, model: ChatModel) -> GuardedModel:
    name = _CIRCUITS + model.name
    return guarded_model(organization_id, model.fingerprint, access=model.access, circuit_name=name, bucket_name=name)


def was_paid_for(error: BaseException) -> bool:
    """Return whether the provider charges for a call that ended with `error`: the model may have worked on it."""
    match error:
        case asyncio.CancelledError():
            return True
        case AnswerWithheld():
            return True
        case ProviderUnavailable():
            return error.error_type in _AFTER_WORK
        case _:
            return False


class _HeardText:
    """Text of an answer that was passed on to the caller. Once there is any, the call can't be repeated."""

    def __init__(self, on_text: OnText | None) -> None:
        self._pieces: list[str] = []
        self._on_text = on_text
        self.listener = self._listen if on_text is not None else None

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    async def _listen(self, text: str) -> None:
        assert self._on_text is not None
        self._pieces.append(text)
        await self._on_text(text)


def create_chat(database: Database, settings: ChatSettings) -> Chat:
    """Construct it; close it when the service stops. Raises UnusableKeyRing, Misconfigured."""
    catalogue = ChatCatalogue(
        bundled_chat_models(),
        local_models_api_base=settings.local_models_api_base,
        environment=os.environ,
        allowed=settings.chat_models,
        prices=settings.prices,
    )
    check_default_model("KB_CHAT_MODEL", settings.chat_model, catalogue)
    return Chat(
        catalogue,
        OrganizationKeys(database, create_key_ring(settings)),
        ChatProvider(private_addresses=settings.allow_private_addresses),
        charging=ChatCharging(database, Spending(database)),
        guard=ProviderGuard(
            CircuitBreaker(
                database, probe_lifetime=timedelta(seconds=2 * max(settings.chat_timeout_s, settings.chat_patience_s))
            ),
            RateLimiter(database),
            patience_s=settings.chat_patience_s,
        ),
        timeout_s=settings.chat_timeout_s,
    )
