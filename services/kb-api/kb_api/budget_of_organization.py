"""An organization's budget: its limits, and what of it is spent."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from kb_api.services import Services
from kb_shared.http.authentication import Caller
from kb_shared.mongo import budgets, index_jobs, spu_ledger
from kb_shared.mongo.budgets import Budget

BudgetStatus = Literal["ok", "soft_exceeded", "exhausted"]


@dataclass(frozen=True, slots=True)
class BudgetState:
    """In SPUs; `used` is by the ledger."""

    soft: int | None
    hard: int | None
    used: int
    reserved: int
    month: str
    status: BudgetStatus


async def change_budget(api: Services, caller: Caller, *, soft: int | None, hard: int | None) -> BudgetState:
    """Set both limits; documents that waited for room are tried at once."""
    await budgets.set_limits(api.database, caller.organization_id, soft=soft, hard=hard)
    await index_jobs.make_due(api.database, caller.organization_id, error_type="budget_exhausted")
    return await budget_of(api, caller)


async def budget_of(api: Services, caller: Caller) -> BudgetState:
    """The budget and what is spent of it this month; without limits where none were set."""
    budget = await budgets.find(api.database, caller.organization_id)
    used = await spu_ledger.total(api.database, caller.organization_id, this_month=True)
    if budget is None:
        return BudgetState(None, None, used, 0, datetime.now(UTC).strftime("%Y-%m"), "ok")
    return BudgetState(budget.soft, budget.hard, used, budget.reserved, budget.month, _status(budget, used))


def _status(budget: Budget, used: int) -> BudgetStatus:
    if budget.hard is not None and used >= budget.hard:
        return "exhausted"
    return "soft_exceeded" if budget.soft is not None and used >= budget.soft else "ok"
