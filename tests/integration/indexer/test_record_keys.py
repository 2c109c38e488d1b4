import pytest

from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.commands import key_of as key_of_command
from kb_contracts.documents import TagsChanged, TagUpserted, key_of
from kb_contracts.errors import Rejected
from kb_indexer.consumer.record_keys import ordering_key_of_event
from kb_indexer.source import SOURCE
from tests.integration.indexer.support import LANES, Replica, Tenant, record, text_of


@pytest.mark.parametrize(
    "key", ["{mine}/other", "{others}/d1", "{mine}/tag/d1", '"{mine}/other"', '\0\0\0\0\1"{mine}/other"']
)
async def test_an_event_whose_key_names_another_document_is_rejected_and_changes_nothing(
    indexer: Replica, tenant: Tenant, key: str
) -> None:
    await tenant.create_kb("a")
    event = tenant.ocr("d1", text_of(1))
    sent = key.format(mine=tenant.organization_id, others="orga").encode()

    with pytest.raises(Rejected) as rejected:
        await indexer.fan_out.handle(record(encode(event, source="/upstream"), key=sent))

    assert rejected.value.reason == "key-mismatch"
    # The right key is told only to those who know the organization.
    assert (key_of(event).decode() in rejected.value.detail) is ("{mine}" in key)
    assert indexer.producer.sent_to(*LANES) == []
    await indexer.publish(event)
    assert len(indexer.producer.sent_to(*LANES)) == 1


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "null",
        "d1",
        "{mine}",
        '"{mine}/d1"',
        '{{"schema": {{"type": "string", "optional": false}}, "payload": "{mine}/d1"}}',
        '{{"id": 17}}',
        '\0\0\0\0\1"{mine}/d1"',
        "7b6f3c2e-0a55-4f0e-9d0c-0d8f5a3b2c11",
        "\udcff\udcfe/d1",
        "{mine}/d1/more",
    ],
)
async def test_an_event_is_applied_whatever_its_key_is_as_long_as_it_names_nothing_else(
    indexer: Replica, tenant: Tenant, key: str | None
) -> None:
    await tenant.create_kb("a")
    sent = None if key is None else key.format(mine=tenant.organization_id).encode(errors="surrogateescape")
    await indexer.fan_out.handle(record(encode(tenant.ocr("d1", text_of(1)), source="/upstream"), key=sent))
    assert len(indexer.producer.sent_to(*LANES)) == 1


@pytest.mark.parametrize("key", [None, b"", b'"local/d1"', b"d1", b"local/d1"])
def test_events_of_one_document_wait_for_each_other_whatever_their_keys_are(key: bytes | None) -> None:
    event = TagsChanged(organization_id="local", document_id="d1", revision=1, tag_ids=["a"])
    found = ordering_key_of_event(record(encode(event, source="/upstream"), key=key))
    assert (found.organization_id, found.key) == ("local", "local/d1")


def test_records_that_name_nothing_do_not_wait_for_each_other() -> None:
    first, second = (ordering_key_of_event(record(b"not JSON", key=None)) for _ in range(2))
    assert first != second


async def test_an_event_of_a_tag_whose_key_names_another_organization_is_rejected(
    indexer: Replica, tenant: Tenant
) -> None:
    event = TagUpserted(organization_id=tenant.organization_id, tag_id="offers", name="Offers")
    with pytest.raises(Rejected) as rejected:
        await indexer.fan_out.handle(record(encode(event, source="/upstream"), key=b"orga/tag/offers"))
    assert rejected.value.reason == "key-mismatch"
    await indexer.fan_out.handle(record(encode(event, source="/upstream"), key=key_of(event)))


@pytest.mark.parametrize("topic", [topics.INDEX_REQUESTS.name, topics.INDEX_BACKFILL.name])
async def test_a_command_whose_key_names_another_knowledge_base_is_rejected(
    indexer: Replica, tenant: Tenant, topic: str
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d1", text_of(1)))
    command = SyncDocument(organization_id=tenant.organization_id, kb_id=kb.kb_id, document_id="d1", reason=Reason.OCR)
    value = encode(command, source=SOURCE)

    with pytest.raises(Rejected) as rejected:
        await indexer.sync.handle(record(value, key=f"{'0' * 24}/d1".encode(), topic=topic))
    assert rejected.value.reason == "key-mismatch"
    await tenant.assert_holds(kb, {})

    await indexer.sync.handle(record(value, key=key_of_command(command), topic=topic))
    await tenant.assert_holds(kb, {"d1": text_of(1)})
