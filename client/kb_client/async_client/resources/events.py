from collections.abc import Sequence
from typing import Literal

from kb_client.async_client.event_stream import AsyncEventStream
from kb_client.async_client.operation import AsyncResource, listing
from kb_client.call import PageCall, joined_values
from kb_contracts.api.events import EventList, OutcomeEventView


class AsyncEvents(AsyncResource):
    """Outcomes of documents and knowledge bases, as on the topic `kb-events`."""

    @listing
    def list(
        self,
        *,
        after: int | Literal["latest"] | None = None,
        types: str | Sequence[str] | None = None,
        kb_ids: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> PageCall[EventList, OutcomeEventView]:
        """Return a page of the events behind a position, oldest first; by default from the oldest that is kept."""
        return PageCall(
            "GET",
            "/events",
            EventList,
            query={"after": after, "types": joined_values(types), "kb_ids": joined_values(kb_ids), "limit": limit},
            items=lambda page: page.events,
        )

    def follow(
        self,
        *,
        after: int | Literal["latest"] = "latest",
        types: str | Sequence[str] | None = None,
        kb_ids: str | Sequence[str] | None = None,
    ) -> AsyncEventStream:
        """Yield events as they happen, and connect again whenever the connection ends.

        async with client.events.follow(types="document.index_failed.v1") as events:
            async for event in events:
                print(event.data["document_id"], event.data["message"])

        `event.position` is `after` of another call that continues behind the event.
        """
        return AsyncEventStream(
            self._transport, self.list.describe(after=after, types=types, kb_ids=kb_ids), self._options
        )
