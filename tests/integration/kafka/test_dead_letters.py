"""Unusable records that are too large for the topic of dead letters."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import KB_EVENTS, DocumentRejected
from kb_shared.errors import MessageRefused
from kb_shared.kafka.headers import Headers, to_wire
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.record import Record
from kb_shared.kafka.topics import ensure_topics
from kb_shared.messaging.dead_letters import MAX_DETAIL_CHARACTERS, DeadLetterPublisher
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.mongo import api_keys, dead_letters, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.dead_letters import LetterFilter
from tests.integration.kafka.support import BRIEF_SESSION, Letters, Recorder, Stream, running
from tests.waiting import until

KEY = b"a/" + b"k" * 48_000
BODY = b"x" * 1_000_000


@dataclass
class RejectingRecorder(Recorder):
    """Rejects what is large, at length."""

    async def handle(self, record: Record) -> None:
        if record.size_bytes > 100_000:
            raise Rejected("bad-data", "\ud800" + "why " * 100_000)
        await super().handle(record)


class CollectingRecorder(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    async def handle(self, record: Record) -> None:
        self.records.append(record)


@pytest.fixture
async def producer(stream: Stream) -> AsyncIterator[Producer]:
    await ensure_topics(stream.connection, [topics.DEAD_LETTERS, topics.KB_EVENTS], prefix=stream.prefix)
    async with Producer(stream.connection, idempotence=False) as producer:
        yield producer


def reading(stream: Stream, reader: CollectingRecorder) -> AbstractAsyncContextManager[None]:
    """Hand what comes to the topic of dead letters to `reader`."""
    return running(
        stream.consumer(
            reader,
            Letters(),
            topics=[stream.prefix + topics.DEAD_LETTERS.name],
            group_id=f"{stream.group}-letters",
            **BRIEF_SESSION,
        )
    )


async def test_a_poison_record_whose_dead_letter_is_too_large_does_not_stop_its_partition(
    stream: Stream, database: Database, producer: Producer
) -> None:
    await producer.send(stream.topic, KEY, value=BODY)
    for n in range(20):
        await producer.send(stream.topic, KEY, value=str(n).encode())
    handler, letter_reader = RejectingRecorder(), CollectingRecorder()
    publisher = DeadLetterPublisher(database, producer, topic_prefix=stream.prefix)
    async with running(stream.consumer(handler, publisher, **BRIEF_SESSION)), reading(stream, letter_reader):
        await until(lambda: len(handler.handled) == 20)
        await stream.until_committed(21)
        await until(lambda: len(letter_reader.records) == 1)
    [letter] = letter_reader.records
    headers = dict(letter.headers)
    filed = await dead_letters.find(database, [None], (headers["x-dead-letter-id"] or b"").decode())
    assert filed is not None
    assert (filed.key, await dead_letters.read_body(database, filed)) == (KEY, BODY)
    assert (letter.key, letter.value, headers["x-body-ref"]) == (KEY, None, headers["x-dead-letter-id"])
    assert len(headers["x-detail"] or b"") == MAX_DETAIL_CHARACTERS


async def test_a_record_with_neither_key_nor_value_does_not_stop_its_partition(
    stream: Stream, database: Database, producer: Producer
) -> None:
    @dataclass
    class RefusingWithoutValue(Recorder):
        async def handle(self, record: Record) -> None:
            if record.value is None:
                raise Rejected("no-value", "the message has no value")
            await super().handle(record)

    for value in (None, b"good"):
        # One partition, so that the good one is behind it.
        await producer.send(stream.topic, None, value=value)
    handler, letter_reader = RefusingWithoutValue(), CollectingRecorder()
    publisher = DeadLetterPublisher(database, producer, topic_prefix=stream.prefix)
    async with running(stream.consumer(handler, publisher, **BRIEF_SESSION)), reading(stream, letter_reader):
        await until(lambda: handler.handled == ["good"])
        await stream.until_committed(2)
        await until(lambda: len(letter_reader.records) == 1)
    assert (letter_reader.records[0].key, letter_reader.records[0].value) == (None, None)


@dataclass
class Refusing:
    """A Kafka whose topics take fewer bytes than the contract says."""

    at_most: Mapping[str, int]
    taken: list[tuple[str, bytes | None, bytes | None]]

    async def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        size = len(key or b"") + len(value or b"") + sum(len(text or b"") for _, text in to_wire(headers))
        if size > self.at_most.get(topic, 1_000_000):
            raise MessageRefused("too large", reason="too-large")
        self.taken.append((topic, key, value))


@pytest.mark.parametrize(
    ("at_most", "taken"),
    [(10_000, [(b"org/doc", b"y" * 5_000)]), (1_000, [(b"org/doc", None)]), (150, [])],
)
async def test_a_dead_letter_that_the_broker_refuses_is_shortened_and_never_holds_up_the_record(
    database: Database, at_most: int, taken: list[Any]
) -> None:
    broker: Any = Refusing({topics.DEAD_LETTERS.name: at_most}, [])
    publisher = DeadLetterPublisher(database, broker, topic_prefix="")
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, b"org/doc", b"y" * 5_000, (), 0)
    await publisher.publish(record, reason="bad-data", detail="")
    assert [message[1:] for message in broker.taken] == taken
    letters, total = await dead_letters.find_page(database, ["org"], LetterFilter(), skip=0, limit=9)
    assert (total, letters[0].key) == (1, b"org/doc")


def envelope(**fields: Any) -> bytes:
    return json.dumps(
        {"id": "e-1", "type": "document.deleted.v1", "data": {"organization_id": "org"}} | fields
    ).encode()


@pytest.mark.parametrize(
    ("value", "event_id", "event_type"),
    [
        (envelope(), "e-1", "document.deleted.v1"),
        (envelope(id=7, type="x" * 300), None, None),
        (envelope(id="\ud800"), None, "document.deleted.v1"),
        (envelope(data={"organization_id": "other"}), None, None),
        (b"not JSON", None, None),
        (None, None, None),
    ],
)
async def test_a_rejection_names_the_event_and_the_place_of_its_dead_letter(
    database: Database, value: bytes | None, event_id: str | None, event_type: str | None
) -> None:
    broker: Any = Refusing({}, [])
    publisher = DeadLetterPublisher(database, broker, topic_prefix="p.")
    record = Record(f"p.{topics.DOCUMENT_EVENTS.name}", 3, 4711, b"org/doc", value, (), 0)
    await publisher.publish(record, reason="bad-data", detail="why")
    # As after a crash: it is read again, and announced once.
    await publisher.publish(record, reason="bad-data", detail="why")
    [announced] = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    assert (announced.topic, announced.key) == (topics.KB_EVENTS.name, b"org")
    assert [each.id for each in await outbox.find_unlisted(database, limit=10)] == [announced.id]
    _, rejected = decode(announced.value, KB_EVENTS)
    assert isinstance(rejected, DocumentRejected)
    assert (rejected.organization_id, rejected.document_id) == ("org", "doc")
    assert (rejected.event_id, rejected.event_type) == (event_id, event_type)
    assert (rejected.topic, rejected.partition, rejected.offset) == (topics.DOCUMENT_EVENTS.name, 3, 4711)
    assert rejected.dead_letter_id is not None
    assert await dead_letters.find(database, ["org", None], rejected.dead_letter_id) is not None


def create_publisher(database: Database, *, organizations: KnownOrganizations | None = None) -> DeadLetterPublisher:
    """Create a publisher whose letters go to a Kafka that takes all of them."""
    kafka: Any = Refusing({}, [])
    return DeadLetterPublisher(database, kafka, topic_prefix="", organizations=organizations)


EVENT = {"organization_id": "org", "document_id": "doc"}
BINARY = (("ce_id", b"e-1"), ("ce_type", b"document.deleted.v1"), ("ce_specversion", b"1.0"))


@pytest.mark.parametrize(
    ("key", "value", "headers", "document_id"),
    [
        (b'"org/doc"', envelope(data=EVENT), (), "doc"),
        (b'"org/doc"', b"not JSON", (), "doc"),
        (b'{"schema": {"type": "string"}, "payload": "org/doc"}', b"not JSON", (), "doc"),
        (None, envelope(data=EVENT), (), "doc"),
        (b"", envelope(data=EVENT), (), "doc"),
        (b"null", envelope(data=EVENT), (), "doc"),
        (b"doc", envelope(data=EVENT), (), "doc"),
        (None, json.dumps(EVENT).encode(), BINARY, "doc"),
        (None, json.dumps(envelope(data=EVENT).decode()).encode(), (), "doc"),
        (None, json.dumps([json.loads(envelope(data=EVENT))] * 2).encode(), (), None),
        (None, envelope(data={"organization_id": "org", "document_id": "with a space"}), (), None),
        (None, envelope(data={"organizationId": "org", "documentId": "doc"}), (), "doc"),
        (None, json.dumps({"OrganizationId": "org", "DocumentId": "doc"}).encode(), (), "doc"),
        (None, json.dumps({"before": EVENT, "after": None, "op": "d"}).encode(), (), "doc"),
        (None, json.dumps({"schema": {}, "payload": {"before": EVENT, "after": EVENT, "op": "u"}}).encode(), (), "doc"),
        (None, json.dumps({"Type": "", "MessageId": "", "Message": envelope(data=EVENT).decode()}).encode(), (), "doc"),
        (None, envelope(data={"before": None, "after": EVENT, "op": "c"}), (), "doc"),
        (None, json.dumps({"Headers": {}, "Value": EVENT}).encode(), (), "doc"),
        (None, json.dumps({"eventType": "Stored", "event_data": json.dumps(EVENT)}).encode(), (), "doc"),
        (b"org/another", envelope(data=EVENT), (), "doc"),
        (b"org/offers", envelope(data={"organization_id": "org", "tag_id": "offers"}), (), None),
        (
            "org/Stra\u00dfe 1".encode(),
            envelope(data={"organization_id": "org", "document_id": "Stra\u00dfe 1"}),
            (),
            None,
        ),
        (b"org/tag/a b", envelope(data={"organization_id": "org", "tag_id": "a b"}), (), None),
        (b"org/tag/offers", b"not JSON", (), None),
        (None, envelope(data={"organization_id": "org", "text": "x" * 1_100_000}), (), None),
    ],
)
async def test_a_rejection_is_announced_to_the_organization_that_key_or_content_names(
    database: Database, key: bytes | None, value: bytes, headers: Any, document_id: str | None
) -> None:
    publisher = create_publisher(database)
    await publisher.publish(
        Record(topics.DOCUMENT_EVENTS.name, 0, 0, key, value, headers, 0), reason="bad-data", detail="why"
    )
    [announced] = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    _, rejected = decode(announced.value, KB_EVENTS)
    assert isinstance(rejected, DocumentRejected)
    assert (announced.key, rejected.organization_id, rejected.document_id) == (b"org", "org", document_id)
    [letter], _ = await dead_letters.find_page(database, ["org"], LetterFilter(), skip=0, limit=9)
    assert (letter.letter_id, letter.document_id) == (rejected.dead_letter_id, document_id)


@pytest.mark.parametrize(
    "document",
    [
        {"before": EVENT, "after": EVENT | {"organization_id": "other"}, "op": "u"},
        {"data": {"text": json.dumps(EVENT), "metadata": EVENT}},
        {"text": json.dumps(EVENT), "metadata": EVENT},
        {"organization_id": 7, "data": EVENT},
    ],
)
async def test_a_refusal_is_announced_to_no_organization_that_can_not_be_told_for_certain(
    database: Database, document: object
) -> None:
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, None, json.dumps(document).encode(), (), 0)
    await create_publisher(database).publish(record, reason="bad-data", detail="why")
    assert await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10) == []


async def test_nothing_of_an_event_of_another_organization_than_its_key_is_announced(database: Database) -> None:
    publisher = create_publisher(database)
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, b"org/doc", envelope(data={"organization_id": "other"}), (), 0)
    await publisher.publish(record, reason="bad-data", detail='tag_ids.0: must be ..., not "of the other one"')
    [announced] = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    _, rejected = decode(announced.value, KB_EVENTS)
    assert isinstance(rejected, DocumentRejected)
    assert (rejected.organization_id, rejected.reason) == ("org", "key-mismatch")
    assert "of the other one" not in rejected.detail


async def test_a_refused_command_is_not_announced_as_a_refused_event(database: Database) -> None:
    publisher = create_publisher(database)
    for topic in (topics.INDEX_REQUESTS, topics.KB_EVENTS):
        await publisher.publish(Record(topic.name, 0, 0, None, envelope(), (), 0), reason="bad-data", detail="why")
    assert await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10) == []


@pytest.mark.parametrize("key", [b"locaI/doc", None])
async def test_a_record_of_an_organization_that_does_not_exist_is_shown_to_the_operator_alone(
    database: Database, key: bytes | None
) -> None:
    publisher = create_publisher(database, organizations=KnownOrganizations(database))
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, key, envelope(data={"organization_id": "locaI"}), (), 0)
    await publisher.publish(record, reason="bad-data", detail="why")
    assert await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10) == []
    letters, _ = await dead_letters.find_page(database, ["locaI", None], LetterFilter(), skip=0, limit=9)
    assert [(letter.organization_id, letter.document_id) for letter in letters] == [(None, None)]


async def test_dead_letters_that_come_together_are_stored_and_announced_together_each_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: dict[str, list[int]] = {"file": [], "add_once": []}

    def count_calls(module: Any, name: str) -> None:
        write = getattr(module, name)

        async def counted(to: Database, items: Any) -> None:
            batches[name].append(len(items))
            await write(to, items)

        monkeypatch.setattr(module, name, counted)

    count_calls(dead_letters, "file")
    count_calls(outbox, "add_once")
    broker: Any = Refusing({}, [])
    publisher = DeadLetterPublisher(database, broker, topic_prefix="")
    records = [
        Record(topics.DOCUMENT_EVENTS.name, 0, n, f"org/doc-{n}".encode(), f"bad {n}".encode(), (), 0)
        for n in range(150)
    ]

    for _ in range(2):
        await asyncio.gather(*(publisher.publish(record, reason="bad-data", detail="") for record in records))

    assert sum(map(len, batches.values())) <= 2 * 2 * 3
    letters, total = await dead_letters.find_page(database, ["org"], LetterFilter(), skip=0, limit=200)
    assert total == 150
    assert {await dead_letters.read_body(database, letter) for letter in letters} == {each.value for each in records}
    assert await database[outbox.NAME].count_documents({}) == 150


async def test_a_dead_letter_that_can_not_be_stored_holds_up_no_other(database: Database) -> None:
    publisher = create_publisher(database)
    records = [
        Record(topics.DOCUMENT_EVENTS.name, 0, n, b"org/doc", b"bad", ((name, b""),), 0)
        for n, name in enumerate(["fine", "\ud800", "fine, too"])
    ]
    outcomes = await asyncio.gather(
        *(publisher.publish(record, reason="bad-data", detail="") for record in records), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), UnicodeEncodeError, type(None)]
    _, total = await dead_letters.find_page(database, ["org"], LetterFilter(), skip=0, limit=9)
    assert total == 2


async def test_a_letter_can_be_filed_again_after_its_organization_has_come_into_being(database: Database) -> None:
    value = envelope(data={"organization_id": "new"})
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, b"new/doc", value, (), 0)
    before = create_publisher(database, organizations=KnownOrganizations(database))
    await before.publish(record, reason="unknown-organization", detail="why")
    await database[api_keys.NAME].insert_one({"_id": "k", "organization_id": "new"})
    # Another process: the first one remembers no organization that is missing, but might one day.
    after = create_publisher(database, organizations=KnownOrganizations(database))
    await after.publish(record, reason="unknown-organization", detail="why")
    [letter], _ = await dead_letters.find_page(database, ["new", None], LetterFilter(), skip=0, limit=9)
    assert letter.organization_id is None
    assert await dead_letters.read_body(database, letter) == value


async def test_an_organization_that_does_not_exist_hides_no_refusal_from_the_other_that_is_named(
    database: Database,
) -> None:
    await database[api_keys.NAME].insert_one({"_id": "k", "organization_id": "org"})
    publisher = create_publisher(database, organizations=KnownOrganizations(database))
    record = Record(topics.DOCUMENT_EVENTS.name, 0, 0, b"0rg/doc", envelope(data=EVENT), (), 0)
    await publisher.publish(record, reason="key-mismatch", detail="why")
    [announced] = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    _, rejected = decode(announced.value, KB_EVENTS)
    assert isinstance(rejected, DocumentRejected)
    assert (rejected.organization_id, rejected.document_id, rejected.event_id) == ("org", "doc", "e-1")
