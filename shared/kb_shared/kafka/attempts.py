"""Calls the handler for a record, and decides by the error whether to retry or to publish a dead letter."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from kb_contracts.errors import Rejected
from kb_shared import failpoints
from kb_shared.errors import Parked, PermanentError, TransientError
from kb_shared.kafka.offsets import OffsetTracker
from kb_shared.kafka.record import DeadLetters, Handler, OrderingKey, Record
from kb_shared.kafka.retries import pause_s
from kb_shared.observability import metrics, spans, tracing
from kb_shared.observability.tracing import TraceSpan

MAX_TRIES_OF_A_BUG = 3
UNREADABLE_RECORD: Final = "unreadable-record"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DeadLetterReason:
    """Reason why a record goes to the dead letters."""

    reason: str
    detail: str


def name_unreadable(detail: str) -> DeadLetterReason:
    """Return the reason of bytes of the log that can't be read as records."""
    return DeadLetterReason(UNREADABLE_RECORD, detail)


@dataclass(slots=True)
class InFlightRecord:
    """A record that was read and is not finished."""

    record: Record
    ordering_key: OrderingKey
    tracker: OffsetTracker
    held_bytes: int = 0
    """Memory that it takes."""
    tries: int = 0
    """Number of failed tries: of the handler, or of the dead letters once `dead_letter_reason` is set."""
    bugs: int = 0
    dead_letter_reason: DeadLetterReason | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Result of a try that failed: the record stays first under its ordering key and is tried again."""

    pause_s: float


class Attempts:
    """Calls a handler and classifies the errors that it raises."""

    def __init__(self, handler: Handler, dead_letters: DeadLetters) -> None:
        self._handler = handler
        self._dead_letters = dead_letters

    async def attempt(self, item: InFlightRecord) -> TryAgain | None:
        """Try the record once; return None if it is finished, which means handled or among the dead letters."""
        incoming = _read_traceparent(item.record)
        with tracing.trace(spans.PROCESS, _span_attributes(item), of=item.record.topic, incoming=incoming) as span:
            return await self._attempt(item, span)

    async def _attempt(self, item: InFlightRecord, span: TraceSpan) -> TryAgain | None:
        try:
            if item.dead_letter_reason is None:
                await self._handler.handle(item.record)
            else:
                await self._publish_dead_letter(item.record, item.dead_letter_reason)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            # A library cancelled something of its own inside the handler.
            return self._classify(item, error, span=span)
        except Exception as error:  # noqa: BLE001  # the consumer's loop: no error of a handler may end it
            return self._classify(item, error, span=span)
        await failpoints.reach("consumer.after_handle")
        outcome = "handled" if item.dead_letter_reason is None else "dead_lettered"
        metrics.EVENTS_CONSUMED.labels(topic=item.record.topic, outcome=outcome).inc()
        span.set({"kb.outcome": outcome})
        return None

    async def _publish_dead_letter(self, record: Record, dead_letter_reason: DeadLetterReason) -> None:
        await self._dead_letters.publish(record, reason=dead_letter_reason.reason, detail=dead_letter_reason.detail)
        metrics.DLQ_MESSAGES.labels(topic=record.topic, reason=dead_letter_reason.reason).inc()
        log.warning("record.dead_lettered", **_log_fields(record), reason=dead_letter_reason.reason)

    def _classify(self, item: InFlightRecord, error: BaseException, *, span: TraceSpan) -> TryAgain:
        span.fail(error)
        decision = self._decide(item, error)
        span.set({"kb.outcome": "retried" if item.dead_letter_reason is None else "refused"})
        return decision

    def _decide(self, item: InFlightRecord, error: BaseException) -> TryAgain:
        if item.dead_letter_reason is not None:
            return self._retry(item, error, retry_after_s=None)
        match error:
            case TransientError() | Parked():
                return self._retry(item, error, retry_after_s=error.retry_after_s)
            case Rejected():
                return self._give_up(item, DeadLetterReason(error.reason, error.detail))
            case PermanentError():
                return self._give_up(item, DeadLetterReason("permanent_error", error.kind))
            case _:
                return self._after_bug(item, error)

    def _after_bug(self, item: InFlightRecord, error: BaseException) -> TryAgain:
        item.bugs += 1
        log.error("record.handler_failed", **_log_fields(item.record), times=item.bugs, exc_info=error)
        if item.bugs >= MAX_TRIES_OF_A_BUG:
            # Only the type: the message may quote the document.
            return self._give_up(item, DeadLetterReason("internal_error", type(error).__name__))
        return self._retry(item, error, retry_after_s=None)

    def _retry(self, item: InFlightRecord, error: BaseException, *, retry_after_s: float | None) -> TryAgain:
        item.tries += 1
        metrics.CONSUMER_RETRIES.labels(topic=item.record.topic).inc()
        pause = pause_s(item.tries, retry_after_s=retry_after_s)
        if item.tries.bit_count() == 1:  # at 1, 2, 4, 8, ...: an outage must not fill the disk
            log.warning(
                "record.retried",
                **_log_fields(item.record),
                error=type(error).__name__,
                tries=item.tries,
                pause_s=round(pause, 1),
            )
        return TryAgain(pause)

    def _give_up(self, item: InFlightRecord, dead_letter_reason: DeadLetterReason) -> TryAgain:
        item.dead_letter_reason = dead_letter_reason
        item.tries = 0
        return TryAgain(0.0)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _read_traceparent(record: Record) -> str | None:
    try:
        return tracing.from_headers(record.headers)
    except Exception:
        # A bug, but what a record contains must not end the consumer: it is handled in a trace of its own.
        log.exception("record.trace_not_read", **_log_fields(record))
        return None


def _span_attributes(item: InFlightRecord) -> tracing.Attributes | None:
    if not tracing.is_recording():
        return None
    record = item.record
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
        "kb.tries": item.tries,
    }


def _log_fields(record: Record) -> dict[str, str | int]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}
