"""Marks messages as unsendable that Kafka refuses permanently, and informs the upstream of a document event."""

from typing import Final

import structlog

from kb_contracts import topics
from kb_contracts.outcomes import DocumentRejected
from kb_shared.errors import MessageRefused
from kb_shared.messaging.dead_letters import find_owner, read_event_name
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.observability.metrics import OUTBOX_UNSENDABLE

SOURCE: Final = "/kb/outbox"

log = structlog.get_logger()


async def mark_unsendable(
    database: Database, message: outbox.OutboxMessage, *, refusal: MessageRefused, size_bytes: int
) -> None:
    """Mark a refused message, in one transaction with `document.rejected.v1` if it is a document event."""
    owner = find_owner(message.topic, message.key, value=message.value)

    async def work(session: MongoSession) -> bool:
        changed = await outbox.mark_unsendable(
            database,
            session,
            message.id,
            reason=refusal.reason,
            size_bytes=size_bytes,
            organization_id=owner.organization_id,
            document_id=owner.document_id,
        )
        if changed and message.topic in topics.DOCUMENT_EVENT_TOPICS and owner.organization_id is not None:
            event = read_event_name(message.value)
            rejection = DocumentRejected(
                organization_id=owner.organization_id,
                document_id=owner.document_id,
                reason=refusal.reason,
                detail=_detail(refusal, size_bytes),
                event_id=event.event_id,
                event_type=event.type,
                topic=message.topic,
                message_id=str(message.id),
            )
            await outbox.add(
                database, session, [_rejection_message(rejection, message, organization_id=owner.organization_id)]
            )
        return changed

    if await in_transaction(database, work):
        OUTBOX_UNSENDABLE.labels(topic=message.topic, reason=refusal.reason).inc()
        log.error(
            "outbox.unsendable", topic=message.topic, id=str(message.id), reason=refusal.reason, size_bytes=size_bytes
        )


def _detail(refusal: MessageRefused, size_bytes: int) -> str:
    detail = f"the event was accepted and can't be published: {refusal} ({size_bytes} bytes)"
    if refusal.reason == "too-large":
        detail += "; store the text with PUT /documents/{document_id}/text and publish an event with its text_ref"
    return detail


def _rejection_message(
    rejection: DocumentRejected, message: outbox.OutboxMessage, *, organization_id: str
) -> outbox.NewMessage:
    return outbox.NewMessage(
        rejection,
        topic=topics.KB_EVENTS.name,
        key=organization_id,
        ordering=f"unsendable/{message.id}",
        seq=0,
        source=SOURCE,
        traceparent=message.traceparent,
    )
