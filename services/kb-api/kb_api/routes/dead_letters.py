"""Routes of dead letters. The content of a record is never shown."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from kb_api.dependencies import Database, MessageLimits, Reader, Settings, Writer
from kb_api.redrive_dead_letter import redrive_dead_letter, visible_organizations
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import dead_letters
from kb_shared.mongo.dead_letters import DeadLetter
from kb_shared.observability import tracing

router = organization_router("dead letters")

Word = Annotated[str, Query(min_length=1, max_length=128)]


class DeadLetterView(BaseModel):
    dead_letter_id: str
    topic: str
    partition: int
    offset: int
    document_id: str | None
    reason: str
    detail: str
    size_bytes: int | None
    trace_id: str | None
    occurred_at: datetime | None = Field(description="The record's own time.")
    filed_at: datetime
    redriven_at: datetime | None
    redriven_by: str | None
    redriven_from: str | None = Field(description="The letter that was sent again and came to this one.")

    @classmethod
    def from_dead_letter(cls, letter: DeadLetter) -> "DeadLetterView":
        return cls(
            dead_letter_id=letter.letter_id,
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
            document_id=letter.document_id,
            reason=letter.reason,
            detail=letter.detail,
            size_bytes=letter.size_bytes,
            trace_id=tracing.trace_id_of(letter.traceparent),
            occurred_at=letter.occurred_at,
            filed_at=letter.filed_at,
            redriven_at=letter.redriven_at,
            redriven_by=letter.redriven_by,
            redriven_from=letter.redriven_from,
        )


class DeadLetterList(BaseModel):
    dead_letters: list[DeadLetterView]
    total_count: int


@router.get("/dead-letters", response_model=DeadLetterList)
async def list_all(
    database: Database,
    settings: Settings,
    caller: Reader,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    topic: Word | None = None,
    reason: Word | None = None,
) -> DeadLetterList:
    """List the dead letters of this organization, newest first. They are kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letters, total_count = await dead_letters.page(
        database, visible, topic=topic, reason=reason, skip=skip, limit=limit
    )
    return DeadLetterList(
        dead_letters=[DeadLetterView.from_dead_letter(letter) for letter in letters], total_count=total_count
    )


@router.post(
    "/dead-letters/{dead_letter_id}/redrive",
    status_code=202,
    response_model=DeadLetterView,
    responses=responses(409),
)
async def redrive(
    database: Database, settings: Settings, message_limits: MessageLimits, caller: Writer, dead_letter_id: str
) -> DeadLetterView:
    """Send the record again, as it came, to the topic it came from. Once: later requests change nothing."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letter = await redrive_dead_letter(
        database, dead_letter_id, visible=visible, by=caller.key_id, message_limits=message_limits
    )
    return DeadLetterView.from_dead_letter(letter)
