"""What an organization was charged, and what it may spend."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field, model_validator

from kb_api.budget_of_organization import BudgetState, BudgetStatus, budget_of, change_budget
from kb_api.services import Admin, Api, Reader
from kb_shared.budget import end_of_month
from kb_shared.http.model import Model, Timestamp
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.mongo import spu_ledger
from kb_shared.mongo.spu_ledger import Dimension, Operation

router = organization_router("usage")

MAX_RANGE: Final = timedelta(days=366)
MAX_SPUS: Final = 10**15

_NAMES: Final[tuple[Dimension, ...]] = ("kb", "model", "operation", "day")
_ONE_NAME: Final = f"(?:{'|'.join(_NAMES)})"

Spus = Annotated[int, Field(ge=0, le=MAX_SPUS)]


def _once_each(names: str) -> str:
    if len(set(names.split(","))) != len(names.split(",")):
        raise ValueError("each name once")
    return names


GroupBy = Annotated[
    str,
    Query(pattern=f"^{_ONE_NAME}(?:,{_ONE_NAME})*$", description="Names of `kb, model, operation, day`, by commas."),
    AfterValidator(_once_each),
]


class UsageRow(BaseModel):
    """What it is not grouped by is absent; `kb_id` is null for charges that no KB caused."""

    kb_id: str | None = None
    model: str | None = None
    operation: Operation | None = None
    day: date | None = Field(default=None, description="In UTC.")
    spus: int


class Usage(BaseModel):
    since: datetime
    until: datetime
    usage: list[UsageRow]
    total_spus: int


@router.get("/usage", response_model=Usage, response_model_exclude_unset=True)
async def get_usage(
    api: Api,
    caller: Reader,
    *,
    since: Annotated[Timestamp | None, Query(alias="from", description="Default: the first of this month.")] = None,
    until: Annotated[Timestamp | None, Query(alias="to", description="Not included. Default: now.")] = None,
    group_by: GroupBy = "kb",
) -> Usage:
    """What was charged, by the ledger: 1 SPU for each embedding generated and stored."""
    until = until or datetime.now(UTC)
    since = since or until.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if since > until:
        raise invalid_field("from", "Input should not be later than `to`")
    if until - since > MAX_RANGE:
        raise invalid_field("from", f"Input should be at most {MAX_RANGE.days} days before `to`")
    by = [name for name in _NAMES if name in group_by.split(",")]
    charged = await spu_ledger.usage(api.database, caller.organization_id, since=since, until=until, by=by)
    rows = [_row(values, spus) for values, spus in charged]
    return Usage(since=since, until=until, usage=rows, total_spus=sum(row.spus for row in rows))


def _row(values: Mapping[Dimension, str | None], spus: int) -> UsageRow:
    fields = {("kb_id" if name == "kb" else name): value for name, value in values.items()}
    return UsageRow.model_validate({**fields, "spus": spus})


class PutBudget(Model):
    soft: Spus | None = Field(description="From here on `GET /budget` warns. null: never.")
    hard: Spus | None = Field(description="Beyond this nothing is embedded. null: no limit.")

    @model_validator(mode="after")
    def _in_order(self) -> "PutBudget":
        if self.soft is not None and self.hard is not None and self.soft > self.hard:
            raise ValueError("soft must not be greater than hard")
        return self


class BudgetView(BaseModel):
    soft: int | None
    hard: int | None
    month: str = Field(description="Calendar month in UTC, such as `2026-01`.")
    used: int = Field(description="SPUs charged this month.")
    reserved: int = Field(description="SPUs that work under way may still use.")
    status: BudgetStatus
    resets_at: datetime

    @classmethod
    def of(cls, state: BudgetState) -> "BudgetView":
        return cls(
            soft=state.soft,
            hard=state.hard,
            month=state.month,
            used=state.used,
            reserved=state.reserved,
            status=state.status,
            resets_at=end_of_month(state.month),
        )


@router.get("/budget", response_model=BudgetView)
async def get_budget(api: Api, caller: Reader) -> BudgetView:
    return BudgetView.of(await budget_of(api, caller))


@router.put("/budget", response_model=BudgetView)
async def put_budget(api: Api, caller: Admin, body: PutBudget) -> BudgetView:
    """Limit what may be spent in a calendar month, in SPUs. A document is embedded wholly or not at all.

    Documents that the hard limit kept waiting are tried again at once.
    """
    return BudgetView.of(await change_budget(api, caller, soft=body.soft, hard=body.hard))
