"""Routes of usage and budgets."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field, model_validator

from kb_api.budget_of_organization import BudgetState, BudgetStatus, change_budget, load_budget
from kb_api.dependencies import Admin, Database, Reader
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import StrictModel, Timestamp
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.metering.budget import end_of_month
from kb_shared.mongo import spu_ledger
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.spu_ledger import ChargedOperation, Dimension, Spent
from kb_shared.prices import NANO_USD

router = organization_router("usage")

MAX_RANGE: Final = timedelta(days=366)
MAX_SPUS: Final = 10**15
MAX_USD: Final = 10**9

_NAMES: Final[tuple[Dimension, ...]] = ("kb", "model", "operation", "day")
_ONE_NAME: Final = f"(?:{'|'.join(_NAMES)})"

Spus = Annotated[int, Field(ge=0, le=MAX_SPUS)]
Usd = Annotated[float, Field(ge=0, le=MAX_USD, allow_inf_nan=False)]


def _once_each(names: str) -> str:
    if len(set(names.split(","))) != len(names.split(",")):
        raise ValueError("give each name once")
    return names


GroupBy = Annotated[
    str,
    Query(
        pattern=f"^{_ONE_NAME}(?:,{_ONE_NAME})*$",
        description="One or more of `kb`, `model`, `operation`, `day`, separated by commas. Default: `kb`.",
    ),
    AfterValidator(_once_each),
]


class UsageRow(BaseModel):
    """Usage of one group.

    Dimensions by which it is not grouped are absent. `kb_id` is null for charges without a knowledge base.
    """

    kb_id: str | None = None
    model: str | None = None
    operation: ChargedOperation | None = Field(
        default=None, description="Purpose: `index`, `search`, or `chat` for calls of chat models."
    )
    day: date | None = Field(default=None, description="Day in UTC.")
    spus: int = Field(description="Number of SPUs: embeddings that were generated and stored.")
    usd: float = Field(
        description="Cost in US dollars by the prices of this deployment, without models whose price is not known."
    )


class Usage(BaseModel):
    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    usage: list[UsageRow] = Field(description="Charges of each group.")
    total_spus: int = Field(description="Sum over all groups.")
    total_usd: float = Field(description="Sum over all groups, in US dollars.")


@router.get("/usage", summary="Get usage", response_model=Usage, response_model_exclude_unset=True)
@open_to_limited_keys
async def get_usage(
    database: Database,
    caller: Reader,
    *,
    since: Annotated[
        Timestamp | None,
        Query(
            alias="from", description="Beginning of the time range, RFC 3339. Default: first day of the month of `to`."
        ),
    ] = None,
    until: Annotated[
        Timestamp | None, Query(alias="to", description="End of the time range, excluded. Default: now.")
    ] = None,
    group_by: GroupBy = "kb",
) -> Usage:
    """Return the charges of a time range: 1 SPU for each embedding that was generated and stored, and the cost.

    The operation `chat` stands for calls of chat models, which cost money and no SPUs.
    """
    until = until or datetime.now(UTC)
    since = since or until.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if since > until:
        raise invalid_field("from", "Input should not be later than `to`")
    if until - since > MAX_RANGE:
        raise invalid_field("from", f"Input should be at most {MAX_RANGE.days} days before `to`")
    by = [name for name in _NAMES if name in group_by.split(",")]
    charged = await spu_ledger.sum_usage(
        database, caller.organization_id, since=since, until=until, by=by, kb_ids=caller.kb_ids
    )
    return Usage(
        since=since,
        until=until,
        usage=[_row(values, spent) for values, spent in charged],
        total_spus=sum(spent.spus for _, spent in charged),
        total_usd=_usd(sum(spent.nano_usd for _, spent in charged)),
    )


def _row(values: Mapping[Dimension, str | None], spent: Spent) -> UsageRow:
    fields = {("kb_id" if name == "kb" else name): value for name, value in values.items()}
    return UsageRow.model_validate({**fields, "spus": spent.spus, "usd": _usd(spent.nano_usd)})


class PutBudget(StrictModel):
    """Limits in SPUs and in US dollars, which apply together: the first one reached counts."""

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
            raise ValueError("soft must not be greater than hard")
        if self.soft_usd is not None and self.hard_usd is not None and self.soft_usd > self.hard_usd:
            raise ValueError("soft_usd must not be greater than hard_usd")
        return self

    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.soft, self.hard, _nano_usd(self.soft_usd), _nano_usd(self.hard_usd))


class BudgetView(BaseModel):
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

    @classmethod
    def from_state(cls, state: BudgetState) -> "BudgetView":
        return cls(
            soft=state.limits.soft,
            hard=state.limits.hard,
            soft_usd=_usd_or_none(state.limits.soft_nano_usd),
            hard_usd=_usd_or_none(state.limits.hard_nano_usd),
            month=state.month,
            used=state.used.spus,
            reserved=state.reserved.spus,
            used_usd=_usd(state.used.nano_usd),
            reserved_usd=_usd(state.reserved.nano_usd),
            status=state.status,
            resets_at=end_of_month(state.month),
        )


@router.get("/budget", summary="Get the budget", response_model=BudgetView)
async def get_budget(database: Database, caller: Reader) -> BudgetView:
    """Return the limits and what was spent in this month."""
    return BudgetView.from_state(await load_budget(database, caller.organization_id))


@router.put("/budget", summary="Replace the budget", response_model=BudgetView)
async def put_budget(database: Database, caller: Admin, body: PutBudget) -> BudgetView:
    """Limit the spending of a calendar month (UTC), in SPUs and in US dollars. Replaces all limits.

    A document is embedded wholly or not at all. Documents that waited because of a hard limit are retried at once.
    """
    return BudgetView.from_state(await change_budget(database, caller.organization_id, limits=body.limits()))


def _usd(nano_usd: int) -> float:
    return nano_usd / NANO_USD


def _usd_or_none(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else _usd(nano_usd)


def _nano_usd(usd: float | None) -> int | None:
    return None if usd is None else round(usd * NANO_USD)
