"""Adds messages about a transaction to the outbox, so that they are sent if, and only if, it commits."""

from dataclasses import dataclass

from kb_contracts import topics
from kb_contracts.outcomes import Outcome, SpuCharged, key_of, ordering_of
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.observability import tracing


@dataclass(frozen=True, slots=True)
class Announcement:
    outcome: Outcome
    seq: int
    """Position among the messages with the same ordering key: they are sent in this order."""
    traceparent: str | None = None
    """Trace of the cause; by default the current trace."""


async def announce(database: Database, session: MongoSession, *announcements: Announcement, source: str) -> None:
    """Add outcomes to the outbox, which are sent if the transaction commits."""
    await outbox.add(database, session, [_message(each, source=source) for each in announcements])


def _message(announcement: Announcement, *, source: str) -> outbox.NewMessage:
    outcome = announcement.outcome
    return outbox.NewMessage(
        outcome,
        topic=(topics.USAGE if isinstance(outcome, SpuCharged) else topics.KB_EVENTS).name,
        key=key_of(outcome),
        ordering=ordering_of(outcome),
        seq=announcement.seq,
        source=source,
        traceparent=announcement.traceparent or tracing.current(),
    )
