from datetime import datetime

from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.usage import Usage


class AsyncUsage(AsyncResource):
    """SPUs and their cost."""

    @operation
    def get(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        group_by: str | None = None,
    ) -> ApiCall[Usage]:
        """Return the usage in a time range, by default of this month.

        Args:
            group_by: `kb`, `model`, `operation` and `day`, joined by commas; by default `kb`.
        """
        return ApiCall("GET", "/usage", Usage, query={"from": since, "to": until, "group_by": group_by})
