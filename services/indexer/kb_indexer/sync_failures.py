"""Decides what happens to the job of a document that could not be brought up to date.

The type of the error decides (the tree is in `kb_shared/errors.py`):

1. The provider, its key, a limit or a budget can't be used now: the job is parked. The document is sound, so it may
   wait for any time and uses up no attempt.
2. Another process took the job: it is left to that process.
3. Other transactions were in the way, or everything was too slow: the job comes back in two seconds. It uses up an
   attempt only if the document was in work alone.
4. Any other transient error, a bug of the indexer, or an answer of the provider that can't be used: the job comes back
   with exponential backoff and uses up an attempt. Without attempts left (ten, or three of the last two), the document
   fails.
5. A permanent error: the document fails now.

Nothing waits in the partition: a job that comes back is a row in `index_jobs` with a later time.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from kb_contracts import topics
from kb_contracts.outcomes import DocumentIndexFailed, DocumentRejected, key_of, ordering_of
from kb_indexer.consumer.job_leases import JobLeases, LeaseLost
from kb_indexer.consumer.load import Load
from kb_indexer.source import SOURCE
from kb_shared.errors import (
    BudgetExhausted,
    Parked,
    PermanentError,
    ProviderIncompatible,
    ProviderKeyMissing,
    ProviderKeyRefused,
    ProviderPaused,
    ProviderUnavailable,
    SensitiveDocument,
    TimedOut,
    TransactionExpired,
    TransientError,
    WriteConflicts,
)
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import documents, index_jobs, outbox
from kb_shared.mongo.database import Database, MongoSession, in_transaction, mongo_errors
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import DocumentKey
from kb_shared.observability import tracing
from kb_shared.observability.metrics import INDEXING_ERRORS

SENSITIVE: Final = "sensitive-content"
MAX_ATTEMPTS: Final = 10
MAX_ATTEMPTS_AT_A_BUG: Final = 3
MAX_BAD_ANSWERS: Final = 3
"""Number of answers of a provider that can't be used: each may be paid for, and the next one is probably the same."""
_LONGEST_DELAY_S: Final = 300.0
_LONGEST_WITHOUT_BUDGET_S: Final = 3_600.0
_LONGEST_WHILE_PAUSED_S: Final = 60.0
"""A job that a worker parks in the moment of the resumption, which makes the others due at once, waits for so long."""
_AFTER_CONFLICTS_S: Final = 2.0
_SHORTEST_PARKING_S: Final = 5.0

log = structlog.get_logger()

ParkingError = ProviderUnavailable | ProviderKeyMissing | ProviderKeyRefused | Parked


