"""The audit log: who did what, when."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS, refuse_without_admin
from kb_console.dependencies import Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

AUDIT: Final = "audit"
TAB: Final = "Audit log"
_MOST_KEYS: Final = 100
_OUTCOMES: Final = [("", "any"), ("succeeded", "succeeded"), ("refused", "refused"), ("failed", "failed")]

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{AUDIT}")


@router.get("")
async def list_entries(
    request: Request,
    visit: Visitor,
    *,
    key: Annotated[str, Query(max_length=128)] = "",
    operation: Annotated[str, Query(max_length=128)] = "",
    outcome: Literal["succeeded", "refused", "failed", ""] = "",
    since: date | Literal[""] = "",
    until: date | Literal[""] = "",
    cursor: Annotated[str, Query(max_length=1_000)] = "",
) -> HTMLResponse:
    if (refused := refuse_without_admin(request, visit, to="see the audit log", tab=TAB)) is not None:
        return refused
    filters: dict[str, object] = {
        "key": key,
        "operation": operation,
        "outcome": outcome,
        "since": since or None,
        "until": until or None,
    }
    found, keys = await run_two_or_cancel(
        visit.api.audit.list(
            key_id=key or None,
            operation=operation or None,
            outcome=outcome or None,
            since=_begin(since) if since else None,
            # The day itself belongs to it.
            until=_begin(until) + timedelta(days=1) if until else None,
            cursor=cursor or None,
            limit=ROWS,
        ),
        visit.api.api_keys.list(limit=_MOST_KEYS),
    )
    names = {each.key_id: each.name for each in keys.api_keys}
    return render_page(
        request,
        "audit.html",
        part="_audit.html",
        found=found,
        key=key,
        # One that is not listed, such as that of the deployment, is kept by its id.
        keys=[("", "any"), *({key: key} | names if key else names).items()],
        operation=operation,
        outcome=outcome,
        since=since,
        until=until,
        outcomes=_OUTCOMES,
        is_filtered=any(filters.values()),
        is_later_page=bool(cursor),
        address_of=lambda cursor=None: visit.address(SETTINGS, AUDIT, **filters, cursor=cursor),
    )


def _begin(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
