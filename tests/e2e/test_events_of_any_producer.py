"""Events as producers of other kinds send them, among records that can't be used: each is searchable or announced."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_contracts.documents import OcrCompleted
from kb_shared.mongo import dead_letters
from kb_shared.mongo.dead_letters import LetterFilter
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class Sent:
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


def _as_other_producers_send_it(good: OcrCompleted, form: str) -> Sent:
    value = encode(good, source="/upstream")
    event: dict[str, Any] = json.loads(value)
    data, key = event["data"], f"{good.organization_id}/{good.document_id}"
    attributes = {name: event[name] for name in ("specversion", "id", "source", "type")}
    match form:
        case "a quoted key":
            return Sent(json.dumps(key).encode(), value)
        case "the id as key":
            return Sent(good.document_id.encode(), value, [("traceparent", None), ("x", b"\xff")])
        case "binary mode":
            headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
            return Sent(None, json.dumps(data).encode(), [*headers, ("content-type", b"application/json")])
        case "Connect's schema":
            return Sent(b"null", json.dumps({"schema": {"type": "string"}, "payload": value.decode()}).encode())
        case "data_base64":
            encoded = base64.b64encode(json.dumps(data).encode()).decode()
            return Sent(key.encode(), json.dumps({**attributes, "data_base64": encoded}).encode())
        case "another event around it":
            around = {"specversion": "1.0", "id": "1", "source": "/x", "type": "com.dapr.event.sent", "data": event}
            return Sent(b"", json.dumps(around).encode())
    raise AssertionError(form)


FORMS = ("a quoted key", "the id as key", "binary mode", "Connect's schema", "data_base64", "another event around it")


async def test_every_event_is_searchable_whatever_its_form_and_every_refusal_is_announced_once(
    running: RunningSystem,
) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    events = [running.upstream.ocr(f"form-{n}-{tag}", [paragraph(f"{n} {tag}")], tags=[tag]) for n in range(len(FORMS))]
    bad = running.upstream.ocr(f"bad-{tag}", [paragraph(tag)], tags=[tag])
    refused = _refused(bad)
    for sent in refused:
        await _send(running, sent, malformed=True)
    running.oracle.record_published(*events)
    for event, form in zip(events, FORMS, strict=True):
        await _send(running, _as_other_producers_send_it(event, form))

    await running.system.until_found(kb_id, [event.document_id for event in events])
    ids = [json.loads(sent.value)["id"] for sent in refused]

    async def announced_ids() -> list[str]:
        messages = [json.loads(each.value or b"{}") for each in await running.system.kafka.read(topics.KB_EVENTS)]
        by_message = {each["id"]: each["data"].get("event_id") for each in messages if "rejected" in each["type"]}
        return [event_id for event_id in by_message.values() if event_id in ids]

    async def are_all_announced() -> bool:
        return len(await announced_ids()) >= len(ids)

    await until(are_all_announced)
    assert sorted(await announced_ids()) == sorted(ids)
    await running.assert_consistent()


async def test_an_event_of_a_misspelled_organization_is_the_operators_and_makes_no_organization(
    running: RunningSystem,
) -> None:
    (tag,) = await running.create_tags(1)
    misspelled = running.upstream.ocr(f"misspelled-{tag}", [paragraph(tag)], tags=[tag]).model_copy(
        update={"organization_id": f"locaI-{tag}"}
    )
    value = encode(misspelled, source="/upstream")
    key = f"{misspelled.organization_id}/{misspelled.document_id}".encode()
    await _send(running, Sent(key, value), malformed=True)

    async def is_filed() -> bool:
        letters, _ = await dead_letters.find_page(
            running.system.database, [None], LetterFilter(reason="unknown-organization"), skip=0, limit=100
        )
        return [letter.key for letter in letters].count(key) == 1

    await until(is_filed)
    named = {"organization_id": misspelled.organization_id}
    for name in ("documents", "document_texts", "tags", "events", "outbox", "dead_letters"):
        assert await running.system.database[name].count_documents(named) == 0, name


def _refused(bad: OcrCompleted) -> list[Sent]:
    """Return records that are refused, whose organization can be told in one way or another."""
    event: dict[str, Any] = json.loads(encode(bad, source="/upstream"))
    key = f"{bad.organization_id}/{bad.document_id}"

    def with_data(number: int, **changes: Any) -> bytes:
        return json.dumps(
            event | {"id": f"refused-{number}-{bad.document_id}", "data": event["data"] | changes}
        ).encode()

    return [
        Sent(json.dumps(key).encode(), with_data(1, revision="1")),
        Sent(None, with_data(2, document_id="with a space")),
        Sent("org/Stra\u00dfe".encode(), with_data(3, document_id="Stra\u00dfe")),
        Sent(b"\xff", with_data(4, tag_ids=None), [("traceparent", None)]),
    ]


async def _send(running: RunningSystem, sent: Sent, *, malformed: bool = False) -> None:
    if malformed:
        running.oracle.malformed.append(sent.value)
    await running.system.kafka.send(topics.DOCUMENT_EVENTS, sent.key, sent.value, sent.headers)
