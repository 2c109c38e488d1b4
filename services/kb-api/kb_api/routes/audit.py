from dataclasses import asdict
from typing import Annotated

from fastapi import Query

from kb_api.dependencies import Admin, Cursors, Database
from kb_contracts.api.audit import AuditEntryList, AuditEntryView
from kb_contracts.api.model import Timestamp
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.routing import organization_router
from kb_shared.mongo import audit_log
from kb_shared.mongo.audit_log import AuditEntry, AuditFilter, AuditOutcome

router = organization_router("audit log")

AuditWord = Annotated[str | None, Query(min_length=1, max_length=128)]


@router.get("/audit", summary="List administrative calls", response_model=AuditEntryList, operation_id="audit.list")
async def list_all(
    database: Database,
    cursors: Cursors,
    caller: Admin,
    *,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
    key_id: Annotated[AuditWord, Query(description="Only calls with this API key.")] = None,
    operation: Annotated[AuditWord, Query(description="Only calls with this name.")] = None,
    outcome: Annotated[AuditOutcome | None, Query(description="Only calls that ended so.")] = None,
    since: Annotated[Timestamp | None, Query(alias="from", description="Only calls from this time on.")] = None,
    until: Annotated[Timestamp | None, Query(alias="to", description="Only calls before this time.")] = None,
) -> AuditEntryList:
    """List the calls that changed something in the organization or were to, newest first. They are kept for a year.

    Calls about documents, searches and runs are not among them.
    """
    wanted = AuditFilter(key_id, operation, outcome, since, until)
    scope = CursorScope(caller.organization_id, "audit", asdict(wanted))
    before = cursors.read(scope, cursor)
    entries = await audit_log.find_page(database, caller.organization_id, wanted, before=before, limit=limit)
    is_full = len(entries) == limit
    return AuditEntryList(
        entries=[_view(entry) for entry in entries],
        next_cursor=cursors.create(scope, entries[-1].entry_id) if is_full else None,
    )


def _view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        entry_id=entry.entry_id,
        at=entry.at,
        key_id=entry.key_id,
        operation=entry.operation,
        target=dict(entry.target),
        outcome=entry.outcome,
        status=entry.status,
        reason=entry.reason,
        request_id=entry.request_id,
    )
