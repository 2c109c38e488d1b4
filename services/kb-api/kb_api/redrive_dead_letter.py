"""Sends a dead letter again: the record as it came, to the topic it came from. Once, however often it is asked for."""

from kb_api.services import Services
from kb_contracts import topics
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.kafka.producer import ProducerMessage
from kb_shared.kafka.record_size import record_bytes
from kb_shared.messaging.dead_letters import REDRIVEN_FROM
from kb_shared.mongo import dead_letters, outbox
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.dead_letters import DeadLetter


def visible_to(api: Services, caller: Caller) -> list[str | None]:
    """The caller's own letters; to the platform's operator also those that can't be told to be anybody's."""
    is_operator = caller.organization_id == api.settings.operator_organization and Scope.ADMIN in caller.scopes
    return [caller.organization_id, None] if is_operator else [caller.organization_id]


async def redrive_dead_letter(api: Services, caller: Caller, letter_id: str) -> DeadLetter:
    """Return the letter, marked. What fails again becomes a letter of its own that names this one.

    Raises:
        NotFound: there is none that the caller may see.
        RequestError: 409 `dead-letter-too-large`.
    """
    visible = visible_to(api, caller)

    async def redrive(session: MongoSession) -> DeadLetter:
        letter = await dead_letters.find(api.database, visible, letter_id, session)
        if letter is None:
            raise NotFound("dead letter")
        if await dead_letters.mark_redriven(api.database, session, letter, by=caller.key_id):
            await _send(api, session, letter)
        return await dead_letters.find(api.database, visible, letter_id, session) or letter

    return await in_transaction(api.database, redrive)


async def _send(api: Services, session: MongoSession, letter: DeadLetter) -> None:
    headers = [(name, value) for name, value in letter.headers if name != REDRIVEN_FROM]
    headers.append((REDRIVEN_FROM, letter.letter_id.encode()))
    value = await dead_letters.body(api.database, letter, session)
    topic = next((topic for topic in topics.TOPICS if topic.name == letter.topic), topics.DOCUMENT_EVENTS)
    if record_bytes(ProducerMessage(letter.topic, letter.key, value, headers)) > api.message_limits.get_limit(topic):
        raise RequestError(
            409,
            "dead-letter-too-large",
            "Kafka takes no message of this size from us. Store the text with PUT /documents/{document_id}/text and "
            "publish an event with its text_ref.",
        )
    await outbox.add_as_it_was(
        api.database,
        session,
        topic=letter.topic,
        key=letter.key,
        value=value,
        headers=headers,
        ordering=f"dead-letter/{letter.letter_id}",
        traceparent=letter.traceparent,
    )
