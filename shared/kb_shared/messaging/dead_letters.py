"""Where records go that nobody can use: filed in MongoDB and told on `kb-dead-letters`, byte for byte, with the reason.

Whose a letter is comes from the record's key and from what it says itself. If they differ, or neither says, it is
nobody's: only the operator of the platform sees it.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from kb_contracts import topics
from kb_contracts.cloudevents import CONTENT_TYPE, MAX_EVENT_BYTES, encode
from kb_contracts.identifiers import is_identifier
from kb_contracts.outcomes import DocumentRejected
from kb_shared.errors import MessageRefused
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.record import Record
from kb_shared.kafka.record_size import record_bytes
from kb_shared.mongo import dead_letters
from kb_shared.mongo.database import Database
from kb_shared.mongo.dead_letters import DeadLetter
from kb_shared.observability import tracing

SOURCE: Final = "/kb/dead-letters"
REDRIVEN_FROM: Final = "x-redriven-from"
"""Header of a record that was a dead letter and was sent again: which one."""

MAX_DETAIL_CHARACTERS: Final = 1_000

log = structlog.get_logger()

_LETTER_ID = re.compile(r"[0-9a-f]{32}")
# Printable, without half a character, and no longer than contracts allow.
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,256}")


class DeadLetterPublisher:
    """Keeps a record before it is skipped. A crash may have it told twice, never not at all."""

    def __init__(self, database: Database, producer: Producer, *, topic_prefix: str) -> None:
        self._database = database
        self._producer = producer
        self._prefix = topic_prefix
        self._topic = topic_prefix + topics.DEAD_LETTERS.name
        self._outcomes = topic_prefix + topics.KB_EVENTS.name

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        """Return once the record is filed and told, as far as Kafka takes it.

        Where the topic does not take the whole record, the body is left out and, if needed, the key: `x-body-ref` and
        `x-key-ref` then say under which id they are filed.
        """
        detail = _bounded(detail)
        letter = self._letter(record, reason, detail)
        await dead_letters.file(self._database, letter, record.value)
        await self._tell_operators(record, letter)
        await self._tell_upstream(record, letter)

    async def _tell_operators(self, record: Record, letter: DeadLetter) -> None:
        refused = "too-large"
        for message in _forms(self._topic, record, letter):
            if record_bytes(message) > topics.DEAD_LETTERS.max_message_bytes:
                continue
            try:
                await self._producer.send(message.topic, message.key, message.value, message.headers)
            except MessageRefused as error:
                refused = error.reason
            else:
                return
        # It is filed and listed; only readers of the topic do not see it.
        log.error("dead_letter.not_published", dead_letter_id=letter.letter_id, reason=refused)

    def _letter(self, record: Record, reason: str, detail: str) -> DeadLetter:
        topic = record.topic.removeprefix(self._prefix)
        organization_id, document_id = whose(topic, record.key, record.value)
        return DeadLetter(
            letter_id=_identity(record),
            organization_id=organization_id,
            document_id=document_id,
            topic=topic,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            headers=record.headers,
            size_bytes=None if record.value is None else len(record.value),
            reason=reason,
            detail=detail,
            traceparent=tracing.from_headers(record.headers) or tracing.current(),
            occurred_at=_time(record.timestamp_ms),
            filed_at=datetime.now(UTC),
            redriven_from=_redriven_from(record),
        )

    async def _tell_upstream(self, record: Record, letter: DeadLetter) -> None:
        organization_id, document_id = _named_by(letter.topic, record.key)
        if organization_id is None:
            return
        # What another organization wrote, or nobody can tell, is not repeated to the one of the key.
        event = event_named_in(record.value) if letter.organization_id == organization_id else EventName()
        rejection = DocumentRejected(
            organization_id=organization_id,
            document_id=document_id,
            reason=letter.reason,
            detail=letter.detail,
            event_id=event.event_id,
            event_type=event.type,
            topic=letter.topic,
            partition=record.partition,
            offset=record.offset,
            dead_letter_id=letter.letter_id,
        )
        try:
            await self._producer.send(
                self._outcomes,
                organization_id.encode(),
                encode(rejection, source=SOURCE),
                {"content-type": CONTENT_TYPE, tracing.HEADER: tracing.current()},
            )
        except MessageRefused:
            # The letter is filed all the same; a partition must not wait for a topic that is set up wrongly.
            log.exception("rejection.not_published", organization_id=organization_id)


def _forms(topic: str, record: Record, letter: DeadLetter) -> Iterator[ProducerMessage]:
    """Yield the message about a dead letter, each time with less of the record."""
    headers = {
        "x-dead-letter-id": letter.letter_id,
        "x-reason": letter.reason,
        "x-detail": letter.detail,
        "x-topic": record.topic,
        "x-partition": str(record.partition),
        "x-offset": str(record.offset),
        "x-timestamp-ms": str(record.timestamp_ms),
        tracing.HEADER: letter.traceparent,
    }
    if letter.redriven_from is not None:
        headers[REDRIVEN_FROM] = letter.redriven_from
    yield ProducerMessage(topic, record.key, record.value, headers)
    body_ref = {} if record.value is None else {"x-body-ref": letter.letter_id}
    yield ProducerMessage(topic, record.key, None, headers | body_ref)
    yield ProducerMessage(topic, None, None, headers | body_ref | {"x-key-ref": letter.letter_id})


def _bounded(detail: str) -> str:
    """Cut a text to what fits into a header, and replace what UTF-8 has no bytes for."""
    return detail[:MAX_DETAIL_CHARACTERS].encode(errors="replace").decode()


def whose(topic: str, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Organization and document of a record; of neither more is said than its key and its envelope agree upon."""
    named = [_named_by(topic, key), _told_by(value)]
    organizations = {organization_id for organization_id, _ in named if organization_id is not None}
    if len(organizations) != 1:
        return None, None
    documents = {document_id for _, document_id in named if document_id is not None}
    return organizations.pop(), documents.pop() if len(documents) == 1 else None


