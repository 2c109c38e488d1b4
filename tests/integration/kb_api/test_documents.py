"""Upstreams that speak HTTP: what they say becomes the same events, in its order, and large texts have a way in."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kb_api import document_revisions, refresh_message_limits
from kb_api.bootstrap import KbApi
from kb_api.message_limits import MessageLimits
from kb_api.settings import ApiSettings
from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.documents import ABOUT_DOCUMENTS, DocumentEvent
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.load import EventThrottle, load_of_documents, load_of_events
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.fan_out import FanOut
from kb_indexer.state_reader import StateReader
from kb_local.broker import Broker
from kb_shared.kafka.record_size import record_bytes
from kb_shared.kafka.topics import ensure_topics
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.messaging.outbox_relay import to_kafka
from kb_shared.mongo import document_texts, documents, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey
from tests.conftest import KafkaCluster
from tests.integration.indexer.support import RecordingProducer, record
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import list_all
from tests.waiting import until

BODY = {
    "document_name": "Offer 17.pdf",
    "tag_ids": ["offers"],
    "upload_date": "2026-01-31T00:00:00Z",
    "text": "We offer forty widgets.",
    "metadata": {"customer": "ACME", "pages": 2, "due": {"$date": "2026-02-28T00:00:00Z"}},
    "source_digest": "5ff2eaebd7ff816a",
}


PUT = ("PUT", "/documents/d1")


async def accepted(organization: OrganizationClient) -> list[tuple[DocumentEvent, outbox.OutboxMessage]]:
    """The organization's events that wait in the outbox, in the order they will be sent."""
    messages = await outbox.find_unsent(organization.database, range(outbox.BUCKETS), limit=10_000)
    prefix = f"{organization.organization_id}/".encode()
    mine = [m for m in messages if m.topic == topics.DOCUMENT_EVENTS.name and (m.key or b"").startswith(prefix)]
    return [(decode(message.value, ABOUT_DOCUMENTS)[1], message) for message in mine]


async def handle(organization: OrganizationClient) -> None:
    """As relay and fan-out do."""
    requests = IndexRequests(organization.database, RecordingProducer(), topic_prefix="", source="/kb/test")
    fan_out = FanOut(
        organization.database,
        requests,
        state_reader=StateReader(organization.database),
        quarantine=SuspectQuarantine(),
        backlog=Backlog(organization.database),
        load=EventThrottle(events=load_of_events(most=32), documents=load_of_documents(most=32, lifetime_s=60)),
    )
    for _, message in await accepted(organization):
        await fan_out.handle(record(message.value, key=message.key))


async def test_a_document_put_over_http_becomes_the_same_event_as_over_kafka(
    organization: OrganizationClient,
) -> None:
    answer = await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 7})
    assert answer == {"document_id": "d1", "revision": 7, "changed": True, "outdated": [], "warnings": []}
    [(event, message)] = await accepted(organization)
    assert message.key == f"{organization.organization_id}/d1".encode()
    said = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert said == {**BODY, "organization_id": organization.organization_id, "document_id": "d1", "revision": 7} | {
        "pages": []
    }


@pytest.mark.parametrize(
    "given",
    [1_769_860_800_000, "1769860800000", 1_769_860_800.0, "2026-01-31 13:00:00.000+01:00", "2026-01-31t12:00:00z"],
)
async def test_a_time_is_read_in_each_form_in_which_it_is_read_over_kafka(
    organization: OrganizationClient, given: object
) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "upload_date": given, "pages": None})
    [(event, _)] = await accepted(organization)
    assert event.model_dump(mode="json")["upload_date"] == "2026-01-31T12:00:00Z"


async def test_a_document_without_a_date_has_that_of_its_upload(organization: OrganizationClient) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    body = {name: value for name, value in BODY.items() if name != "upload_date"}
    await organization.ok("PUT", "/documents/d1", json=body)
    await organization.ok("POST", "/documents:batch", json={"documents": [{"document_id": "d2", **body}]})
    for event, _ in await accepted(organization):
        assert before <= event.model_dump()["upload_date"] <= datetime.now(UTC)


