from typing import Final

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.check_ins import CheckInList, CheckInSummary, CheckInView

APPLY_WITHIN_S: Final = 300.0


class AsyncCheckIns(AsyncResource):
    """Check-ins: texts that chat models turned into knowledge, with what came of them."""

    @operation
    def get(self, check_in_id: str) -> ApiCall[CheckInView]:
        """Return a check-in with its text and its proposal."""
        return ApiCall("GET", "/check-ins/{check_in_id}", CheckInView, ids={"check_in_id": check_in_id})

    @operation
    def apply(self, check_in_id: str) -> ApiCall[CheckInView]:
        """Import the proposal of a check-in."""
        return ApiCall(
            "POST",
            "/check-ins/{check_in_id}/apply",
            CheckInView,
            ids={"check_in_id": check_in_id},
            within_s=APPLY_WITHIN_S,
        )

    @listing
    def list(self, *, cursor: str | None = None, limit: int | None = None) -> PageCall[CheckInList, CheckInSummary]:
        """Return a page of the check-ins, newest first."""
        return PageCall(
            "GET",
            "/check-ins",
            CheckInList,
            query={"cursor": cursor, "limit": limit},
            items=lambda page: page.check_ins,
        )
