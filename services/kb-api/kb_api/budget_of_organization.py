"""An organization's budget: its limits, and what of it is spent."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from kb_api.services import Services
from kb_shared.http.authentication import Caller
from kb_shared.mongo import budgets, index_jobs, spu_ledger
from kb_shared.mongo.budgets import Limits, MonthlyBudget
from kb_shared.mongo.spu_ledger import Spent

BudgetStatus = Literal["ok", "soft_exceeded", "exhausted"]


@dataclass(frozen=True, slots=True)
class BudgetState:
    limits: Limits
    used: Spent
    """By the ledger."""
    reserved: Spent
    """Amount that running work may still use."""
    month: str
    status: BudgetStatus


async def change_budget(api: Services, caller: Caller, limits: Limits) -> BudgetState:
    """Set all limits; documents that waited for room, or for a price, are tried at once."""
    await budgets.set_limits(api.database, caller.organization_id, limits)
    for error_type in ("budget_exhausted", "unknown_price"):
        await index_jobs.make_due(api.database, caller.organization_id, error_type=error_type)
    return await budget_of(api, caller)


async def budget_of(api: Services, caller: Caller) -> BudgetState:
    """The budget and what is spent of it this month; without limits where none were set."""
    budget = await budgets.find(api.database, caller.organization_id)
    used = await spu_ledger.spent_this_month(api.database, caller.organization_id)
    if budget is None:
        return BudgetState(Limits(), used, Spent(), datetime.now(UTC).strftime("%Y-%m"), "ok")
    reserved = Spent(budget.reserved, budget.reserved_nano_usd)
    return BudgetState(budget.limits, used, reserved, budget.month, _status(budget, used))


def _status(budget: MonthlyBudget, used: Spent) -> BudgetStatus:
    limits = budget.limits
    if _reached(used.spus, limits.hard) or _reached(used.nano_usd, limits.hard_nano_usd):
        return "exhausted"
    if _reached(used.spus, limits.soft) or _reached(used.nano_usd, limits.soft_nano_usd):
        return "soft_exceeded"
    return "ok"


def _reached(used: int, limit: int | None) -> bool:
    return limit is not None and used >= limit