async def test_changes_that_follow_each_other_closely_get_rising_revisions_and_are_sent_in_their_order(
    organization: OrganizationClient,
) -> None:
    answers = [
        await organization.ok("PUT", "/documents/d1", json=BODY),
        await organization.ok("PATCH", "/documents/d1/tags", json={"tag_ids": ["a"]}),
        await organization.ok("PATCH", "/documents/d1/tags", json={"tag_ids": ["b"], "revision": 50}),
        await organization.ok("PATCH", "/documents/d1/metadata", json={"metadata": {"n": 1}}),
        await organization.ok("DELETE", "/documents/d1"),
    ]
    assert [answer["revision"] for answer in answers] == [1, 2, 50, 51, 52]
    events = [event for event, _ in await accepted(organization)]
    assert [(event.TYPE, event.revision) for event in events] == [
        ("document.ocr_completed.v1", 1),
        ("document.tags_changed.v1", 2),
        ("document.tags_changed.v1", 50),
        ("document.metadata_changed.v1", 51),
        ("document.deleted.v1", 52),
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b" null "])
async def test_a_revision_in_the_body_of_a_deletion_is_not_ignored(
    organization: OrganizationClient, body: bytes
) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 7})
    answer = await organization.request("DELETE", "/documents/d1", json={"revision": 5})
    assert (answer.status_code, answer.json()["fields"]) == (
        422,
        [
            {
                "field": "body",
                "message": "must be empty: the revision of a deletion is a query parameter, ?revision=9",
            }
        ],
    )
    headers = {"Authorization": f"Bearer {organization.key}", "Content-Type": "application/json"}
    url = f"{organization.base}/documents/d1"
    answer = await organization.http.request("DELETE", url, content=body, headers=headers)
    assert (answer.status_code, answer.json()["revision"]) == (202, 8)


@pytest.mark.parametrize("handled", [False, True])
async def test_an_older_revision_is_accepted_and_reported_to_change_nothing(
    organization: OrganizationClient, *, handled: bool
) -> None:
    async def changed(method: str, path: str, **body: Any) -> bool:
        answer = await organization.ok(method, f"/documents/d1{path}", json=body)
        if handled:
            await handle(organization)
        return bool(answer["changed"])

    assert await changed("PUT", "", **BODY, revision=10)
    assert not await changed("PUT", "", **BODY, revision=9)
    assert not await changed("PATCH", "/tags", tag_ids=["a"], revision=9)
    assert await changed("PATCH", "/tags", tag_ids=["a"], revision=20)
    assert await changed("PUT", "", **BODY, revision=15), "the text is newer, though the tags are not"
    assert not await changed("PUT", "", **BODY, revision=14)
    assert await changed("PATCH", "/metadata", metadata={}, revision=16)
    assert not (await organization.ok("DELETE", "/documents/d1", revision=5))["changed"]
    assert (await organization.ok("DELETE", "/documents/d1"))["changed"]
    assert not await changed("PUT", "", **BODY, revision=17), "it was deleted after that"
    assert await changed("PUT", "", **BODY)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("number", range(4))
async def test_of_two_texts_with_the_same_revision_the_answer_says_which_one_stays(
    organization: OrganizationClient, *, number: int, handled: bool
) -> None:
    first, second = ({**BODY, "text": f"{text} {number}", "revision": 7} for text in ("One text", "Another text"))
    await organization.ok("PUT", "/documents/d1", json=first)
    if handled:
        await handle(organization)
    answer = await organization.ok("PUT", "/documents/d1", json=second)
    await handle(organization)
    document = await documents.find(organization.database, DocumentKey(organization.organization_id, "d1"))
    assert document is not None
    assert document.text is not None
    key = DocumentKey(organization.organization_id, "d1")
    stays = document.text.text_id == document_texts.text_id(key, str(second["text"]), ())
    outdated = [] if stays else [{"facet": "text", "by": "other_content", "revision": 7}]
    assert (answer["changed"], answer["outdated"]) == (stays, outdated)
    again = await organization.ok("PUT", "/documents/d1", json=second if stays else first)
    assert (again["changed"], again["outdated"]) == (False, []), "the document has just this content"
    newer = await organization.ok("PUT", "/documents/d1", json={**second, "revision": 8})
    assert (newer["changed"], newer["outdated"]) == (True, [])


async def test_a_stored_text_with_pages_of_its_own_is_not_claimed_to_stay_or_not(
    organization: OrganizationClient,
) -> None:
    stored = await organization.http.put(
        f"/v0/orgs/{organization.organization_id}/documents/d1/text",
        content=b"A long text",
        headers={"Authorization": f"Bearer {organization.key}", "Content-Type": "text/plain"},
    )
    body = {**BODY, "text": None, "text_ref": stored.json()["text_ref"], "revision": 7}
    await organization.ok("PUT", "/documents/d1", json=body)
    await handle(organization)
    assert (await organization.ok("PUT", "/documents/d1", json=body))["changed"] is False
    with_pages = {**body, "pages": [{"page": 1, "start": 0, "end": 4}]}
    answer = await organization.ok("PUT", "/documents/d1", json=with_pages)
    assert (answer["changed"], answer["outdated"]) == (True, [])


