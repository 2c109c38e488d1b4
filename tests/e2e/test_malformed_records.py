import json
from typing import Any

from kb_contracts import topics
from kb_contracts.cloudevents import MAX_EVENT_BYTES, encode
from kb_contracts.documents import OcrCompleted
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.keys import DocumentKey
from tests.chaos.oracle import read_body
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.waiting import until

FOREIGN_TEXT = "What the others keep to themselves."
OTHER_DOCUMENT = "another"
"""Document of a record whose key names one of the good ones: its publisher waits for it, so it is announced."""


def _malformed_records(good: OcrCompleted) -> list[tuple[bytes | None, str]]:
    """Messages and the reason for which each is refused, most of them `good` with one thing wrong."""
    envelope: dict[str, Any] = json.loads(encode(good, source="/tests/upstream"))

    def with_data(**changes: Any) -> bytes:
        data = {name: value for name, value in (envelope["data"] | changes).items() if value is not None}
        return json.dumps(envelope | {"data": data}).encode()

    def with_envelope(**changes: Any) -> bytes:
        return json.dumps({name: value for name, value in (envelope | changes).items() if value is not None}).encode()

    foreign = text_id(DocumentKey("others", good.document_id), FOREIGN_TEXT, ())
    return [
        (None, "no-value"),
        (b"", "not-json"),
        (b"not JSON", "not-json"),
        (b"[" * 100_000, "not-json"),
        (with_data().replace(b'"revision": 1', b'"revision": NaN'), "bad-data"),
        (b"\xff\xfe" + with_data(), "not-utf8"),
        (b"[]", "bad-envelope"),
        (with_envelope(id=None), "bad-envelope"),
        (with_envelope(time="yesterday"), "bad-envelope"),
        (with_envelope(data="text"), "bad-envelope"),
        (with_envelope(type="document.exploded.v1"), "unknown-type"),
        (with_data(revision="1"), "bad-data"),
        (with_data(revision=2**70), "bad-data"),
        (with_data(tag_ids="a"), "bad-data"),
        (with_data(organization_id="../others"), "bad-data"),
        (with_data(document_id=None), "bad-data"),
        (with_data(text=None), "bad-data"),
        (with_data(document_name="with a \x00 in it"), "bad-data"),
        (with_data(text="with half a \ud83d in it"), "bad-data"),
        (with_data(document_name="\udfff"), "bad-data"),
        (with_data(pages=[{"page": 1, "start": 0, "end": 10**9}]), "bad-data"),
        (with_data(text=None, text_ref=foreign), "unknown-text-ref"),
        (with_data(text=None, text_ref=foreign.replace("others", good.organization_id)), "unknown-text-ref"),
        (with_data(text=None, text_ref="../" + foreign), "unknown-text-ref"),
        (with_data(document_id=OTHER_DOCUMENT), "key-mismatch"),
        (with_data(organization_id="others"), "key-mismatch"),
        (with_data(text="x" * MAX_EVENT_BYTES), "too-large"),
    ]


async def test_malformed_records_become_dead_letters_unchanged_while_other_documents_go_on(
    running: RunningSystem,
) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    document_id = f"among-malformed-{tag}"
    good = running.upstream.ocr(document_id, [paragraph(document_id)], tags=[tag])
    await _publish_text_of_other_organization(running, document_id)

    key = f"{good.organization_id}/{document_id}".encode()
    malformed = _malformed_records(good)
    for value, _ in malformed:
        # In the way of the document's own events, as it has the same key.
        await running.send_malformed(value, key=key)
    await running.send_malformed(b"with a key that is none", key=b"\xff\x00/")
    await running.send_malformed(b"without a key", key=None)
    await running.send_malformed(b"not a command", key=f"{kb_id}/{document_id}".encode(), topic=topics.INDEX_REQUESTS)
    await running.publish(good)

    await running.system.until_found(kb_id, [document_id])
    await running.assert_consistent()
    letters = [
        (await read_body(running.system, letter), letter.headers)
        for letter in await running.system.kafka.read(topics.DEAD_LETTERS)
    ]
    for value, reason in malformed:
        reasons = {headers["x-reason"] for body, headers in letters if body == value}
        assert reasons == {reason}, (value or b"")[:80]
    assert all(
        {"x-topic", "x-partition", "x-offset", "x-timestamp-ms", "x-detail", "traceparent"} <= headers.keys()
        for _, headers in letters
    )
    assert not any(FOREIGN_TEXT in str(headers) for _, headers in letters)
    announced = [json.loads(message.value or b"{}") for message in await running.system.kafka.read(topics.KB_EVENTS)]
    # By id, since what is sent at least once may have come twice.
    rejected = {
        each["id"]: each["data"]["reason"]
        for each in announced
        if each["type"] == "document.rejected.v1" and each["data"].get("document_id") in (document_id, OTHER_DOCUMENT)
    }
    assert sorted(rejected.values()) == sorted(reason for _, reason in malformed)


async def _publish_text_of_other_organization(running: RunningSystem, document_id: str) -> None:
    # An organization exists from its first key on.
    await running.system.database.api_keys.insert_one({"_id": "key-of-others", "organization_id": "others"})
    event = running.upstream.ocr(document_id, [], tags=["theirs"])
    theirs = event.model_copy(update={"organization_id": "others", "text": FOREIGN_TEXT})
    await running.system.events.publish(theirs)
    reference = text_id(DocumentKey("others", document_id), FOREIGN_TEXT, ())

    async def is_stored() -> bool:
        return await running.system.database.document_texts.find_one({"_id": reference}) is not None

    await until(is_stored)
