from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.operations import OperationCounts, OperationsView


class AsyncOperations(AsyncResource):
    """Open work of the organization, what is paused, and what is broken."""

    @operation
    def get(self) -> ApiCall[OperationsView]:
        """Return what is open, waits, is paused or is broken."""
        return ApiCall("GET", "/operations", OperationsView)

    @operation
    def count(self) -> ApiCall[OperationCounts]:
        """Count open dead letters and failed documents, at most 1,000 of each."""
        return ApiCall("GET", "/operations/counts", OperationCounts)
