"""Routes of outbox messages that Kafka refused permanently. Their content is never shown."""

from typing import Annotated

from bson import ObjectId
from bson.errors import InvalidId
from fastapi import Query
from pydantic import Field

from kb_api.dependencies import Cursors, Database, Reader, Settings, Writer
from kb_api.redrive_dead_letter import visible_organizations
from kb_contracts.api.unsendable_messages import UnsendableMessageList, UnsendableMessageView
from kb_shared.errors import NotFound
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import outbox
from kb_shared.mongo.outbox import Unsendable
from kb_shared.mongo.time_position import TimePosition
from kb_shared.observability import tracing

router = organization_router("unsendable messages")

Word = Annotated[str, Field(min_length=1, max_length=128)]
MessageTopicFilter = Annotated[Word | None, Query(description="Only messages for this topic.")]
RefusalReasonFilter = Annotated[Word | None, Query(description="Only messages refused for this reason.")]


@router.get(
    "/unsendable-messages",
    operation_id="unsendable_messages.list",
    summary="List unsendable messages",
    response_model=UnsendableMessageList,
)
async def list_all(
    database: Database,
    settings: Settings,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    topic: MessageTopicFilter = None,
    reason: RefusalReasonFilter = None,
) -> UnsendableMessageList:
    """List messages of this organization that Kafka refused permanently, newest first. They are kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    scope = CursorScope(caller.organization_id, "unsendable-messages", {"topic": topic, "reason": reason})
    position = cursors.read(scope, cursor, skip=skip)
    messages, total_count = await outbox.find_unsendable_page(
        database,
        visible,
        topic=topic,
        reason=reason,
        after=TimePosition.parse(position) if position else None,
        skip=skip,
        limit=limit,
    )
    return UnsendableMessageList(
        unsendable_messages=[message_view(message) for message in messages],
        total_count=total_count,
        next_cursor=cursors.create_next(
            scope,
            messages,
            limit=limit,
            position=_position,
        ),
    )


def _position(message: Unsendable) -> TimePosition:
    assert message.unsendable_at is not None, "only unsendable messages are listed"
    return TimePosition(message.unsendable_at, str(message.message_id))


@router.post(
    "/unsendable-messages/{message_id}/redrive",
    operation_id="unsendable_messages.redrive",
    summary="Redrive an unsendable message",
    status_code=202,
    response_model=UnsendableMessageView,
)
async def redrive(database: Database, settings: Settings, caller: Writer, message_id: str) -> UnsendableMessageView:
    """Send the message again once the cause is fixed. Repeated requests have no effect unless it is refused again."""
    try:
        wanted = ObjectId(message_id)
    except InvalidId:
        raise NotFound("unsendable message") from None
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    message = await outbox.redrive(database, visible, wanted, by=caller.key_id)
    if message is None:
        raise NotFound("unsendable message")
    return message_view(message)


def message_view(message: Unsendable) -> UnsendableMessageView:
    return UnsendableMessageView(
        message_id=message.message_id,
        topic=message.topic,
        document_id=message.document_id,
        reason=message.reason,
        size_bytes=message.size_bytes,
        trace_id=tracing.trace_id_of(message.traceparent),
        created_at=message.created_at,
        unsendable_at=message.unsendable_at,
        redriven_at=message.redriven_at,
        redriven_by=message.redriven_by,
    )
