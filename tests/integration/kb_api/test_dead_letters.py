"""Dead letters are listed to their organization, and can be sent again."""

import asyncio
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_api.message_limits import MessageLimits
from kb_api.redrive_dead_letter import redrive_dead_letter
from kb_api.redrive_dead_letters import redrive_dead_letters
from kb_contracts import topics
from kb_shared import failpoints
from kb_shared.errors import RequestError
from kb_shared.kafka.headers import to_wire
from kb_shared.kafka.record import Record
from kb_shared.kafka_connection.fetched_batches import UnreadableRecords
from kb_shared.messaging.dead_letters import DeadLetterPublisher
from kb_shared.mongo import dead_letters, outbox
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.dead_letters import DeadLetter, LetterFilter
from tests.integration.indexer.support import RecordingProducer
from tests.integration.kb_api.conftest import NewOrganization, make_key
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import ProcessDied
from tests.record_batches import CRC_AT, Rec, build_batch, flip

PREFIX = "prefix."
BODY = b'{"secret": "text of a document", \xff}'


def record(organization: OrganizationClient, value: bytes | None = BODY, *, offset: int = 1, **fields: Any) -> Record:
    parts: dict[str, Any] = {
        "topic": PREFIX + topics.DOCUMENT_EVENTS.name,
        "partition": 3,
        "offset": offset,
        "key": f"{organization.organization_id}/d1".encode(),
        "value": value,
        "headers": (("traceparent", None), ("x-mine", b"\xff"), ("x-redriven-from", None), ("x-null", None)),
        "timestamp_ms": 1_767_225_600_000,
    }
    return Record(**(parts | fields))


@pytest.fixture
def producer() -> RecordingProducer:
    return RecordingProducer()


@pytest.fixture
def publisher(organization: OrganizationClient, producer: RecordingProducer) -> DeadLetterPublisher:
    return DeadLetterPublisher(organization.database, producer, topic_prefix=PREFIX)


async def listed(organization: OrganizationClient, **params: Any) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = (await organization.ok("GET", "/dead-letters", **params))["dead_letters"]
    return letters


async def redriven(organization: OrganizationClient, letter_id: str) -> list[outbox.OutboxMessage]:
    """Return the messages in the outbox that a redrive of this letter has added."""
    messages = await outbox.find_unsent(organization.database, range(outbox.BUCKETS), limit=10_000)
    mark = ("x-redriven-from", letter_id.encode())
    return [message for message in messages if message.headers and mark in message.headers]


