"""Publishes dead letters: records that can't be used, stored in MongoDB and sent to `kb-dead-letters`, unchanged.

The organization of a dead letter is in the key or in the value of the record. If both differ, neither has one, or there
is no such organization, only the operators of the platform see it.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from bson import ObjectId

from kb_contracts import topics
from kb_contracts.event_forms import EventHeaders, read_events_leniently
from kb_contracts.outcomes import DocumentRejected
from kb_shared import failpoints
from kb_shared.concurrency.batch_writer import BatchWriter
from kb_shared.errors import MessageRefused
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.record import Record
from kb_shared.kafka.record_size import record_bytes
from kb_shared.messaging.event_keys import (
    KEY_OF_ANOTHER_ORGANIZATION,
    NO_OWNER,
    Owner,
    read_content,
    read_key,
)
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.mongo import dead_letters, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.dead_letters import DeadLetter, Filing
from kb_shared.observability import tracing

SOURCE: Final = "/kb/dead-letters"
REDRIVEN_FROM: Final = "x-redriven-from"
"""Header of a redriven record, with the id of its dead letter."""

MAX_DETAIL_CHARACTERS: Final = 1_000
_OBJECT_ID_DIGITS: Final = 24

log = structlog.get_logger()

_LETTER_ID = re.compile(r"[0-9a-f]{32}")
# Printable, without lone surrogates, and no longer than contracts allow.
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,256}")


class DeadLetterPublisher:
    """Stores and publishes a record before it is skipped. After a crash it may be published twice."""

    def __init__(
        self,
        database: Database,
        producer: Producer,
        *,
        topic_prefix: str,
        organizations: KnownOrganizations | None = None,
    ) -> None:
        """Create the publisher.

        Args:
            database: with the stored letters.
            producer: sends them.
            topic_prefix: of the deployment.
            organizations: those to which letters belong; None: any that a record names.
        """
        self._database = database
        self._organizations = organizations
        self._producer = producer
        self._prefix = topic_prefix
        self._topic = topic_prefix + topics.DEAD_LETTERS.name
        self._file = BatchWriter(partial(dead_letters.file, database))
        self._announce = BatchWriter(self._add_announcements)

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        """Return once the record is stored and published, as far as Kafka accepts it.

        If the topic does not accept the whole record, the body is omitted and, if needed, the key. `x-body-ref` and
        `x-key-ref` then contain the id under which they are stored.
        """
        owner = await self._find_owner(record)
        letter = self._letter(record, reason, _shorten(detail), owner=owner)
        await self._file(Filing(letter, record.value))
        await failpoints.reach("dead_letter.after_filing")
        await self._publish_dead_letter(record, letter)
        await failpoints.reach("dead_letter.after_publishing")
        await self._announce_rejection(record, letter)
        await failpoints.reach("dead_letter.after_announcing")

    async def _publish_dead_letter(self, record: Record, letter: DeadLetter) -> None:
        refused = "too-large"
        for message in _message_variants(self._topic, record, letter):
            if record_bytes(message) > topics.DEAD_LETTERS.max_message_bytes:
                continue
            try:
                await self._producer.send(message.topic, message.key, value=message.value, headers=message.headers)
            except MessageRefused as error:
                refused = error.reason
            else:
                return
        # It is stored and listed; only readers of the topic do not see it.
        log.error("dead_letter.publish_failed", dead_letter_id=letter.letter_id, reason=refused)

    async def _find_owner(self, record: Record) -> Owner:
        in_key = await self._if_known(_owner_in_key(self._topic_of(record), record.key))
        return _agree(in_key, await self._if_known(read_content(record.value, record.headers)))

    async def _if_known(self, owner: Owner) -> Owner:
        """Return an owner whose organization exists; of another one, none."""
        if self._organizations is None or owner.organization_id is None:
            return owner
        return owner if await self._organizations.is_known(owner.organization_id) else NO_OWNER

    def _topic_of(self, record: Record) -> str:
        return record.topic.removeprefix(self._prefix)

    def _letter(self, record: Record, reason: str, detail: str, *, owner: Owner) -> DeadLetter:
        return DeadLetter(
            letter_id=_letter_id(record),
            organization_id=owner.organization_id,
            document_id=owner.document_id,
            topic=self._topic_of(record),
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            headers=record.headers,
            size_bytes=None if record.value is None else len(record.value),
            reason=reason,
            detail=detail,
            traceparent=tracing.from_headers(record.headers) or tracing.current(),
            occurred_at=record.written_at,
            filed_at=datetime.now(UTC),
            redriven_from=_redriven_from(record),
        )

    async def _announce_rejection(self, record: Record, letter: DeadLetter) -> None:
        if letter.topic not in topics.DOCUMENT_EVENT_TOPICS:
            return
        owner = await self._if_known(_owner_in_key(letter.topic, record.key))
        event = read_event_name(record.value, record.headers)
        reason, detail = letter.reason, letter.detail
        if owner.organization_id in (None, letter.organization_id):
            owner = Owner(letter.organization_id, letter.document_id)
        else:
            # The record may be of another organization than its key, to which nothing of its contents is sent.
            event, reason, detail = EventIdentity(), "key-mismatch", KEY_OF_ANOTHER_ORGANIZATION
        if owner.organization_id is None:
            return
        rejection = DocumentRejected(
            organization_id=owner.organization_id,
            document_id=owner.document_id,
            reason=reason,
            detail=detail,
            event_id=event.event_id,
            event_type=event.type,
            topic=letter.topic,
            partition=record.partition,
            offset=record.offset,
            dead_letter_id=letter.letter_id,
        )
        message = outbox.NewMessage(
            rejection,
            topic=topics.KB_EVENTS.name,
            key=owner.organization_id,
            ordering=f"dead-letter/{letter.letter_id}",
            seq=0,
            source=SOURCE,
            traceparent=tracing.current(),
        )
        # The id depends on the record only: a record that is read again after a crash is rejected once.
        await self._announce(_RejectionNotice(ObjectId(letter.letter_id[:_OBJECT_ID_DIGITS]), message))

    async def _add_announcements(self, announcements: Sequence["_RejectionNotice"]) -> None:
        await outbox.add_once(self._database, {each.message_id: each.message for each in announcements})


@dataclass(frozen=True, slots=True, eq=False)
class _RejectionNotice:
    message_id: ObjectId
    message: outbox.NewMessage


def _message_variants(topic: str, record: Record, letter: DeadLetter) -> Iterator[ProducerMessage]:
    """Yield variants of the message of a dead letter, each with less of the record."""
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


def _shorten(detail: str) -> str:
    """Shorten a text for a header, and replace characters that UTF-8 can't encode."""
    return detail[:MAX_DETAIL_CHARACTERS].encode(errors="replace").decode()


