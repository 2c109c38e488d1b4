"""Tells the world what a transaction did: through the outbox, so that it is told if, and only if, it was done."""

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
    """It is sent after those of its ordering with a lower one."""
    traceparent: str | None = None
    """Trace of its cause; by default that of the current work."""


async def announce(database: Database, session: MongoSession, *announcements: Announcement, source: str) -> None:
    """Have outcomes sent if the transaction commits."""
    await outbox.add(database, session, [_message(each, source=source) for each in announcements])


def _message(announcement: Announcement, *, source: str) -> outbox.New:
    outcome = announcement.outcome
    return outbox.New(
        outcome,
        topic=(topics.USAGE if isinstance(outcome, SpuCharged) else topics.KB_EVENTS).name,
        key=key_of(outcome),
        ordering=ordering_of(outcome),
        seq=announcement.seq,
        source=source,
        traceparent=announcement.traceparent or tracing.current(),
    )