async def test_a_dead_letter_is_listed_with_its_reason_and_without_what_it_held(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    await publisher.publish(record(organization), reason="not-json", detail="the value is not a JSON document")
    [letter] = await listed(organization)
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("document-events", 3, 1)
    assert (letter["reason"], letter["document_id"], letter["size_bytes"]) == ("not-json", "d1", len(BODY))
    assert letter["occurred_at"].startswith("2026-01-01T00:00:00")
    assert (letter["redriven_at"], letter["redriven_from"]) == (None, None)
    assert "secret" not in str(letter)


async def test_the_same_record_is_filed_once_and_another_record_at_its_offset_is_another_letter(
    organization: OrganizationClient, publisher: DeadLetterPublisher, producer: RecordingProducer
) -> None:
    large = b"x" * 1_100_000
    for _ in range(2):
        await publisher.publish(record(organization, large), reason="too-large", detail="")
    await publisher.publish(record(organization, b"after the broker lost its log"), reason="not-json", detail="")
    assert sorted(letter["reason"] for letter in await listed(organization)) == ["not-json", "too-large"]
    [letter] = await listed(organization, reason="too-large")
    pieces = organization.database[dead_letters.BODIES]
    assert await pieces.count_documents({"letter_id": letter["dead_letter_id"]}) == 1
    published = [message for message in producer.sent if message.topic == PREFIX + topics.DEAD_LETTERS.name]
    references = [dict(to_wire(message.headers)).get("x-body-ref") for message in published]
    assert references == [letter["dead_letter_id"].encode()] * 2 + [None]
    assert [message.value for message in published] == [None, None, b"after the broker lost its log"]


async def test_filters_and_pages_find_what_they_name(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    for offset in range(3):
        await publisher.publish(record(organization, offset=offset), reason="not-json", detail="")
    command = record(organization, b'{"data": {"organization_id": "%s"}}' % organization.organization_id.encode())
    commands = PREFIX + topics.INDEX_REQUESTS.name
    await publisher.publish(Record(commands, 0, 1, b"kb/d", command.value, (), -1), reason="unknown-type", detail="")
    assert [letter["offset"] for letter in await listed(organization, topic="document-events")] == [2, 1, 0]
    assert [letter["occurred_at"] for letter in await listed(organization, reason="unknown-type")] == [None]
    page = await organization.ok("GET", "/dead-letters", skip=1, limit=2)
    assert (len(page["dead_letters"]), page["total_count"]) == (2, 4)
    assert await listed(organization, reason="nothing-like-it") == []


@pytest.mark.parametrize("value", [BODY, b"", None])
async def test_w10_a_letter_is_sent_again_as_it_came_and_once(
    organization: OrganizationClient, publisher: DeadLetterPublisher, value: bytes | None
) -> None:
    original = record(organization, value)
    await publisher.publish(original, reason="not-json", detail="")
    [letter] = await listed(organization)
    path = f"/dead-letters/{letter['dead_letter_id']}/redrive"
    answers = await asyncio.gather(*(organization.ok("POST", path) for _ in range(3)))
    assert len({answer["redriven_at"] for answer in answers}) == 1
    [message] = await redriven(organization, letter["dead_letter_id"])
    assert (message.topic, message.key, message.value) == ("document-events", original.key, value)
    # The header of a redrive is replaced; others stay as they came, also those without a value.
    sent_by_upstream = (("traceparent", None), ("x-mine", b"\xff"), ("x-null", None))
    assert message.headers == (*sent_by_upstream, ("x-redriven-from", letter["dead_letter_id"].encode()))


async def test_a_letter_that_fails_again_becomes_another_that_names_the_first(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    await publisher.publish(record(organization), reason="not-json", detail="")
    for generation in range(2):
        before = {letter["dead_letter_id"] for letter in await listed(organization)}
        last = (await listed(organization))[0]["dead_letter_id"]
        await organization.ok("POST", f"/dead-letters/{last}/redrive")
        [message] = await redriven(organization, last)
        assert message.headers is not None
        again = record(organization, message.value, offset=10 + generation, headers=message.headers)
        await publisher.publish(again, reason="not-json", detail="")
        [new] = [one for one in await listed(organization) if one["dead_letter_id"] not in before]
        assert new["redriven_from"] == last


async def file_letters(publisher: DeadLetterPublisher, organization: OrganizationClient, *, count: int) -> list[str]:
    """File letters for the reason `bad-data`; return their ids, the oldest first."""
    for offset in range(count):
        await publisher.publish(record(organization, offset=offset), reason="bad-data", detail="")
    return [letter["dead_letter_id"] for letter in await listed(organization, reason="bad-data", limit=100)][::-1]


async def redrive_many(organization: OrganizationClient, **selected: Any) -> tuple[int, int, bool]:
    answer = await organization.ok("POST", "/dead-letters:redrive", json=selected)
    return answer["redriven_count"], answer["too_large_count"], answer["are_more_left"]


async def test_a_discarded_letter_is_listed_and_not_open_any_more_and_can_still_be_redriven(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    discarded, redriven_id, waiting = await file_letters(publisher, organization, count=3)
    path = f"/dead-letters/{discarded}"
    answers = await asyncio.gather(*(organization.ok("POST", f"{path}/discard") for _ in range(3)))
    assert len({answer["discarded_at"] for answer in answers}) == 1
    assert answers[0]["discarded_by"] == organization.key.split("_")[1]
    assert await organization.ok("GET", path) == answers[0]
    await organization.ok("POST", f"/dead-letters/{redriven_id}/redrive")
    sent_before = await organization.ok("POST", f"/dead-letters/{redriven_id}/discard")
    assert sent_before["discarded_at"] is None, "it is not open"

    assert [each["dead_letter_id"] for each in await listed(organization, is_open=True)] == [waiting]
    others = {each["dead_letter_id"] for each in await listed(organization, is_open=False)}
    assert others == {discarded, redriven_id}
    counts = await organization.ok("GET", "/dead-letters/counts")
    assert [(each["reason"], each["count"]) for each in counts["reasons"]] == [("bad-data", 1)]
    assert (counts["open_count"], counts["is_exact"]) == (1, True)
    assert (await organization.ok("GET", "/operations"))["dead_letters"] == 1

    assert await redrive_many(organization) == (1, 0, False)
    assert await redriven(organization, discarded) == []
    assert (await organization.ok("POST", f"{path}/redrive"))["redriven_at"] is not None
    assert len(await redriven(organization, discarded)) == 1
    assert await organization.refused("GET", "/dead-letters/none") == (404, "not-found")


async def test_letters_are_redriven_by_what_was_selected_the_oldest_first_and_each_once(
    organization: OrganizationClient, publisher: DeadLetterPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_api.redrive_dead_letters.MAX_REDRIVEN", 2)
    letter_ids = await file_letters(publisher, organization, count=5)
    await publisher.publish(record(organization, offset=9), reason="not-json", detail="")
    await publisher.publish(record(organization, b"x" * 1_100_000, offset=10), reason="bad-data", detail="")
    await publisher.publish(record(organization, b"x" * 1_048_500, offset=11), reason="too-large", detail="")
    assert await redrive_many(organization, topic="kb-index-requests") == (0, 0, False)
    assert await redrive_many(organization, dead_letter_ids=[letter_ids[4], "none"]) == (1, 0, False)
    assert await redrive_many(organization, reason="bad-data") == (2, 1, True)
    assert [len(await redriven(organization, each)) for each in letter_ids] == [1, 1, 0, 0, 1]
    answers = await asyncio.gather(*(redrive_many(organization, reason="bad-data") for _ in range(3)))
    assert sum(count for count, _, _ in answers) == 2
    assert [len(await redriven(organization, each)) for each in letter_ids] == [1] * 5
    assert await redrive_many(organization, reason="too-large") == (0, 1, False)
    assert await redrive_many(organization, reason="bad-data") == (0, 1, False)
    wrong: dict[str, Any]
    for wrong in ({"dead_letter_ids": []}, {"dead_letter_ids": ["x"] * 1_001}, {"other": 1}):
        answer = await organization.refused("POST", "/dead-letters:redrive", json=wrong)
        assert answer == (422, "validation-error")


async def test_open_letters_that_were_selected_are_discarded_and_no_others(
    organization: OrganizationClient, publisher: DeadLetterPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_api.discard_dead_letter.MAX_DISCARDED", 2)
    letter_ids = await file_letters(publisher, organization, count=5)
    await publisher.publish(record(organization, offset=9), reason="not-json", detail="")
    await organization.ok("POST", f"/dead-letters/{letter_ids[0]}/redrive")

    async def discard_many(**selected: Any) -> tuple[int, bool]:
        answer = await organization.ok("POST", "/dead-letters:discard", json=selected)
        return answer["discarded_count"], answer["are_more_left"]

    assert await discard_many(dead_letter_ids=[letter_ids[0], letter_ids[4], "none"]) == (1, False)
    assert await discard_many(topic="kb-index-requests") == (0, False)
    assert await discard_many(reason="bad-data") == (2, True)
    discarded = {each["dead_letter_id"] for each in await listed(organization) if each["discarded_at"]}
    assert discarded == {letter_ids[1], letter_ids[2], letter_ids[4]}, "the oldest first"
    assert await discard_many(reason="bad-data") == (1, False)
    assert [each["reason"] for each in await listed(organization, is_open=True)] == ["not-json"]


async def test_letters_are_redriven_at_a_limited_rate_and_after_a_crash_those_that_are_left(
    organization: OrganizationClient, publisher: DeadLetterPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_api.redrive_dead_letters.PER_SECOND", 20)
    letter_ids = await file_letters(publisher, organization, count=8)
    reached = 0

    async def die_at_the_third() -> None:
        nonlocal reached
        reached += 1
        if reached == 3:
            raise ProcessDied

    with pytest.raises(ProcessDied):
        async with failpoints.during("dead_letters.after_redrive", die_at_the_third):
            await redrive_many(organization)
    assert [len(await redriven(organization, each)) for each in letter_ids] == [1, 1, 1, 0, 0, 0, 0, 0]
    began = monotonic()
    assert await redrive_many(organization) == (5, 0, False)
    assert monotonic() - began >= 4 / 20
    assert [len(await redriven(organization, each)) for each in letter_ids] == [1] * 8
    monkeypatch.setattr("kb_api.redrive_dead_letters.WITHIN_S", 0.0)
    await publisher.publish(record(organization, offset=20), reason="bad-data", detail="")
    assert await redrive_many(organization) == (0, 0, True)


async def test_a_letter_too_large_for_kafka_is_not_redriven_and_stays_unchanged(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    await publisher.publish(record(organization, b"x" * 1_048_500), reason="too-large", detail="")
    [letter] = await listed(organization)
    path = f"/dead-letters/{letter['dead_letter_id']}/redrive"
    assert await organization.refused("POST", path) == (409, "dead-letter-too-large")
    assert (await listed(organization))[0]["redriven_at"] is None


async def test_a_dead_letter_without_an_owner_is_seen_by_the_operators_admins_only(
    api: KbApi, organization: OrganizationClient, new_organization: NewOrganization, publisher: DeadLetterPublisher
) -> None:
    reason = f"reason-{uuid4().hex[:8]}"
    await publisher.publish(record(organization, key=None), reason=reason, detail="")
    assert await listed(organization, reason=reason) == []

    operator = await new_organization()
    settings = api.settings.model_copy(update={"operator_organization": operator.organization_id})
    app = create_app(create_kb_api(settings, database=api.database, embedder=api.embedder))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kb-api") as http:
        admin = OrganizationClient(operator.organization_id, operator.key, http, api)
        [letter] = await listed(admin, reason=reason)
        weak_key = await make_key(api, operator.organization_id, Scope.READ, Scope.WRITE)
        member = OrganizationClient(operator.organization_id, weak_key, http, api)
        path = f"/dead-letters/{letter['dead_letter_id']}/redrive"
        assert await listed(member, reason=reason) == []
        assert await member.refused("POST", path) == (404, "not-found")
        await publisher.publish(record(organization), reason=reason, detail="")
        assert len(await listed(admin, reason=reason)) == 1, "what is another's stays the other's"
        assert (await admin.ok("POST", path))["redriven_by"] == operator.key.split("_")[1]


def unreadable(value: bytes, *, last_offset: int = 5) -> Record:
    """Bytes of a log that could not be read when they came."""
    found = UnreadableRecords("codec 4 was not installed", last_offset)
    topic = PREFIX + topics.DOCUMENT_EVENTS.name
    return Record(topic, 3, 1, None, value, (), -1, unreadable=found)


async def file_unreadable(publisher: DeadLetterPublisher, organization: OrganizationClient, value: bytes) -> DeadLetter:
    await publisher.publish(unreadable(value), reason="unreadable-record", detail="codec 4 was not installed")
    [letter, *_], _ = await dead_letters.find_page(
        organization.database, [None], LetterFilter(reason="unreadable-record"), skip=0, limit=10
    )
    return letter


async def redrive(organization: OrganizationClient, letter: DeadLetter) -> DeadLetter:
    return await redrive_dead_letter(
        organization.database, letter.letter_id, visible=[None], by="operator", message_limits=MessageLimits()
    )


async def test_bytes_that_could_not_be_read_are_read_again_and_all_their_records_are_sent_in_order(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    written = [
        Rec(b"org/d%d" % n, BODY * 20, [("n", b"%d" % n), ("n", None), ("x-redriven-from", b"forged")])
        for n in range(30)
    ]
    letter = await file_unreadable(publisher, organization, bytes(build_batch(written, codec="zstd", base_offset=1)))
    for _ in range(2):
        assert (await redrive(organization, letter)).redriven_at is not None
    messages = await redriven(organization, letter.letter_id)
    assert [(message.key, message.value) for message in messages] == [(each.key, each.value) for each in written]
    assert messages[7].headers == (("n", b"7"), ("n", None), ("x-redriven-from", letter.letter_id.encode()))


async def test_bytes_that_still_can_not_be_read_are_kept_and_the_answer_says_what_to_do(
    organization: OrganizationClient, publisher: DeadLetterPublisher
) -> None:
    letter = await file_unreadable(publisher, organization, bytes(flip(build_batch([Rec()] * 3), CRC_AT)))
    with pytest.raises(RequestError) as refusal:
        await redrive(organization, letter)
    assert (refusal.value.status, refusal.value.slug) == (409, "dead-letter-unreadable")
    assert "the checksum (CRC) of the batch is wrong. Ask their producer to publish them again" in str(refusal.value)
    done = await redrive_dead_letters(
        organization.database,
        [None],
        LetterFilter(letter_ids=[letter.letter_id]),
        by="operator",
        message_limits=MessageLimits(),
    )
    assert (done.redriven, done.unreadable) == (0, 1)
    assert await redriven(organization, letter.letter_id) == []
    still_open = await dead_letters.find(organization.database, [None], letter.letter_id)
    assert still_open is not None
    assert still_open.redriven_at is None
