from dataclasses import replace
from datetime import datetime
from typing import cast

from pydantic import BaseModel

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

    async def get_csv(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        group_by: str | None = None,
    ) -> str:
        """Return the rows of `get` as a CSV file, in which the column `usd` is exact."""
        call = replace(self.get.describe(since=since, until=until, group_by=group_by), accept="text/csv")
        response = await self._transport.send(cast("ApiCall[BaseModel]", call), self._options)
        return response.text
