from datetime import datetime
from typing import Literal

from kb_client.async_client.operation import AsyncResource, listing
from kb_client.call import PageCall
from kb_contracts.api.audit import AuditEntryList, AuditEntryView


class AsyncAudit(AsyncResource):
    """Administrative calls that were made."""

    @listing
    def list(
        self,
        *,
        key_id: str | None = None,
        operation: str | None = None,
        outcome: Literal["succeeded", "refused", "failed"] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> PageCall[AuditEntryList, AuditEntryView]:
        """Return a page of the calls, newest first."""
        return PageCall(
            "GET",
            "/audit",
            AuditEntryList,
            query={
                "key_id": key_id,
                "operation": operation,
                "outcome": outcome,
                "from": since,
                "to": until,
                "cursor": cursor,
                "limit": limit,
            },
            items=lambda page: page.entries,
        )
