import pytest

from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.commands import key_of as key_of_command
from kb_contracts.documents import TagUpserted, key_of
from kb_contracts.errors import Rejected
from kb_indexer.source import SOURCE
from tests.integration.indexer.support import LANES, Replica, Tenant, record, text_of


@pytest.mark.parametrize("key", ["{mine}/other", "{others}/d1", "{mine}/tag/d1", "d1", ""])
async def test_an_event_whose_key_names_another_document_is_rejected_and_changes_nothing(
    indexer: Replica, tenant: Tenant, key: str
) -> None:
    await tenant.create_kb("a")
    event = tenant.ocr("d1", text_of(1))
    sent = key.format(mine=tenant.organization_id, others="orga").encode()

    with pytest.raises(Rejected) as rejected:
        await indexer.fan_out.handle(record(encode(event, source="/upstream"), key=sent))

    assert rejected.value.reason == "key-mismatch"
    assert tenant.organization_id not in rejected.value.detail
    assert indexer.producer.sent_to(*LANES) == []
    await indexer.publish(event)
    assert len(indexer.producer.sent_to(*LANES)) == 1


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


async def test_an_event_without_a_key_is_applied_as_it_names_nothing_else(indexer: Replica, tenant: Tenant) -> None:
    await tenant.create_kb("a")
    await indexer.fan_out.handle(record(encode(tenant.ocr("d1", text_of(1)), source="/upstream"), key=None))
    assert len(indexer.producer.sent_to(*LANES)) == 1
