"""Usage as a table of days and groups, which is also drawn."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, Literal

from kb_contracts.api.budgets import BudgetView
from kb_contracts.api.usage import UsageRow

Grouping = Literal["operation", "kb", "model"]
UsageUnit = Literal["usd", "spus"]
OPERATIONS: Final[Mapping[str, str]] = {"index": "indexing", "search": "searches", "chat": "chat"}
MOST_GROUPS: Final = 5
OTHERS: Final = "others"
_SHORTEST_SHARE: Final = 1 / 31
"""Share of a month that has to be over before it says something about the rest."""


@dataclass(frozen=True, slots=True)
class DailyTable:
    groups: tuple[str, ...]
    days: Mapping[date, tuple[float, ...]]
    """Amount of each group, by day."""


def name_group(row: UsageRow, by: Grouping) -> str:
    """Return the name of the group that a row is of."""
    if by == "operation":
        return OPERATIONS.get(row.operation or "", row.operation or "unknown")
    if by == "model":
        return row.model or "without a model"
    if row.kb_id is None:
        return "without a knowledge base"
    return row.kb_name or f"deleted ({row.kb_id})"


def daily_table(rows: Sequence[UsageRow], days: Sequence[date], *, by: Grouping, unit: UsageUnit) -> DailyTable:
    """Return the amounts of the greatest groups, and of all others together, on each day."""
    amounts: dict[str, dict[date, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        if row.day is not None:
            amounts[name_group(row, by)][row.day] += row.usd if unit == "usd" else row.spus
    greatest_first = sorted(amounts, key=lambda group: (-sum(amounts[group].values()), group))
    shown, rest = greatest_first[:MOST_GROUPS], greatest_first[MOST_GROUPS:]
    for group in rest:
        for day, amount in amounts[group].items():
            amounts[OTHERS][day] += amount
    groups = (*shown, *([OTHERS] if rest else []))
    return DailyTable(groups, {day: tuple(amounts[group].get(day, 0.0) for group in groups) for day in days})


def share_of_month(budget: BudgetView, now: datetime) -> float:
    """Return how much of the budget's month is over, from 0 to 1."""
    begun = datetime.strptime(budget.month, "%Y-%m").replace(tzinfo=UTC)
    return min(1.0, max(0.0, (now - begun) / (budget.resets_at - begun)))


def forecast(used: float, share: float) -> float | None:
    """Return what a month will have used at its pace so far; None in its first day."""
    return used / share if share >= _SHORTEST_SHARE else None
