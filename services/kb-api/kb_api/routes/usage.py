"""Routes of usage and budgets."""

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import AfterValidator

from kb_api.budget_of_organization import BudgetState, change_budget, load_budget
from kb_api.dependencies import Admin, Database, Reader
from kb_api.media_types import choose_media_type
from kb_api.usage_csv import usage_csv
from kb_api.usage_of_organization import sum_usage
from kb_contracts.api.budgets import BudgetView, PutBudget
from kb_contracts.api.model import Timestamp
from kb_contracts.api.usage import Usage
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.problems import JsonResponses, responses
from kb_shared.http.routing import organization_router
from kb_shared.metering.budget import end_of_month
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.spu_ledger import Dimension
from kb_shared.prices import NANO_USD

router = organization_router("usage")

JSON: Final = "application/json"
CSV: Final = "text/csv"

_CSV_FILE: Final[JsonResponses] = {
    200: {"content": {CSV: {"schema": {"type": "string"}, "example": "day,spus,usd\r\n2026-01-31,9,0.000090000\r\n"}}}
}
_NAMES: Final[tuple[Dimension, ...]] = ("kb", "model", "operation", "day")
_ONE_NAME: Final = f"(?:{'|'.join(_NAMES)})"


def _once_each(names: str) -> str:
    if len(set(names.split(","))) != len(names.split(",")):
        raise ValueError("must have each name once")
    return names


GroupBy = Annotated[
    str,
    Query(
        pattern=f"^{_ONE_NAME}(?:,{_ONE_NAME})*$",
        description="One or more of `kb`, `model`, `operation`, `day`, separated by commas. Default: `kb`.",
    ),
    AfterValidator(_once_each),
]


@router.get(
    "/usage",
    operation_id="usage.get",
    summary="Get usage",
    response_model=Usage,
    response_model_exclude_unset=True,
    responses=_CSV_FILE | responses("not-acceptable"),
)
@open_to_limited_keys
async def get_usage(
    database: Database,
    caller: Reader,
    *,
    request: Request,
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
) -> Usage | Response:
    """Return the charges of a time range: 1 SPU for each embedding that was generated and stored, and the cost.

    The operation `chat` stands for calls of chat models, which cost money and no SPUs. By `day` alone, days without
    charges are rows with 0. With `Accept: text/csv` the rows are a CSV file.
    """
    media_type = choose_media_type(request.headers.get("accept"), offered=(JSON, CSV))
    until = until or datetime.now(UTC)
    since = since or until.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    by = [name for name in _NAMES if name in group_by.split(",")]
    usage = await sum_usage(database, caller, since=since, until=until, by=by)
    if media_type == JSON:
        return usage
    headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
    return Response(usage_csv(usage, by=by), media_type=CSV, headers=headers)


@router.get("/budget", operation_id="budget.get", summary="Get the budget", response_model=BudgetView)
async def get_budget(database: Database, caller: Reader) -> BudgetView:
    """Return the limits and what was spent in this month."""
    return _budget_view(await load_budget(database, caller.organization_id))


@router.put("/budget", operation_id="budget.put", summary="Replace the budget", response_model=BudgetView)
async def put_budget(database: Database, caller: Admin, body: PutBudget) -> BudgetView:
    """Limit the spending of a calendar month (UTC), in SPUs and in US dollars. Replaces all limits.

    A document is embedded wholly or not at all. Documents that waited because of a hard limit are retried at once.
    """
    return _budget_view(await change_budget(database, caller.organization_id, limits=_limits(body)))


def _limits(body: PutBudget) -> BudgetLimits:
    return BudgetLimits(body.soft, body.hard, _nano_usd(body.soft_usd), _nano_usd(body.hard_usd))


def _budget_view(state: BudgetState) -> BudgetView:
    return BudgetView(
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


def _usd(nano_usd: int) -> float:
    return nano_usd / NANO_USD


def _usd_or_none(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else _usd(nano_usd)


def _nano_usd(usd: float | None) -> int | None:
    return None if usd is None else round(usd * NANO_USD)
