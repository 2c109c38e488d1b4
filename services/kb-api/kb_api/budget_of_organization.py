"""The budget of an organization: its limits, and how much of it is spent."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kb_contracts.api.budgets import BudgetStatus
from kb_shared.mongo import budgets, index_jobs, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits, MonthlyBudget
from kb_shared.mongo.database import Database
from kb_shared.mongo.spu_ledger import Spent


@dataclass(frozen=True, slots=True)
class BudgetState:
    limits: BudgetLimits
    used: Spent
    """Amount charged, according to the ledger."""
    reserved: Spent
    """Amount that running work may still use."""
    month: str
    status: BudgetStatus


async def change_budget(database: Database, organization_id: str, *, limits: BudgetLimits) -> BudgetState:
    """Set all limits, and retry the documents that waited for a higher limit or for a price."""
    await budgets.set_limits(database, organization_id, limits)
    for error_type in ("budget_exhausted", "unknown_price"):
        await index_jobs.make_due(database, organization_id, error_type=error_type)
    return await load_budget(database, organization_id)


async def load_budget(database: Database, organization_id: str) -> BudgetState:
    """Read the limits of the organization (none by default) and what it has spent this month."""
    budget = await budgets.find(database, organization_id)
    used = await spu_ledger.sum_this_month(database, organization_id)
    if budget is None:
        return BudgetState(BudgetLimits(), used, Spent(), datetime.now(UTC).strftime("%Y-%m"), "ok")
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
