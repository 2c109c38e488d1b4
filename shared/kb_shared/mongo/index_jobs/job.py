"""The record of an open job, and how it is found."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pymongo import ASCENDING, IndexModel

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.rows import RowMapper

NAME = "index_jobs"
INDEXES = [
    IndexModel([("kb_id", ASCENDING), ("state", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("next_attempt_at", ASCENDING)], partialFilterExpression={"state": {"$in": ["pending", "running"]}}),
    IndexModel([("state", ASCENDING)]),
]

UNCLAIMED_GRACE = timedelta(minutes=10)
"""How long a published command may wait in its lane before it is published again."""
PUBLISH_GRACE = timedelta(seconds=60)
"""How long whoever opens a job, or takes one that is due, has to publish its command; after that a sweeper does."""
SUSPECT_AFTER = 3
"""So many of its workers may have died of another document; then this one is worked on alone, to find out."""


class IndexJobState(StrEnum):
    WAITING_FOR_TEXT = "waiting_for_text"
    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    PAUSED = "paused"


UNDONE = (IndexJobState.PENDING, IndexJobState.RUNNING, IndexJobState.PAUSED)
"""States of jobs that will be done: now, or when their KB is resumed."""


@dataclass(frozen=True, slots=True)
class IndexJob:
    organization_id: str
    kb_id: str
    document_id: str
    state: IndexJobState
    reason: Reason
    force: bool
    token: str
    attempts: int
    crashes: int
    """How many workers died at work on it; after the first `SUSPECT_AFTER`, those that were alone with it."""
    next_attempt_at: datetime | None
    lease_owner: str | None
    traceparent: str | None
    requested_at: datetime
    occurred_at: datetime
    """The time of the event that asked for it: what searchable is measured from."""
    error_type: str | None = None
    error_message: str | None = None
    postponed_until: datetime | None = None
    """After a failed attempt: before then nobody tries again."""

    @property
    def key(self) -> MembershipKey:
        return MembershipKey(self.organization_id, self.kb_id, self.document_id)

    @property
    def is_suspect(self) -> bool:
        """Return whether it is suspected of killing its workers."""
        return self.crashes >= SUSPECT_AFTER

    def command(self) -> SyncDocument:
        return SyncDocument(
            organization_id=self.organization_id,
            kb_id=self.kb_id,
            document_id=self.document_id,
            reason=self.reason,
            force=self.force,
        )


def row_id(kb_id: str, document_id: str) -> str:
    return f"{kb_id}/{document_id}"


ROWS: Final = RowMapper(IndexJob, convert={"state": IndexJobState, "reason": Reason}, defaults={"crashes": 0})


def milliseconds(length: timedelta) -> int:
    return int(length.total_seconds() * 1000)