@pytest.mark.parametrize("handled", [False, True])
async def test_a_creation_before_the_deletion_of_its_document_says_so(
    organization: OrganizationClient, *, handled: bool
) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 1})
    await organization.ok("DELETE", "/documents/d1", revision=1_769_860_800_000)
    if handled:
        await handle(organization)
    batch = [{**BODY, "document_id": "d1", "revision": 1}]
    [outcome] = (await organization.ok("POST", "/documents:batch", json={"documents": batch}))["outcomes"]
    by = {"by": "deletion", "revision": 1_769_860_800_000}
    assert outcome["changed"] is False
    assert outcome["outdated"] == [{"facet": facet, **by} for facet in ("text", "tags", "metadata")]
    tags = await organization.ok("PATCH", "/documents/d1/tags", json={"tag_ids": ["a"], "revision": 2})
    assert (tags["changed"], tags["outdated"]) == (False, [{"facet": "tags", **by}])


async def test_what_does_not_stay_is_in_the_list_of_events_once_however_often_its_topic_is_read(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 1})
    await organization.ok("DELETE", "/documents/d1", revision=1_769_860_800_000)
    await organization.ok("PUT", "/documents/d1", json={**BODY, "text": "The offer came back.", "revision": 1})
    for _ in range(3):
        await handle(organization)
        await list_all(organization.api)
    [event] = (await organization.ok("GET", "/events", types="document.outdated.v1"))["events"]
    *_, (_, last) = await accepted(organization)
    assert event["data"]["event_id"] == decode(last.value, ABOUT_DOCUMENTS)[0].id
    assert (event["data"]["document_id"], event["data"]["revision"]) == ("d1", 1)
    assert {each["by"] for each in event["data"]["outdated"]} == {"deletion"}


@pytest.mark.parametrize("path", ["/documents/my%20doc.pdf", "/documents/my%20doc.pdf/text"])
async def test_a_file_name_as_the_id_is_refused_with_the_right_field(
    organization: OrganizationClient, path: str
) -> None:
    answer = await organization.request("PUT", path, json=BODY)
    assert (answer.status_code, answer.json()["type"]) == (422, "validation-error")
    [field] = answer.json()["fields"]
    assert field["field"] == "document_id"
    assert "put the file name in `document_name`" in field["message"]
    assert await organization.refused("DELETE", "/documents/my%20doc.pdf") == (404, "not-found")


async def test_changes_at_once_get_revisions_of_their_own(organization: OrganizationClient) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    answers = await asyncio.gather(
        *(organization.ok("PATCH", "/documents/d1/tags", json={"tag_ids": [f"t{n}"]}) for n in range(5))
    )
    assert sorted(answer["revision"] for answer in answers) == [2, 3, 4, 5, 6]


async def test_a_revision_left_out_is_above_what_came_over_kafka(organization: OrganizationClient) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 10})
    await handle(organization)
    await organization.database[document_revisions.NAME].delete_many({"document_id": "d1"})
    assert (await organization.ok("DELETE", "/documents/d1"))["revision"] == 11


