"""Operations of an organization: what is open, waits, is paused or broken, and which documents failed."""

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visitor
from kb_console.documents.error_remedies import REMEDIES
from kb_console.operations.operation_words import UNUSABLE_BECAUSE, WAITING_FOR
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_contracts.api.operations import OperationsView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

SECTION: Final = "operations"
_CHANGING: Final = frozenset({"pending", "running"})
_AT_THEIR_LIMIT: Final = frozenset({"provider_429", "rate_limited", "provider_quota"})
_NAMES: Final = 100

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SECTION}")


@router.get("")
async def show(request: Request, visit: Visitor) -> HTMLResponse:
    found = await visit.api.operations.get()
    return render_page(
        request,
        "operations.html",
        part="_operations.html",
        found=found,
        complaints=_complaints(found),
        at_limit=[each for each in found.waiting if each.error_type in _AT_THEIR_LIMIT],
        lag_s=_lag_s(found),
        waiting_for=WAITING_FOR,
        unusable_because=UNUSABLE_BECAUSE,
        changes_by_itself=found.running_jobs > 0 or any(each.state in _CHANGING for each in found.jobs),
    )


def _lag_s(found: OperationsView) -> float | None:
    """Return for how long the oldest document that is not searchable yet has waited; None if none waits."""
    oldest = min((each.oldest_at for each in found.jobs if each.state in _CHANGING), default=None)
    return None if oldest is None else max(0.0, (datetime.now(UTC) - oldest).total_seconds())


def _complaints(found: OperationsView) -> list[str]:
    """Return in words what somebody should look at."""
    failed = sum(each.count for each in found.jobs if each.state == "failed")
    counts = {
        "failed document": failed,
        "open dead letter": found.dead_letters,
        "message that Kafka has refused": found.unsendable_messages,
        "knowledge base in error": len(found.failed_knowledge_bases),
        "model that is not called": len(found.unusable_models),
    }
    plurals = {
        "message that Kafka has refused": "messages that Kafka has refused",
        "knowledge base in error": "knowledge bases in error",
        "model that is not called": "models that are not called",
    }
    return [
        f"{count:,} {what if count == 1 else plurals.get(what, f'{what}s')}" for what, count in counts.items() if count
    ]


@router.get("/failed")
async def list_failed(
    request: Request, visit: Visitor, *, paging: Paging, q: Annotated[str, Query(max_length=200)] = ""
) -> HTMLResponse:
    found, kbs = await run_two_or_cancel(
        visit.api.documents.list(status="failed", name_search=q or None, skip=paging.skip, limit=ROWS),
        visit.api.knowledge_bases.list(limit=_NAMES),
    )
    return render_page(
        request,
        "failed_documents.html",
        part="_failed_documents.html",
        found=found,
        names={kb.kb_id: kb.name for kb in kbs.knowledge_bases},
        remedies=REMEDIES,
        paging=paging,
        q=q,
        address_of_page=lambda page: visit.address(SECTION, "failed", q=q, page=page),
    )
