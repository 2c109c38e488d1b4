from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.budgets import BudgetView


class AsyncBudget(AsyncResource):
    """Limits of what the organization spends in a month."""

    @operation
    def get(self) -> ApiCall[BudgetView]:
        """Return the budget, and how much of it is used."""
        return ApiCall("GET", "/budget", BudgetView)

    @operation
    def put(
        self,
        *,
        soft: int | None,
        hard: int | None,
        soft_usd: float | Unset | None = UNSET,
        hard_usd: float | Unset | None = UNSET,
    ) -> ApiCall[BudgetView]:
        """Replace the limits, in SPUs and US dollars. None is no limit."""
        return ApiCall(
            "PUT",
            "/budget",
            BudgetView,
            body=without_unset({"soft": soft, "hard": hard, "soft_usd": soft_usd, "hard_usd": hard_usd}),
        )