async def test_where_64_bits_end_a_revision_must_be_given(organization: OrganizationClient) -> None:
    await organization.ok("PUT", "/documents/d1", json={**BODY, "revision": 2**63 - 1})
    assert await organization.refused("DELETE", "/documents/d1") == (409, "no-greater-revision")
    assert (await organization.ok("DELETE", "/documents/d1", revision=3))["revision"] == 3


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/documents/none/tags", {"tag_ids": []}),
        ("PATCH", "/documents/none/metadata", {"metadata": {}}),
        ("DELETE", "/documents/none", None),
        ("GET", "/documents/none", None),
        ("GET", "/documents/a%20space", None),
        ("DELETE", f"/documents/{'x' * 129}", None),
    ],
)
async def test_an_unknown_document_is_not_found_and_nothing_is_published(
    organization: OrganizationClient, method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert await organization.refused(method, path, json=body) == (404, "not-found")
    assert await accepted(organization) == []
    assert await organization.database[document_revisions.NAME].count_documents({"document_id": "none"}) == 0


@pytest.mark.parametrize(
    ("changes", "status", "slug"),
    [
        ({"text_ref": "x/y/z"}, 422, "validation-error"),
        ({"text": None}, 422, "validation-error"),
        ({"document_name": "with a \x00"}, 422, "validation-error"),
        ({"pages": [{"page": 1, "start": 0, "end": 10_000}]}, 422, "validation-error"),
        ({"pages": [{"page": 1, "start": 0, "end": 1, "colour": "red"}]}, 422, "validation-error"),
        ({"tag_ids": "offers"}, 422, "validation-error"),
        ({"revision": 2**63}, 422, "validation-error"),
        ({"colour": "red"}, 422, "validation-error"),
        ({"text": None, "text_ref": "elsewhere/d1/" + "0" * 64}, 422, "unknown-text-ref"),
        ({"text": "x" * 1_000_000}, 413, "event-too-large"),
    ],
)
async def test_an_invalid_document_is_refused_at_once(
    organization: OrganizationClient, changes: dict[str, Any], status: int, slug: str
) -> None:
    body = {name: value for name, value in (BODY | changes).items() if value is not None}
    assert await organization.refused("PUT", "/documents/d1", json=body) == (status, slug)
    assert await accepted(organization) == []


@pytest.fixture
def topic_takes(api: KbApi) -> Iterator[Callable[[int], None]]:
    """Let the topic take records of at most so many bytes, as its brokers would have said."""
    name = topics.DOCUMENT_EVENTS.name
    yield lambda most_bytes: api.message_limits.set_broker_limits({name: most_bytes})
    api.message_limits.set_broker_limits({name: topics.DOCUMENT_EVENTS.max_message_bytes})


@pytest.mark.parametrize(
    ("call", "body", "advice"),
    [
        (PUT, {**BODY, "text": "x" * 3_000}, "text_ref"),
        (PUT, {**BODY, "metadata": {"k": "x" * 3_000}}, "less metadata"),
        (
            PUT,
            {**BODY, "text": "x" * 99, "pages": [{"page": n, "start": n, "end": n + 1} for n in range(1, 99)]},
            "fewer pages",
        ),
        (("PATCH", "/documents/d1/tags"), {"tag_ids": [f"a-rather-long-tag-{n}" for n in range(200)]}, "fewer tags"),
        (("PATCH", "/documents/d1/metadata"), {"metadata": {"k": "x" * 3_000}}, "less metadata"),
    ],
)
async def test_an_event_too_large_for_the_topic_is_refused_with_what_to_do(
    organization: OrganizationClient,
    topic_takes: Callable[[int], None],
    call: tuple[str, str],
    body: dict[str, Any],
    advice: str,
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    topic_takes(3_000)
    refused = await organization.request(*call, json=body)
    assert (refused.status_code, refused.json()["type"]) == (413, "event-too-large")
    assert advice in refused.json()["detail"]
    assert len(await accepted(organization)) == 1


async def test_the_largest_event_that_is_accepted_fits_into_the_topic_and_one_byte_more_is_refused(
    organization: OrganizationClient, topic_takes: Callable[[int], None]
) -> None:
    """The whole record counts: key, headers and what the batch adds."""
    limit = 2_000
    topic_takes(limit)

    async def is_accepted(length: int) -> bool:
        body = {**BODY, "text": "x" * length, "revision": -(2**63)}
        return (await organization.request("PUT", "/documents/d1", json=body)).status_code == 202

    lengths = [length for length in range(limit - 1_200, limit, 8) if await is_accepted(length)]
    assert lengths == list(range(lengths[0], lengths[-1] + 8, 8))
    [*_, (_, message)] = await accepted(organization)
    assert limit - 64 <= record_bytes(to_kafka(message, "")) <= limit


async def test_a_limit_that_the_brokers_change_is_learnt_while_the_service_runs(
    broker: KafkaCluster | Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_message_limits, "_INTERVAL_S", 0.05)
    settings = ApiSettings(kafka=broker.bootstrap, kafka_topic_prefix=topic_prefix)
    limits, stop = MessageLimits(), asyncio.Event()
    lower = replace(topics.DOCUMENT_EVENTS, max_message_bytes=9_999)
    learning = asyncio.create_task(refresh_message_limits.refresh_message_limits(settings, limits, stop))
    # While topics are missing, it goes on.
    await ensure_topics(settings.kafka_connection, [lower], prefix=topic_prefix, replication_factor=1)
    others = [topic for topic in topics.TOPICS if topic != topics.DOCUMENT_EVENTS]
    await ensure_topics(settings.kafka_connection, others, prefix=topic_prefix, replication_factor=1)
    await until(lambda: limits.get_limit(topics.DOCUMENT_EVENTS) == 9_999)
    stop.set()
    await learning


async def test_a_body_that_is_too_large_for_any_event_is_refused_with_what_to_do(
    organization: OrganizationClient,
) -> None:
    refused = await organization.request("PUT", "/documents/d1", json={**BODY, "text": "x" * 2_500_000})
    assert (refused.status_code, refused.json()["type"]) == (413, "body-too-large")
    assert "text_ref" in refused.json()["detail"]


async def test_a_document_is_shown_as_its_events_describe_it_with_the_knowledge_bases_it_stands_in(
    organization: OrganizationClient,
) -> None:
    await organization.tag("offers")
    kb_id = (await organization.create(tag_ids=["offers"]))["kb_id"]
    await organization.create()
    await organization.ok("PUT", "/documents/d1", json=BODY)
    before = await organization.ok("GET", "/documents/d1")
    assert (before["alive"], before["accepted_revision"], before["knowledge_bases"]) == (False, 1, [])

    await handle(organization)
    shown = await organization.ok("GET", "/documents/d1")
    assert (shown["alive"], shown["document_name"], shown["tag_ids"]) == (True, "Offer 17.pdf", ["offers"])
    assert shown["metadata"] == BODY["metadata"]
    assert (shown["upload_date"], shown["source_digest"]) == (BODY["upload_date"], BODY["source_digest"])
    assert [(one["kb_id"], one["status"]) for one in shown["knowledge_bases"]] == [(kb_id, "pending")]

    await organization.ok("DELETE", "/documents/d1")
    await handle(organization)
    gone = await organization.ok("GET", "/documents/d1")
    assert (gone["alive"], gone["document_name"], gone["metadata"], gone["deleted_revision"]) == (False, None, {}, 2)


async def put_text(
    organization: OrganizationClient,
    pieces: Sequence[bytes],
    *,
    document_id: str = "d1",
    media_type: str = "text/plain",
) -> httpx.Response:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return await organization.http.put(
        f"{organization.base}/documents/{document_id}/text",
        headers={"Authorization": f"Bearer {organization.key}", "Content-Type": media_type},
        content=body(),
    )


async def files_of(database: Database, organization: OrganizationClient) -> int:
    return await database[f"{document_texts.NAME}.files"].count_documents(
        {"filename": {"$regex": f"^{organization.organization_id}/"}}
    )


@pytest.mark.parametrize("length", [3, 400_000])
async def test_a_text_of_its_own_is_stored_once_and_named_in_an_event(
    organization: OrganizationClient, length: int
) -> None:
    text = "tüä" * length
    encoded = text.encode()
    # Cut within characters.
    pieces = [encoded[start : start + 65_535] for start in range(0, len(encoded), 65_535)]
    answers = [(await put_text(organization, pieces)).raise_for_status().json() for _ in range(2)]
    text_ref = answers[0]["text_ref"]
    assert answers[0] == answers[1]
    assert text_ref == document_texts.text_id(DocumentKey(organization.organization_id, "d1"), text, ())
    stored = (await document_texts.find_all(organization.database, organization.organization_id, [text_ref])).get(
        text_ref
    )
    assert stored is not None
    assert stored.text == text
    assert await files_of(organization.database, organization) == (length > 3)

    body = {name: value for name, value in BODY.items() if name != "text"} | {"text_ref": text_ref}
    await organization.ok("PUT", "/documents/d1", json=body)
    await handle(organization)
    assert (await organization.ok("GET", "/documents/d1"))["alive"]
    # Of this document only.
    assert await organization.refused("PUT", "/documents/d2", json=body) == (422, "unknown-text-ref")


@pytest.mark.parametrize(
    ("pieces", "media_type", "status", "slug"),
    [
        ([b"x" * 1_500_000, b"\xff"], "text/plain", 422, "validation-error"),
        ([b"x" * 1_500_000, "ü".encode()[:1]], "text/plain; charset=utf-8", 422, "validation-error"),
        ([b"x" * 1_500_000, b"\x00"], "text/plain", 422, "validation-error"),
        ([b"x" * 1_500_000] * 14, "text/plain", 413, "body-too-large"),
        ([b"{}"], "application/json", 415, "unsupported-media-type"),
        ([b"x"], "text/plain; charset=latin-1", 415, "unsupported-media-type"),
    ],
)
async def test_an_unusable_text_leaves_nothing_behind(
    organization: OrganizationClient, pieces: list[bytes], media_type: str, status: int, slug: str
) -> None:
    answer = await put_text(organization, pieces, media_type=media_type)
    assert (answer.status_code, answer.json()["type"]) == (status, slug)
    mine = {"organization_id": organization.organization_id}
    assert await organization.database[document_texts.NAME].count_documents(mine) == 0
    assert await files_of(organization.database, organization) == 0
    pieces_of = set(await organization.database[f"{document_texts.NAME}.chunks"].distinct("files_id"))
    assert pieces_of <= set(await organization.database[f"{document_texts.NAME}.files"].distinct("_id"))
