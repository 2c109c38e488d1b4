"""Charges calls of chat models: reserves the price of the dearest answer before a call, then charges the real one."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatModel
from kb_shared.chat.provider import estimate_message_tokens
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.errors import TransientError
from kb_shared.metering.budget import Spending
from kb_shared.mongo import spu_ledger
from kb_shared.mongo.budgets import BudgetReservation
from kb_shared.mongo.database import Database
from kb_shared.mongo.spu_ledger import Charge

_LONGEST_ANSWER_TOKENS: Final = 100_000
"""Number of tokens that is reserved where neither the request nor the model says how long an answer may be."""

log = structlog.get_logger()


class CallCost:
    """Cost of one call, 0 until it is known."""

    def __init__(self) -> None:
        self.nano_usd = 0

    def record(self, completion: Completion, *, model: ChatModel) -> None:
        """Note what the call has cost."""
        self.nano_usd = model.nano_usd(completion.prompt_tokens, completion.completion_tokens) or 0


class ChatCharging:
    """Keeps organizations within their budgets in money."""

    def __init__(self, database: Database, spending: Spending) -> None:
        self._database = database
        self._spending = spending
        self._charging: set[asyncio.Task[None]] = set()

    async def check_price(self, organization_id: str, model: ChatModel) -> None:
        """Raise UnknownPrice if the organization has a budget in money and the price of the model is not known."""
        await self._spending.check_price(organization_id, known=model.nano_usd(0, 0) is not None)

    @asynccontextmanager
    async def charge_call(
        self, organization_id: str, request: CompletionRequest, model: ChatModel
    ) -> AsyncIterator[CallCost]:
        """Make one call in the block: money is reserved before it, and the cost that it records is charged after it.

        A crash in between charges nothing and leaves the reservation to lapse, which counts as spent until the next
        recount.

        Raises:
            BudgetExhausted: there is no room for the dearest answer that the request allows.
            UnknownPrice: see `check_price`.
        """
        dearest = model.nano_usd(*_most_tokens(request, model))
        reservation = await self._spending.reserve(organization_id, 0, nano_usd=dearest)
        cost = CallCost()
        try:
            yield cost
        finally:
            # Also when the caller is gone, and its task with it.
            await asyncio.shield(self._run_in_background(self._charge(reservation, model, cost)))

    async def close(self) -> None:
        """Wait until all calls that ended are charged."""
        await run_all(self._charging)

    async def _charge(self, reservation: BudgetReservation, model: ChatModel, cost: CallCost) -> None:
        organization_id = reservation.organization_id
        charge = Charge(str(uuid4()), organization_id, None, "chat", model.name, 0, cost.nano_usd)
        try:
            # The ledger first: after a crash the reservation lapses, and a recount finds the charge.
            if cost.nano_usd:
                await spu_ledger.charge(self._database, None, [charge])
            await self._spending.settle_reservation(reservation, used=0, used_nano_usd=cost.nano_usd)
        except (PyMongoError, TransientError) as error:
            # The answer is paid for, so the caller gets it; the reservation counts as spent in ten minutes.
            log.warning("chat.charge_failed", organization_id=organization_id, error=type(error).__name__)

    def _run_in_background(self, charging: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(charging)
        self._charging.add(task)
        task.add_done_callback(self._charging.discard)
        return task


def _most_tokens(request: CompletionRequest, model: ChatModel) -> tuple[int, int]:
    """Return the tokens of the prompt, estimated, and of the longest answer."""
    limits = [limit for limit in (request.max_completion_tokens, model.max_output_tokens) if limit is not None]
    prompt_tokens = estimate_message_tokens([*request.messages, *request.tools, request.schema or {}])
    return prompt_tokens, min(limits, default=_LONGEST_ANSWER_TOKENS)
