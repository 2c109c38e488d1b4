"""Routes of dead letters. The content of a record is never shown."""

from typing import Annotated

from fastapi import Query

from kb_api.dependencies import Cursors, Database, MessageLimits, Reader, Settings, Writer
from kb_api.discard_dead_letter import discard_dead_letter, discard_dead_letters
from kb_api.redrive_dead_letter import redrive_dead_letter, visible_organizations
from kb_api.redrive_dead_letters import redrive_dead_letters
from kb_contracts.api.dead_letters import (
    DeadLetterCounts,
    DeadLetterList,
    DeadLetterView,
    DiscardDeadLetters,
    DiscardedDeadLetters,
    LetterWord,
    OpenDeadLetters,
    RedriveDeadLetters,
    RedrivenDeadLetters,
)
from kb_shared.errors import NotFound
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import dead_letters
from kb_shared.mongo.dead_letters import DeadLetter, LetterFilter
from kb_shared.mongo.time_position import TimePosition
from kb_shared.observability import tracing

router = organization_router("dead letters")

TopicFilter = Annotated[LetterWord | None, Query(description="Only records of this topic.")]
ReasonFilter = Annotated[LetterWord | None, Query(description="Only records with this reason.")]
OpenFilter = Annotated[
    bool | None, Query(description="`true`: only those that were neither redriven nor discarded; `false`: the others.")
]


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
    is_open: OpenFilter = None,
) -> DeadLetterList:
    """List the dead letters of this organization, newest first. They are kept for 90 days."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    filters = {"topic": topic, "reason": reason, "is_open": is_open}
    scope = CursorScope(caller.organization_id, "dead-letters", filters)
    position = cursors.read(scope, cursor, skip=skip)
    letters, total_count = await dead_letters.find_page(
        database,
        visible,
        LetterFilter(topic=topic, reason=reason, is_open=is_open),
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


@router.get(
    "/dead-letters/counts",
    operation_id="dead_letters.count",
    summary="Count open dead letters",
    response_model=DeadLetterCounts,
)
async def count_open(database: Database, settings: Settings, caller: Reader) -> DeadLetterCounts:
    """Count the dead letters that were neither redriven nor discarded, by reason."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    counted = await dead_letters.count_open_by_reason(database, visible)
    most_first = sorted(counted.reasons.items(), key=lambda each: (-each[1].letters, each[0]))
    return DeadLetterCounts(
        reasons=[
            OpenDeadLetters(reason=reason, count=found.letters, oldest_at=found.oldest) for reason, found in most_first
        ],
        open_count=sum(found.letters for found in counted.reasons.values()),
        is_exact=counted.is_exact,
    )


@router.get(
    "/dead-letters/{dead_letter_id}",
    operation_id="dead_letters.get",
    summary="Get a dead letter",
    response_model=DeadLetterView,
)
async def get(database: Database, settings: Settings, caller: Reader, dead_letter_id: str) -> DeadLetterView:
    """Return a dead letter, without the content of its record."""
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letter = await dead_letters.find(database, visible, dead_letter_id)
    if letter is None:
        raise NotFound("dead letter")
    return _view(letter)


@router.post(
    "/dead-letters:redrive",
    operation_id="dead_letters.redrive_many",
    summary="Redrive several dead letters",
    status_code=202,
    response_model=RedrivenDeadLetters,
)
async def redrive_many(
    database: Database, settings: Settings, message_limits: MessageLimits, caller: Writer, *, body: RedriveDeadLetters
) -> RedrivenDeadLetters:
    """Send the records of open dead letters again, the oldest first: at most 1,000 of them, 100 in a second.

    Each one is sent once. Repeat the request while `are_more_left`; with an `Idempotency-Key`, use a new one each time.
    """
    done = await redrive_dead_letters(
        database,
        visible_organizations(caller, operator_organization=settings.operator_organization),
        LetterFilter(topic=body.topic, reason=body.reason, letter_ids=body.dead_letter_ids),
        by=caller.key_id,
        message_limits=message_limits,
    )
    return RedrivenDeadLetters(
        redriven_count=done.redriven,
        too_large_count=done.too_large,
        unreadable_count=done.unreadable,
        are_more_left=done.are_more_left,
    )


@router.post(
    "/dead-letters:discard",
    operation_id="dead_letters.discard_many",
    summary="Discard several dead letters",
    response_model=DiscardedDeadLetters,
)
async def discard_many(
    database: Database, settings: Settings, caller: Writer, body: DiscardDeadLetters
) -> DiscardedDeadLetters:
    """Mark open dead letters as ones that are not to be sent again, the oldest first: at most 1,000 of them.

    Repeat the request while `are_more_left`.
    """
    done = await discard_dead_letters(
        database,
        visible_organizations(caller, operator_organization=settings.operator_organization),
        LetterFilter(topic=body.topic, reason=body.reason, letter_ids=body.dead_letter_ids),
        by=caller.key_id,
    )
    return DiscardedDeadLetters(discarded_count=done.discarded, are_more_left=done.are_more_left)


@router.post(
    "/dead-letters/{dead_letter_id}/redrive",
    operation_id="dead_letters.redrive",
    summary="Redrive a dead letter",
    status_code=202,
    response_model=DeadLetterView,
    responses=responses("dead-letter-too-large", "dead-letter-unreadable"),
)
async def redrive(
    database: Database, settings: Settings, message_limits: MessageLimits, caller: Writer, dead_letter_id: str
) -> DeadLetterView:
    """Send the record again, unchanged, to its topic, also of a discarded one.

    It is sent once; repeated requests have no effect. Of a dead letter `unreadable-record` the stored bytes are read
    again, and all their records are sent.
    """
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    letter = await redrive_dead_letter(
        database, dead_letter_id, visible=visible, by=caller.key_id, message_limits=message_limits
    )
    return _view(letter)


@router.post(
    "/dead-letters/{dead_letter_id}/discard",
    operation_id="dead_letters.discard",
    summary="Discard a dead letter",
    response_model=DeadLetterView,
)
async def discard(database: Database, settings: Settings, caller: Writer, dead_letter_id: str) -> DeadLetterView:
    """Mark a dead letter as one that is not to be sent again, so that it does not count as open any more.

    It stays listed, and can still be redriven. One that was redriven or discarded before stays unchanged.
    """
    visible = visible_organizations(caller, operator_organization=settings.operator_organization)
    return _view(await discard_dead_letter(database, visible, dead_letter_id, by=caller.key_id))


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
        discarded_at=letter.discarded_at,
        discarded_by=letter.discarded_by,
    )