def find_owner(topic: str, key: bytes | None, *, value: bytes | None, headers: EventHeaders = ()) -> Owner:
    """Return whose a record of any topic is, as far as its key and its content agree."""
    return _agree(_owner_in_key(topic, key), read_content(value, headers))


def _agree(in_key: Owner, content: Owner) -> Owner:
    """Return the only organization that key and content name, with the document of the content."""
    organizations = {each.organization_id for each in (in_key, content) if each.organization_id is not None}
    if len(organizations) != 1:
        return NO_OWNER
    document_id = in_key.document_id if content.key is None else content.document_id
    return Owner(organizations.pop(), document_id)


def _owner_in_key(topic: str, key: bytes | None) -> Owner:
    """Read the key of a document event. Keys of other topics have other forms."""
    return read_key(key) if topic in topics.DOCUMENT_EVENT_TOPICS else NO_OWNER


@dataclass(frozen=True, slots=True)
class EventIdentity:
    """Id and type of an event, as far as they can be read."""

    event_id: str | None = None
    type: str | None = None


def read_event_name(value: bytes | None, headers: EventHeaders = ()) -> EventIdentity:
    """Read id and type of an event, which may have any form."""
    event = next(read_events_leniently(value, headers), {})
    event_id, kind = event.get("id"), event.get("type")
    return EventIdentity(event_id if _is_name(event_id) else None, kind if _is_name(kind) else None)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _letter_id(record: Record) -> str:
    """Return an id that depends on position and content: brokers may start their offsets again."""
    place = (record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.headers)
    digest = hashlib.sha256(repr(place).encode())
    digest.update(b"-" if record.value is None else b"+" + record.value)
    return digest.hexdigest()[:32]


def _redriven_from(record: Record) -> str | None:
    named = (value.decode(errors="replace") for name, value in record.headers if name == REDRIVEN_FROM and value)
    return next((letter_id for letter_id in named if _LETTER_ID.fullmatch(letter_id)), None)
