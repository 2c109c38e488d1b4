"""Sends the events of an organization as server-sent events, each with its position as `id`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from pymongo.errors import PyMongoError

from kb_api.outcome_events import event_log
from kb_api.outcome_events.event_feed import EventFeed
from kb_api.outcome_events.event_log import EventFilter, ListedEvent
from kb_api.outcome_events.event_response import to_view
from kb_shared.errors import RequestError, TransientError
from kb_shared.http.authentication import Caller
from kb_shared.mongo.database import Database

HEARTBEAT_S: Final = 15.0
"""Longest time without a line, so that proxies keep the connection and a client notices when it is lost."""
LIFETIME_S: Final = 3_600.0
"""Time after which a stream ends. Its client connects again, perhaps to a replica that is newer."""
RECONNECT_AFTER_MS: Final = 2_000
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class EventStream:
    """Stream of one client."""

    database: Database
    feed: EventFeed
    caller: Caller
    wanted: EventFilter
    read_caller: Callable[[], Awaitable[Caller]]
    """Reads the key of the caller again. Raises RequestError once it is not valid any more."""

    async def send(self, after: int) -> AsyncIterator[str]:
        """Yield the events after a position, and heartbeats, until the client leaves or has to connect again.

        It has to if its key has changed, if the service ends or MongoDB fails, and after an hour.
        """
        ends_at = monotonic() + LIFETIME_S
        checked_at = monotonic()
        # With the id, a client goes on here also if it is interrupted before the first event.
        yield f"retry: {RECONNECT_AFTER_MS}\nid: {after}\n\n"
        try:
            while monotonic() < ends_at and not self.feed.is_closed:
                if monotonic() - checked_at >= HEARTBEAT_S:
                    if await self.read_caller() != self.caller:
                        return
                    checked_at = monotonic()
                if await self.feed.wait(self.caller.organization_id, after=after, longest_s=HEARTBEAT_S):
                    page = await event_log.read_page(
                        self.database, self.caller.organization_id, self.wanted, after=after, limit=_PAGE
                    )
                    after = page.next_after
                    if page.events:
                        yield "".join(encode_event(event) for event in page.events)
                elif not self.feed.is_closed:
                    yield encode_heartbeat(after)
        except (RequestError, TransientError, PyMongoError):
            # The status was sent long ago. A client that connects again gets the reason as a problem.
            return


def encode_event(event: ListedEvent) -> str:
    """Encode an event. Its data is one line: JSON escapes line ends."""
    return f"id: {event.position}\nevent: {event.type}\ndata: {to_view(event).model_dump_json()}\n\n"


def encode_heartbeat(after: int) -> str:
    """Encode what is sent while there is no event. The id tells how far a filtered stream has looked."""
    return f": heartbeat\nid: {after}\n\n"
