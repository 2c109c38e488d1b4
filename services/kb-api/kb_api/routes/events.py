from typing import Annotated, Final, Literal

from fastapi import Header, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from kb_api.dependencies import Database, DocumentReader, EventFeed
from kb_api.outcome_events import event_log
from kb_api.outcome_events.event_log import EventFilter
from kb_api.outcome_events.event_response import to_view
from kb_api.outcome_events.event_stream import EventStream
from kb_contracts.api.events import EVENT_TYPES, EventList, FollowedEvent
from kb_shared.http.admission import long_running
from kb_shared.http.authentication import Caller, authenticate_caller
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.openapi import EVENT_STREAM, event_stream
from kb_shared.http.problems import responses
from kb_shared.http.request_context import hold_until_answered
from kb_shared.http.routing import organization_router

_TYPE: Final = "|".join(each.replace(".", r"\.") for each in EVENT_TYPES)
_KB_ID: Final = "[0-9a-f]{24}"

router = organization_router("events")

Position = Annotated[int, Field(ge=0, le=2**53 - 1)]

After = Annotated[
    Position | Literal["latest"] | None,
    Query(
        description="Only events behind this position, such as `next_after` of the page before; `latest`: only "
        "future ones. Default: the oldest event that is kept, for a stream future ones."
    ),
]
EventTypes = Annotated[
    str | None,
    Query(
        max_length=1_000,
        pattern=rf"^({_TYPE})(,({_TYPE}))*$",
        description="Only events of these types, joined by commas.",
        examples=["document.indexed.v1,document.index_failed.v1"],
    ),
]
EventKbIds = Annotated[
    str | None,
    Query(
        max_length=2_500,
        pattern=rf"^{_KB_ID}(,{_KB_ID})*$",
        description="Only events of these knowledge bases, joined by commas.",
    ),
]
LastEventId = Annotated[
    Position | None,
    Header(
        alias="Last-Event-ID",
        description="For a stream: `id` of the last event that was received. It replaces `after`.",
    ),
]


@router.get(
    "/events",
    operation_id="events.list",
    summary="List or follow events",
    response_model=EventList,
    responses=event_stream(FollowedEvent, description="Events, or a stream of those that happen.")
    | responses("events-expired"),
)
@long_running
@open_to_limited_keys
async def list_or_follow(
    database: Database,
    feed: EventFeed,
    caller: DocumentReader,
    *,
    request: Request,
    after: After = None,
    types: EventTypes = None,
    kb_ids: EventKbIds = None,
    limit: Limit = DEFAULT_LIMIT,
    last_event_id: LastEventId = None,
) -> Response | EventList:
    """Return what happened to documents and knowledge bases, oldest first, for seven days.

    With `Accept: text/event-stream` the connection stays open and gets each event as it happens, with its position as
    `id`; clients connect again with `Last-Event-ID`. A stream ends after an hour at the latest. A key that is limited
    to knowledge bases gets their events only.
    """
    wanted = _to_filter(caller, types, kb_ids)
    is_stream = EVENT_STREAM in request.headers.get("accept", "")
    if is_stream and last_event_id is not None:
        after = last_event_id
    elif after == "latest" or (is_stream and after is None):
        after = await event_log.get_last_position(database, caller.organization_id)
    if not is_stream:
        page = await event_log.read_page(database, caller.organization_id, wanted, after=after, limit=limit)
        events = [to_view(event) for event in page.events]
        return EventList(events=events, next_after=page.next_after, has_more=page.has_more)
    assert after is not None
    return await _follow(request, database, feed, caller=caller, wanted=wanted, after=after)


async def _follow(
    request: Request, database: Database, feed: EventFeed, *, caller: Caller, wanted: EventFilter, after: int
) -> Response:
    """Return a stream of the events behind a position. Refuses one that has expired."""
    hold_until_answered(request.scope, feed.follow(caller.organization_id, key_id=caller.key_id))
    # While the answer can still have a status.
    await event_log.read_page(database, caller.organization_id, wanted, after=after, limit=1)

    async def read_caller() -> Caller:
        return await authenticate_caller(request)

    stream = EventStream(database, feed, caller, wanted, read_caller)
    # Told to proxies that would keep events back until there are enough of them.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream.send(after), media_type=EVENT_STREAM, headers=headers)


def _to_filter(caller: Caller, types: str | None, kb_ids: str | None) -> EventFilter:
    """Return the filter. Raises NotFound for a KB that the key is not open to."""
    chosen = None if kb_ids is None else frozenset(kb_ids.split(","))
    for kb_id in chosen or ():
        caller.require_knowledge_base(kb_id)
    return EventFilter(
        types=None if types is None else frozenset(types.split(",")), kb_ids=caller.kb_ids if chosen is None else chosen
    )