class InternalError(TransientError):
    """A bug of the indexer. Says only the type of the exception: its message may quote the document."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"an error of the indexer itself ({type(error).__name__}); see its log")


class SyncFailures:
    """Requeues jobs and fails documents."""

    def __init__(self, database: Database, leases: JobLeases, load: Load) -> None:
        self._database = database
        self._leases = leases
        self._load = load

    @asynccontextmanager
    async def requeue_or_fail(self, job: IndexJob) -> AsyncIterator[None]:
        """Work on `job` in the block: whatever the work raises ends here, and decides what becomes of the job."""
        try:
            with self._load.noticing_overload(), mongo_errors():
                yield
        except ProviderIncompatible as error:
            await self._retry_with_backoff(job, error, max_attempts=MAX_BAD_ANSWERS)
        except (ProviderUnavailable, ProviderKeyMissing, ProviderKeyRefused, Parked) as error:
            await self._park_job(job, error)
        except LeaseLost:
            log.warning("document.left_to_another")
        except WriteConflicts as error:
            await self._retry_soon(job, error, event="document.conflicted")
        except TimedOut as error:
            # Alone there is nothing to wait for: a document that never ends in time must not be tried for ever.
            alone = self._load.in_flight == 1
            await self._retry_soon(job, error, event="document.timed_out", count_attempt=alone)
        except TransientError as error:
            await self._retry_with_backoff(job, error)
        except PermanentError as error:
            await self.fail_document(
                job, error.error_type, str(error), is_sensitive=isinstance(error, SensitiveDocument)
            )
        except Exception as error:  # a bug: the document says so, and the partition goes on
            log.exception("document.crashed")
            await self._retry_with_backoff(job, InternalError(error), max_attempts=MAX_ATTEMPTS_AT_A_BUG)

    async def fail_document(self, job: IndexJob, error_type: str, message: str, *, is_sensitive: bool = False) -> None:
        """Fail the document, and announce it. The job ends unless it was requested again meanwhile."""
        INDEXING_ERRORS.labels(job.kb_id, error_type).inc()

        async def work(session: MongoSession) -> bool:
            if not await index_jobs.fail(self._database, job, session, error_type=error_type, error_message=message):
                return False
            document = await documents.find(
                self._database, DocumentKey(job.organization_id, job.document_id), session=session
            )
            failure = DocumentIndexFailed(
                organization_id=job.organization_id,
                kb_id=job.kb_id,
                document_id=job.document_id,
                error_type=error_type,
                message=message,
                # A newer one than was tried, in the moment before it is requested, is indexed right after this.
                revision=None if document is None or document.text is None else document.text.revision,
            )
            sequences = await documents.advance_sequences(
                self._database, session, job.organization_id, document_ids=[job.document_id]
            )
            sequence = sequences.get(job.document_id, 0)
            await announce(self._database, session, Announcement(failure, sequence), source=SOURCE)
            if is_sensitive:
                await outbox.add(self._database, session, [_rejection_of(failure, sequence)])
            return True

        failed = await in_transaction(self._database, work)
        await self._leases.close_job(job, finished=failed)
        log.warning("document.failed", error_type=error_type, attempts=job.attempts)

    async def _park_job(self, job: IndexJob, error: ParkingError) -> None:
        """Let the job wait for the provider, the key or the budget."""
        if isinstance(error, TransientError) and error.error_type == "bad_answer":
            # Each answer is paid for, so these attempts are counted.
            await self._retry_with_backoff(job, error, max_attempts=MAX_BAD_ANSWERS)
            return
        INDEXING_ERRORS.labels(job.kb_id, error.error_type).inc()
        # Half of the time that it has waited: soon at first, seldom in a long outage.
        waited_s = (datetime.now(UTC) - job.requested_at).total_seconds()
        longest_s = _LONGEST_WHILE_PAUSED_S if isinstance(error, ProviderPaused) else _LONGEST_DELAY_S
        backoff_s = min(max(waited_s / 2, _SHORTEST_PARKING_S), longest_s)
        delay = timedelta(seconds=max(_jittered(backoff_s), _asked_s(error)))
        await index_jobs.postpone(
            self._database,
            job,
            delay=delay,
            error_type=error.error_type,
            error_message=str(error),
            count_attempt=False,
        )
        log.warning("document.parked", error_type=error.error_type, delay_s=delay.total_seconds())

    async def _retry_soon(
        self, job: IndexJob, error: WriteConflicts | TimedOut, *, event: str, count_attempt: bool = False
    ) -> None:
        """Let the job come back in two seconds.

        After a conflict: a process that was killed in a transaction holds its rows for up to a minute. After a time
        limit: fewer documents in flight are quicker.
        """
        if count_attempt and job.attempts >= MAX_ATTEMPTS:
            await self.fail_document(job, _error_type(error), str(error))
            return
        INDEXING_ERRORS.labels(job.kb_id, _error_type(error)).inc()
        await index_jobs.postpone(
            self._database,
            job,
            delay=timedelta(seconds=_jittered(_AFTER_CONFLICTS_S)),
            error_type=_error_type(error),
            error_message=str(error),
            count_attempt=count_attempt,
        )
        log.warning(event, attempts=job.attempts)

    async def _retry_with_backoff(
        self, job: IndexJob, error: TransientError | ProviderIncompatible, *, max_attempts: int = MAX_ATTEMPTS
    ) -> None:
        """Let the job come back after 2, 4, 8 ... seconds, or fail its document after the last attempt."""
        error_type = _error_type(error)
        if job.attempts >= max_attempts:
            await self.fail_document(job, error_type, str(error))
            return
        INDEXING_ERRORS.labels(job.kb_id, error_type).inc()
        backoff_s = _jittered(min(2.0**job.attempts, _LONGEST_DELAY_S))
        asked_s = error.retry_after_s if isinstance(error, TransientError) else None
        delay = timedelta(seconds=max(backoff_s, asked_s or 0))
        await index_jobs.postpone(self._database, job, delay=delay, error_type=error_type, error_message=str(error))
        log.warning("document.postponed", error_type=error_type, attempts=job.attempts, delay_s=delay.total_seconds())


def _rejection_of(failure: DocumentIndexFailed, sequence: int) -> outbox.NewMessage:
    """Return the message by which the sender of a text learns that a KB refuses it."""
    rejection = DocumentRejected(
        organization_id=failure.organization_id,
        document_id=failure.document_id,
        kb_id=failure.kb_id,
        revision=failure.revision,
        reason=SENSITIVE,
        detail=failure.message,
    )
    return outbox.NewMessage(
        rejection,
        topic=topics.KB_EVENTS.name,
        key=key_of(failure),
        ordering=f"{ordering_of(failure)}/rejected",
        seq=sequence,
        source=SOURCE,
        traceparent=tracing.current(),
    )


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # no secret


def _asked_s(error: ParkingError) -> float:
    """Return how long the error itself asks to wait."""
    match error:
        case ProviderKeyMissing() | ProviderKeyRefused():
            return 0
        case BudgetExhausted():
            # The error asks to wait until the month ends, but a recount may find room before. A higher budget makes the
            # job due at once.
            return _jittered(min(error.retry_after_s, _LONGEST_WITHOUT_BUDGET_S))
    return error.retry_after_s or 0


def _error_type(error: TransientError | ProviderIncompatible) -> str:
    match error:
        case ProviderUnavailable() | ProviderIncompatible():
            return error.error_type
        case InternalError():
            return "internal_error"
        case TransactionExpired():
            return "transaction_expired"
        case TimedOut():
            return "overloaded"
    return "mongo_transient"
