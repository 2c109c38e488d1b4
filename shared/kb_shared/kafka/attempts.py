"""One try at one record, and what it means for the record."""

import asyncio
from dataclasses import dataclass

import structlog

from kb_contracts.errors import Rejected
from kb_shared import failpoints
from kb_shared.errors import Parked, PermanentError, TransientError
from kb_shared.kafka.offsets import OffsetTracker
from kb_shared.kafka.record import DeadLetters, Handler, Place, Record
from kb_shared.kafka.retries import pause_s
from kb_shared.observability import metrics

MAX_TRIES_OF_A_BUG = 3

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Burial:
    """Why a record goes to the dead letters."""

    reason: str
    detail: str


@dataclass(slots=True)
class Job:
    """A record on its way from the broker to done."""

    record: Record
    place: Place
    tracker: OffsetTracker
    tries: int = 0
    """Failed ones, of handling; then, with `burial` set, of the dead letters."""
    bugs: int = 0
    burial: Burial | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The record is not done with; it keeps its turn."""

    pause_s: float


class Attempts:
    """Sorts what a handler raises by what happens to the record."""

    def __init__(self, handler: Handler, dead_letters: DeadLetters) -> None:
        self._handler = handler
        self._dead_letters = dead_letters

    async def attempt(self, job: Job) -> TryAgain | None:
        """Try the record once: None says it is done with, handled or among the dead letters."""
        try:
            if job.burial is None:
                await self._handler.handle(job.record)
            else:
                await self._bury(job.record, job.burial)
        except asyncio.CancelledError as error:
            if _we_are_cancelled():
                raise
            # Some library's own cancellation got out of the handler.
            return self._sort(job, error)
        except Exception as error:  # noqa: BLE001  # the consumer's loop: whatever a handler raises must not end it
            return self._sort(job, error)
        await failpoints.reach("consumer.after_handle")
        outcome = "handled" if job.burial is None else "dead_lettered"
        metrics.EVENTS_CONSUMED.labels(topic=job.record.topic, outcome=outcome).inc()
        return None

    async def _bury(self, record: Record, burial: Burial) -> None:
        await self._dead_letters.publish(record, reason=burial.reason, detail=burial.detail)
        metrics.DLQ_MESSAGES.labels(topic=record.topic, reason=burial.reason).inc()
        log.warning("record.dead_lettered", **_whereabouts(record), reason=burial.reason)

    def _sort(self, job: Job, error: BaseException) -> TryAgain:
        if job.burial is not None:
            return self._again(job, error, retry_after_s=None)
        match error:
            case TransientError() | Parked():
                return self._again(job, error, retry_after_s=error.retry_after_s)
            case Rejected():
                return self._give_up(job, Burial(error.reason, error.detail))
            case PermanentError():
                return self._give_up(job, Burial("permanent_error", error.kind))
            case _:
                return self._after_bug(job, error)

    def _after_bug(self, job: Job, error: BaseException) -> TryAgain:
        job.bugs += 1
        log.error("record.handler_failed", **_whereabouts(job.record), times=job.bugs, exc_info=error)
        if job.bugs >= MAX_TRIES_OF_A_BUG:
            # The type alone: a message may quote the document.
            return self._give_up(job, Burial("internal_error", type(error).__name__))
        return self._again(job, error, retry_after_s=None)

    def _again(self, job: Job, error: BaseException, *, retry_after_s: float | None) -> TryAgain:
        job.tries += 1
        metrics.CONSUMER_RETRIES.labels(topic=job.record.topic).inc()
        pause = pause_s(job.tries, retry_after_s=retry_after_s)
        if job.tries.bit_count() == 1:  # at 1, 2, 4, 8, ...: an outage must not fill the disk
            log.warning(
                "record.retried",
                **_whereabouts(job.record),
                error=type(error).__name__,
                tries=job.tries,
                pause_s=round(pause, 1),
            )
        return TryAgain(pause)

    def _give_up(self, job: Job, burial: Burial) -> TryAgain:
        job.burial = burial
        job.tries = 0
        return TryAgain(0.0)


def _we_are_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _whereabouts(record: Record) -> dict[str, str | int]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}
