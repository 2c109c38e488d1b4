"""The budget of an organization: limits of a calendar month (UTC)."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, model_validator

from kb_contracts.api.model import StrictModel, example
from kb_contracts.reasons.field_reasons import wrong_field

MAX_SPUS: Final = 10**15
MAX_USD: Final = 10**9

BudgetStatus = Literal["ok", "soft_exceeded", "exhausted"]
Spus = Annotated[int, Field(ge=0, le=MAX_SPUS)]
Usd = Annotated[float, Field(ge=0, le=MAX_USD, allow_inf_nan=False)]


class PutBudget(StrictModel):
    """Limits in SPUs and in US dollars, which apply together: the first one reached counts."""

    model_config = example({"soft": 80000, "hard": 100000, "soft_usd": None, "hard_usd": 25.0})

    soft: Spus | None = Field(
        description="SPUs a month from which `GET /budget` warns and `budget.soft_exceeded.v1` is published. null: no "
        "warning."
    )
    hard: Spus | None = Field(description="SPUs a month beyond which nothing is embedded. null: no limit.")
    soft_usd: Usd | None = Field(default=None, description="Like `soft`, in US dollars.")
    hard_usd: Usd | None = Field(
        default=None,
        description="US dollars a month beyond which nothing is embedded and no chat model is called. null: no "
        "limit. With a limit in US dollars, a model without a known price is refused with 422 `unknown-price`.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "PutBudget":
        if self.soft is not None and self.hard is not None and self.soft > self.hard:
            raise wrong_field("soft", message="must not be greater than hard")
        if self.soft_usd is not None and self.hard_usd is not None and self.soft_usd > self.hard_usd:
            raise wrong_field("soft_usd", message="must not be greater than hard_usd")
        return self


class BudgetView(BaseModel):
    model_config = example(
        {
            "soft": 80000,
            "hard": 100000,
            "soft_usd": None,
            "hard_usd": 25.0,
            "month": "2026-01",
            "used": 1250,
            "reserved": 0,
            "used_usd": 0.0131,
            "reserved_usd": 0.0,
            "status": "ok",
            "resets_at": "2026-02-01T00:00:00Z",
        }
    )

    soft: int | None = Field(description="SPUs a month from which there is a warning. null: no warning.")
    hard: int | None = Field(description="SPUs a month beyond which nothing is embedded. null: no limit.")
    soft_usd: float | None = Field(description="US dollars a month from which there is a warning. null: no warning.")
    hard_usd: float | None = Field(description="US dollars a month beyond which no provider is called. null: no limit.")
    month: str = Field(description="Calendar month in UTC, such as `2026-01`.")
    used: int = Field(description="SPUs charged in this month.")
    reserved: int = Field(description="SPUs that running work may still use.")
    used_usd: float = Field(description="US dollars charged in this month.")
    reserved_usd: float = Field(description="US dollars that running work may still use.")
    status: BudgetStatus = Field(description="`soft_exceeded` from a soft limit on, `exhausted` from a hard limit on.")
    resets_at: datetime = Field(description="Beginning of the next month in UTC.")
