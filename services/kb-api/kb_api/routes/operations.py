"""Routes of the summary for operators."""

from kb_api.dependencies import Database, Reader
from kb_api.operations_of_organization import count_operations, load_operations
from kb_contracts.api.operations import OperationCounts, OperationsView
from kb_shared.http.routing import organization_router

router = organization_router("operations")


@router.get("/operations", operation_id="operations.get", summary="Get operations", response_model=OperationsView)
async def get(database: Database, caller: Reader) -> OperationsView:
    """Return what is open, waits, is paused or is broken in the organization, and what was searched most.

    `GET /insights/searches` counts searches by day, kind of client and knowledge base.
    """
    return await load_operations(database, caller.organization_id)


@router.get(
    "/operations/counts",
    operation_id="operations.count",
    summary="Count what needs attention",
    response_model=OperationCounts,
)
async def count(database: Database, caller: Reader) -> OperationCounts:
    """Count open dead letters and failed documents, at most 1,000 of each.

    `GET /operations` tells more, and takes longer.
    """
    return await count_operations(database, caller.organization_id)
