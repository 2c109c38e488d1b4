"""Messages of the outbox that Kafka refused for good. What they hold is never shown."""

from datetime import datetime
from typing import Annotated

from bson import ObjectId
from bson.errors import InvalidId
from fastapi import Query
from pydantic import BaseModel, Field

from kb_api.dependencies import Database, Reader, Settings, Writer
from kb_api.redrive_dead_letter import visible_organizations
from kb_shared.errors import NotFound
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import outbox
from kb_shared.mongo.outbox import Unsendable
from kb_shared.observability import tracing

router = organization_router("unsendable messages")

Word = Annotated[str, Query(min_length=1, max_length=128)]


class UnsendableMessageView(BaseModel):
    message_id: str
    topic: str
    document_id: str | None
    reason: str = Field(description="`too-large` or `invalid-record`.")
    size_bytes: int = Field(description="Of the whole record: key, value, headers and what Kafka adds.")
    trace_id: str | None
    created_at: datetime
    unsendable_at: datetime | None = Field(description="When Kafka refused it; null once it is to be sent again.")
    redriven_at: datetime | None
    redriven_by: str | None

    @classmethod
    def from_message(cls, message: Unsendable) -> "UnsendableMessageView":
        return cls(
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


class UnsendableMessageList(BaseModel):
    unsendable_messages: list[UnsendableMessageView]
    total_count: int


@router.get("/unsendable-messages", response_model=UnsendableMessageList)
async def list_all(
    database: Database,
    settings: Settings,
    caller: Reader,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    topic: Word | None = None,
    reason: Word | None = None,
) -> UnsendableMessageList:
    """Messages of this organization that Kafka refused for good, the last first, kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    messages, total_count = await outbox.unsendable_page(
        database, visible, topic=topic, reason=reason, skip=skip, limit=limit
    )
    return UnsendableMessageList(
        unsendable_messages=[UnsendableMessageView.from_message(message) for message in messages],
        total_count=total_count,
    )


@router.post("/unsendable-messages/{message_id}/redrive", status_code=202, response_model=UnsendableMessageView)
async def redrive(database: Database, settings: Settings, caller: Writer, message_id: str) -> UnsendableMessageView:
    """Send the message again, after the cause is removed. Later requests change nothing unless it is refused again."""
    try:
        wanted = ObjectId(message_id)
    except InvalidId:
        raise NotFound("unsendable message") from None
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    message = await outbox.redrive(database, visible, wanted, by=caller.key_id)
    if message is None:
        raise NotFound("unsendable message")
    return UnsendableMessageView.from_message(message)
