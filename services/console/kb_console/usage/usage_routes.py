"""Usage by day, month so far with a forecast, and the budget."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.usage.budget_form import BudgetForm
from kb_console.usage.time_range import RANGES, ShownRange
from kb_console.usage.usage_table import Grouping, UsageUnit, daily_table, forecast, name_group, share_of_month
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel

USAGE: Final = "usage"
_GROUPINGS: Final = [("operation", "operation"), ("kb", "knowledge base"), ("model", "model")]

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{USAGE}")


@router.get("")
async def show(
    request: Request,
    visit: Visitor,
    shown_range: ShownRange,
    *,
    by: Grouping = "operation",
    unit: UsageUnit | Literal[""] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    since, until = shown_range.since, shown_range.until
    daily, total, budget = await run_three_or_cancel(
        visit.api.usage.get(since=since, until=until, group_by=f"{by},day"),
        visit.api.usage.get(since=since, until=until, group_by=by),
        visit.api.budget.get(),
    )
    # Models of one's own machine cost nothing, and then dollars say nothing.
    chosen: UsageUnit = unit or ("usd" if total.total_usd else "spus")
    share = share_of_month(budget, datetime.now(UTC))
    return render_page(
        request,
        "usage.html",
        time_range=shown_range,
        ranges=[*RANGES.items()],
        by=by,
        unit=chosen,
        groupings=_GROUPINGS,
        table=daily_table(daily.usage, shown_range.days(), by=by, unit=chosen),
        groups=sorted(
            ((name_group(row, by), row) for row in total.usage), key=lambda each: (-each[1].nano_usd, -each[1].spus)
        ),
        total=total,
        budget=budget,
        forecast_usd=forecast(budget.used_usd, share),
        forecast_spus=forecast(budget.used, share),
        done=done,
    )


@router.get(".csv")
async def download(visit: Visitor, shown_range: ShownRange, by: Grouping = "operation") -> Response:
    csv = await visit.api.usage.get_csv(since=shown_range.since, until=shown_range.until, group_by=f"{by},day")
    name = f"usage-{shown_range.since:%Y-%m-%d}-to-{shown_range.until:%Y-%m-%d}.csv"
    return Response(csv, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})


@router.get("/budget")
async def show_budget(request: Request, visit: Visitor) -> HTMLResponse:
    return await _render_budget(request, visit)


@router.post("/budget")
async def change_budget(request: Request, visit: Visitor) -> Response:
    form = BudgetForm.from_form(await request.form())
    try:
        limits = form.limits()
        if not form.confirmed and form.stops_work(await visit.api.budget.get()):
            return await _render_budget(request, visit, form, asks=True)
        await visit.api.budget.put(**limits)
    except (UnusableForm, ApiError) as error:
        return await _render_budget(request, visit, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(USAGE, done="budget"), 303)


async def _render_budget(
    request: Request,
    visit: Visit,
    form: BudgetForm | None = None,
    *,
    problem: ShownProblem | None = None,
    asks: bool = False,
) -> HTMLResponse:
    budget = await visit.api.budget.get()
    return render_page(
        request,
        "budget.html",
        status_code=200 if problem is None else problem.status,
        budget=budget,
        form=form or BudgetForm.from_budget(budget),
        problem=problem,
        asks=asks,
    )