def _named_by(topic: str, key: bytes | None) -> tuple[str | None, str | None]:
    """As the key has it, where it has the form of one; keys of other topics name other things, such as a KB."""
    parts = (key or b"").decode(errors="replace").split("/")
    if topic != topics.DOCUMENT_EVENTS.name or not all(map(_is_identifier, parts)):
        return None, None
    match parts:
        case [organization_id, document_id]:
            return organization_id, document_id
        case [organization_id, "tag", _]:
            return organization_id, None
    return None, None


@dataclass(frozen=True, slots=True)
class EventName:
    """Name of an event, as far as it can be read."""

    event_id: str | None = None
    type: str | None = None


def event_named_in(value: bytes | None) -> EventName:
    """Read how a message calls itself; it may be anything else."""
    envelope = _envelope_of(value)
    event_id, kind = envelope.get("id"), envelope.get("type")
    return EventName(event_id if _is_name(event_id) else None, kind if _is_name(kind) else None)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _envelope_of(value: bytes | None) -> dict[str, Any]:
    """Empty where a message is none, or can't be read."""
    if value is None or len(value) > MAX_EVENT_BYTES:
        return {}
    try:
        envelope = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return envelope if isinstance(envelope, dict) else {}


def _told_by(value: bytes | None) -> tuple[str | None, str | None]:
    """As the message says itself, as far as it can be read."""
    data = _envelope_of(value).get("data")
    if not isinstance(data, dict):
        return None, None
    organization_id, document_id = data.get("organization_id"), data.get("document_id")
    return (
        organization_id if _is_identifier(organization_id) else None,
        document_id if _is_identifier(document_id) else None,
    )


def _is_identifier(value: Any) -> bool:
    return isinstance(value, str) and is_identifier(value)


def _identity(record: Record) -> str:
    """The same for the same record of the same place, and for no other: brokers may begin to count again."""
    place = (record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.headers)
    digest = hashlib.sha256(repr(place).encode())
    digest.update(b"-" if record.value is None else b"+" + record.value)
    return digest.hexdigest()[:32]


def _time(timestamp_ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
    except (OverflowError, ValueError, OSError):
        # Producers may write any number there.
        return None


def _redriven_from(record: Record) -> str | None:
    named = next((value.decode(errors="replace") for name, value in record.headers if name == REDRIVEN_FROM), None)
    return named if named is not None and _LETTER_ID.fullmatch(named) else None
