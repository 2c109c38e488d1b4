"""An organization does not come into being by an event that names it, unless the deployment allows that."""

from datetime import UTC, datetime

import pytest

from kb_contracts.cloudevents import Payload, encode
from kb_contracts.documents import TagUpserted, key_of
from kb_contracts.errors import Rejected
from kb_indexer.consumer.load import EventThrottle, load_of_events
from kb_indexer.fan_out import FanOut
from kb_indexer.state_reader import StateReader
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.mongo import api_keys, documents, tags
from kb_shared.mongo.api_keys import ApiKey, Scope, create_secret_key
from tests.integration.indexer.support import LANES, Replica, Tenant, record, text_of

YESTERDAY = datetime(2026, 1, 31, tzinfo=UTC)


def build_strict_fan_out(indexer: Replica) -> FanOut:
    return FanOut(
        indexer.database,
        indexer.requests,
        state_reader=StateReader(indexer.database),
        quarantine=indexer.quarantine,
        backlog=indexer.backlog,
        load=EventThrottle(events=load_of_events(most=32), documents=indexer.load),
        organizations=KnownOrganizations(indexer.database),
    )


async def publish(fan_out: FanOut, event: Payload) -> None:
    await fan_out.handle(record(encode(event, source="/upstream"), key=key_of(event)))


async def create_key(tenant: Tenant, *, expires_at: datetime | None = None, revoked_at: datetime | None = None) -> None:
    key_id, whole_key = create_secret_key()
    key = ApiKey(key_id, tenant.organization_id, "k", frozenset({Scope.READ}), YESTERDAY, expires_at, revoked_at)
    await api_keys.insert(tenant.database, key, whole_key=whole_key, pepper="p" * 32)


async def test_an_event_of_an_unknown_organization_is_refused_and_stores_nothing(
    indexer: Replica, tenant: Tenant
) -> None:
    fan_out = build_strict_fan_out(indexer)
    tag = TagUpserted(organization_id=tenant.organization_id, tag_id="offers", name="Offers")
    for event in (tenant.ocr("d1", text_of(1)), tag):
        with pytest.raises(Rejected) as rejected:
            await publish(fan_out, event)
        assert rejected.value.reason == "unknown-organization"
        assert tenant.organization_id in rejected.value.detail
    assert await tenant.database[documents.NAME].count_documents({"organization_id": tenant.organization_id}) == 0
    assert await tenant.database[tags.NAME].count_documents({"organization_id": tenant.organization_id}) == 0
    assert indexer.producer.sent_to(*LANES) == []


@pytest.mark.parametrize("fields", [{}, {"revoked_at": YESTERDAY}, {"expires_at": YESTERDAY}])
async def test_an_organization_exists_from_its_first_api_key_on(
    indexer: Replica, tenant: Tenant, fields: dict[str, datetime]
) -> None:
    fan_out, event = build_strict_fan_out(indexer), tenant.ocr("d1", text_of(1))
    with pytest.raises(Rejected):
        await publish(fan_out, event)
    await create_key(tenant, **fields)
    await publish(fan_out, event)
    assert await tenant.database[documents.NAME].count_documents({"organization_id": tenant.organization_id}) == 1


async def test_an_organization_exists_while_it_has_a_knowledge_base(indexer: Replica, tenant: Tenant) -> None:
    await tenant.create_kb("a")
    await publish(build_strict_fan_out(indexer), tenant.ocr("d1", text_of(1)))
    assert len(indexer.producer.sent_to(*LANES)) == 1


async def test_an_organization_may_come_into_being_by_its_first_event_if_that_is_allowed(
    indexer: Replica, tenant: Tenant
) -> None:
    await indexer.publish(tenant.ocr("d1", text_of(1)))
    assert await tenant.database[documents.NAME].count_documents({"organization_id": tenant.organization_id}) == 1
