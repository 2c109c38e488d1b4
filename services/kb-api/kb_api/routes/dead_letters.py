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

Word = Annotated[str, Field(min_length=1, max_length=128)]
TopicFilter = Annotated[Word | None, Query(description="Only records of this topic.")]
ReasonFilter = Annotated[Word | None, Query(description="Only records with this reason.")]


class DeadLetterView(BaseModel):
    dead_letter_id: str
    topic: str = Field(description="Kafka topic from which the record was read.")
    partition: int
    offset: int
    document_id: str | None = Field(description="Id of the document, if the record names one.")
    reason: str = Field(description="Kind of failure, as a stable slug.")
    detail: str = Field(description="Explanation of the failure, without content of the record.")
    size_bytes: int | None = Field(description="Size of the record; null if it is not known.")
    trace_id: str | None = Field(description="Id of the W3C trace of the record; null if it has none.")
    occurred_at: datetime | None = Field(description="Timestamp of the record in Kafka.")
    filed_at: datetime = Field(description="Time at which the record became a dead letter.")
    redriven_at: datetime | None = Field(description="Time at which the record was sent again; null if it was not.")
    redriven_by: str | None = Field(description="Id of the API key that sent the record again.")
    redriven_from: str | None = Field(
        description="Id of the earlier dead letter that was redriven and failed again as this one."
    )

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
    total_count: int = Field(description="Number of items on all pages.")


@router.get("/dead-letters", summary="List dead letters", response_model=DeadLetterList)
async def list_all(
    database: Database,
    settings: Settings,
    caller: Reader,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    topic: TopicFilter = None,
    reason: ReasonFilter = None,
) -> DeadLetterList:
    """List the dead letters of this organization, newest first. They are kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letters, total_count = await dead_letters.find_page(
        database, visible, topic=topic, reason=reason, skip=skip, limit=limit
    )
    return DeadLetterList(
        dead_letters=[DeadLetterView.from_dead_letter(letter) for letter in letters], total_count=total_count
    )


@router.post(
    "/dead-letters/{dead_letter_id}/redrive",
    summary="Redrive a dead letter",
    status_code=202,
    response_model=DeadLetterView,
    responses=responses(409),
)
async def redrive(
    database: Database, settings: Settings, message_limits: MessageLimits, caller: Writer, dead_letter_id: str
) -> DeadLetterView:
    """Send the record again, unchanged, to its topic. It is sent once; repeated requests have no effect."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letter = await redrive_dead_letter(
        database, dead_letter_id, visible=visible, by=caller.key_id, message_limits=message_limits
    )
    return DeadLetterView.from_dead_letter(letter)
