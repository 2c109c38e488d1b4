"""Routes of dead letters. The content of a record is never shown."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from kb_api.dependencies import Cursors, Database, MessageLimits, Reader, Settings, Writer
from kb_api.redrive_dead_letter import redrive_dead_letter, visible_organizations
from kb_contracts.api.dead_letters import DeadLetterList, DeadLetterView
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import dead_letters
from kb_shared.mongo.dead_letters import DeadLetter
from kb_shared.mongo.time_position import TimePosition
from kb_shared.observability import tracing

router = organization_router("dead letters")

Word = Annotated[str, Field(min_length=1, max_length=128)]
TopicFilter = Annotated[Word | None, Query(description="Only records of this topic.")]
ReasonFilter = Annotated[Word | None, Query(description="Only records with this reason.")]


@router.get(
    "/dead-letters", operation_id="dead_letters.list", summary="List dead letters", response_model=DeadLetterList
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
    topic: TopicFilter = None,
    reason: ReasonFilter = None,
) -> DeadLetterList:
    """List the dead letters of this organization, newest first. They are kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    scope = CursorScope(caller.organization_id, "dead-letters", {"topic": topic, "reason": reason})
    position = cursors.read(scope, cursor, skip=skip)
    letters, total_count = await dead_letters.find_page(
        database,
        visible,
        topic=topic,
        reason=reason,
        after=TimePosition.parse(position) if position else None,
        skip=skip,
        limit=limit,
    )
    return DeadLetterList(
        dead_letters=[_view(letter) for letter in letters],
        total_count=total_count,
        next_cursor=cursors.create_next(
            scope, letters, limit=limit, position=lambda letter: TimePosition(letter.filed_at, letter.letter_id)
        ),
    )


@router.post(
    "/dead-letters/{dead_letter_id}/redrive",
    operation_id="dead_letters.redrive",
    summary="Redrive a dead letter",
    status_code=202,
    response_model=DeadLetterView,
    responses=responses("dead-letter-too-large"),
)
async def redrive(
    database: Database, settings: Settings, message_limits: MessageLimits, caller: Writer, dead_letter_id: str
) -> DeadLetterView:
    """Send the record again, unchanged, to its topic. It is sent once; repeated requests have no effect."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letter = await redrive_dead_letter(
        database, dead_letter_id, visible=visible, by=caller.key_id, message_limits=message_limits
    )
    return _view(letter)


def _view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
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
