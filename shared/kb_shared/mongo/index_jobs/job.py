"""The row of an open job, its states and indexes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pymongo import ASCENDING, IndexModel

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.mongo.database import Row
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.rows import RowMapper

NAME = "index_jobs"
INDEXES = [
    IndexModel([("kb_id", ASCENDING), ("state", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("next_attempt_at", ASCENDING)], partialFilterExpression={"state": {"$in": ["pending", "running"]}}),
    IndexModel([("state", ASCENDING), ("reason", ASCENDING), ("occurred_at", ASCENDING), ("error_type", ASCENDING)]),
    # Few rows: it costs nothing while documents are indexed.
    IndexModel([("organization_id", ASCENDING), ("state", ASCENDING)], partialFilterExpression={"state": "failed"}),
    IndexModel([("organization_id", ASCENDING), ("kb_id", ASCENDING)], partialFilterExpression={"in_lane": True}),
    IndexModel(
        [("queued", ASCENDING), ("organization_id", ASCENDING), ("kb_id", ASCENDING), ("requested_at", ASCENDING)],
        partialFilterExpression={"queued": True},
    ),
]

UNCLAIMED_GRACE = timedelta(minutes=10)
"""Time that a published command may wait in its lane before it is published again."""
PUBLISH_GRACE = timedelta(seconds=60)
"""Time to publish the command of a job that was opened or taken as due. After it, a sweeper publishes the command."""
SUSPECT_AFTER = 3
"""Number of crashed workers after which a document is a suspect. Fewer crashes may be due to other documents that the
worker indexed at the same time; a suspect is indexed alone."""


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
    """Number of workers that died with its lease; from `SUSPECT_AFTER` on, only those that indexed it alone."""
    next_attempt_at: datetime | None
    lease_owner: str | None
    traceparent: str | None
    requested_at: datetime
    occurred_at: datetime
    """Time of the event that requested it; the time to searchable is measured from it."""
    error_type: str | None = None
    error_message: str | None = None
    postponed_until: datetime | None = None
    """Time before which no worker may claim it, after a failed attempt."""
    publication: str | None = None
    """Id of the latest request to publish its command; None if an older version wrote the row."""
    chunk_count: int | None = None
    """Number of chunks of its document; None until it is cut, and of a document whose vectors take one request."""
    embedded_count: int = 0
    """Number of these chunks that have their vectors."""

    @property
    def key(self) -> MembershipKey:
        return MembershipKey(self.organization_id, self.kb_id, self.document_id)

    @property
    def is_suspect(self) -> bool:
        """Return whether it is suspected of crashing its workers."""
        return self.crashes >= SUSPECT_AFTER

    def command(self) -> SyncDocument:
        return SyncDocument(
            organization_id=self.organization_id,
            kb_id=self.kb_id,
            document_id=self.document_id,
            reason=self.reason,
            force=self.force,
        )


def row_id(*, kb_id: str, document_id: str) -> str:
    return f"{kb_id}/{document_id}"


ROWS: Final = RowMapper(IndexJob, convert={"state": IndexJobState, "reason": Reason}, defaults={"crashes": 0})


def build_later_time(time: str, by: timedelta) -> Row:
    """Build the expression for a time that is `by` after the field or variable `time`."""
    return {"$add": [time, milliseconds(by)]}


def milliseconds(length: timedelta) -> int:
    return int(length.total_seconds() * 1000)
