"""Sends the record of a dead letter again, unchanged, to its topic. Repeated requests send it once.

A letter of bytes that could not be read is read again, with the code and the codecs of today.
"""

from collections.abc import Sequence

from kb_api.message_limits import MessageLimits
from kb_contracts import topics
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.kafka.attempts import UNREADABLE_RECORD
from kb_shared.kafka.headers import RecordHeaders, to_wire
from kb_shared.kafka.producer import ProducerMessage
from kb_shared.kafka.record_size import record_bytes
from kb_shared.kafka_connection.record_batches import UnreadableBatch, read_all_records
from kb_shared.messaging.dead_letters import REDRIVEN_FROM
from kb_shared.mongo import dead_letters, outbox
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.dead_letters import DeadLetter
from kb_shared.observability import tracing


def visible_organizations(caller: Caller, *, operator_organization: str | None) -> list[str | None]:
    """Return the organizations whose records the caller may see.

    None stands for records of no known organization: an admin key of the operator's organization sees them, too.
    """
    is_operator = caller.organization_id == operator_organization and Scope.ADMIN in caller.scopes
    return [caller.organization_id, None] if is_operator else [caller.organization_id]


async def redrive_dead_letter(
    database: Database,
    letter_id: str,
    *,
    visible: Sequence[str | None],
    by: str,
    message_limits: MessageLimits,
) -> DeadLetter:
    """Send a letter again and mark it, also a discarded one. If it fails again, it becomes a new letter that names it.

    Args:
        visible: organizations whose letters the caller may see.
        by: id of the caller's key.

    Raises:
        NotFound: there is no such letter among the visible ones.
        RequestError: 409 `dead-letter-too-large` or `dead-letter-unreadable`.
    """

    async def redrive(session: MongoSession) -> DeadLetter:
        letter = await dead_letters.find(database, visible, letter_id, session=session)
        if letter is None:
            raise NotFound("dead letter")
        await send_once(database, session, letter, by=by, message_limits=message_limits)
        return await dead_letters.find(database, visible, letter_id, session=session) or letter

    return await commit_change(database, redrive)


async def send_once(
    database: Database, session: MongoSession, letter: DeadLetter, *, by: str, message_limits: MessageLimits
) -> bool:
    """Add what a letter contains to the outbox and mark the letter; return False if it was marked before.

    Raises:
        RequestError: 409 `dead-letter-too-large` or `dead-letter-unreadable`.
    """
    if not await dead_letters.mark_redriven(database, session, letter, by=by):
        return False
    await _send(database, session, letter=letter, message_limits=message_limits)
    return True


async def _send(
    database: Database, session: MongoSession, *, letter: DeadLetter, message_limits: MessageLimits
) -> None:
    value = await dead_letters.read_body(database, letter, session)
    topic = next((topic for topic in topics.TOPICS if topic.name == letter.topic), topics.DOCUMENT_EVENTS)
    records = []
    for message in _read_messages(letter, value):
        if record_bytes(message) > message_limits.get_limit(topic):
            raise RequestError(
                409,
                "dead-letter-too-large",
                "The record is larger than Kafka accepts. Store the text with PUT /documents/{document_id}/text and "
                "publish an event with its text_ref.",
            )
        headers = to_wire(message.headers)
        traceparent = tracing.from_headers(headers) or letter.traceparent
        records.append(outbox.ReceivedRecord(message.topic, message.key, message.value, headers, traceparent))
    if records:
        await outbox.add_records(database, session, records, ordering=f"dead-letter/{letter.letter_id}")


def _read_messages(letter: DeadLetter, value: bytes | None) -> list[ProducerMessage]:
    """Return the messages to send.

    Raises:
        RequestError: 409 `dead-letter-unreadable`.
    """
    if letter.reason != UNREADABLE_RECORD:
        return [ProducerMessage(letter.topic, letter.key, value, _name_letter(letter.headers, letter))]
    try:
        records = read_all_records(value or b"")
    except UnreadableBatch as error:
        raise RequestError(
            409,
            "dead-letter-unreadable",
            f"The records still can't be read: {error}. Ask their producer to publish them again, then discard the "
            "dead letter.",
        ) from error
    return [
        ProducerMessage(letter.topic, record.key, record.value, _name_letter(record.headers, letter))
        for record in records
    ]


def _name_letter(headers: RecordHeaders, letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    others = [each for each in headers if each[0] != REDRIVEN_FROM]
    return [*others, (REDRIVEN_FROM, letter.letter_id.encode())]
