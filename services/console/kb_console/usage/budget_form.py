"""The form of a budget: limits as they were typed, and as the API takes them."""

from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData

from kb_console.typed_numbers import TypedNumbers
from kb_contracts.api.budgets import BudgetView


@dataclass(frozen=True, slots=True)
class BudgetForm:
    soft: str = ""
    """Empty: no limit, as below."""
    hard: str = ""
    soft_usd: str = ""
    hard_usd: str = ""
    confirmed: str = ""
    """Not empty: a limit that stops work at once is wanted."""

    @classmethod
    def from_budget(cls, budget: BudgetView) -> "BudgetForm":
        """Return the form with the present limits."""
        present = (budget.soft, budget.hard, budget.soft_usd, budget.hard_usd)
        return cls(*("" if limit is None else f"{limit:.12g}" for limit in present))

    @classmethod
    def from_form(cls, form: FormData) -> "BudgetForm":
        """Return what was typed."""
        return cls(**{name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__})

    def limits(self) -> dict[str, Any]:
        """Return the arguments of the call that sets the budget.

        Raises:
            UnusableForm: a limit is no number.
        """
        numbers = TypedNumbers()
        limits = {
            "soft": numbers.read("soft", self.soft, int),
            "hard": numbers.read("hard", self.hard, int),
            "soft_usd": numbers.read("soft_usd", self.soft_usd, float),
            "hard_usd": numbers.read("hard_usd", self.hard_usd, float),
        }
        numbers.check()
        return limits

    def stops_work(self, budget: BudgetView) -> bool:
        """Say whether a hard limit is used up already, so that nothing more is embedded in this month."""
        limits = self.limits()
        used = {"hard": budget.used, "hard_usd": budget.used_usd}
        return any(limits[name] is not None and limits[name] <= amount for name, amount in used.items())
