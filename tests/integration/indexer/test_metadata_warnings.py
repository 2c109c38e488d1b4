"""Metadata that can't be stored are left out of a document with a warning, unless its organization is strict."""

import json
from typing import Any

import pytest

from kb_contracts.cloudevents import encode
from kb_contracts.documents import DocumentEvent, key_of
from kb_contracts.errors import Rejected
from kb_contracts.metadata import MetadataWarning
from kb_contracts.outcomes import DocumentIndexed
from kb_shared.membership import Action, decide
from kb_shared.mongo import document_index, documents, knowledge_bases, organizations
from kb_shared.mongo.documents import Document
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.organizations import OrganizationSettings
from tests.integration.indexer.support import Replica, Tenant, record, text_of
from tests.integration.indexer.test_refused_documents import outcomes

BAD = {"year": 2026, "authors": ["a", "b"]}
STRICT = OrganizationSettings(strict_metadata=True)


async def publish(indexer: Replica, event: DocumentEvent, **fields: Any) -> None:
    """Publish an event with fields that no publisher of ours would send."""
    envelope = json.loads(encode(event, source="/upstream"))
    envelope["data"] |= fields
    await indexer.fan_out.handle(record(json.dumps(envelope).encode(), key=key_of(event)))
    await indexer.work()


async def stored(tenant: Tenant) -> Document:
    found = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert found is not None
    return found


async def left_out(tenant: Tenant) -> list[str]:
    return [each.field for each in (await stored(tenant)).warnings]


async def announced(tenant: Tenant) -> list[list[str]]:
    """Fields that each announcement of an indexed document says were left out, in their order."""
    indexed = [each for each in await outcomes(tenant) if isinstance(each, DocumentIndexed)]
    return [[warning.field for warning in each.warnings or ()] for each in indexed]


async def assert_no_drift(tenant: Tenant, kb: KnowledgeBase) -> None:
    rows = await document_index.find_by_ids(tenant.database, kb.key, ["d"])
    assert decide(await stored(tenant), await knowledge_bases.get(tenant.database, kb.key), rows["d"]) is Action.NOTHING


async def test_a_bad_value_costs_neither_the_document_nor_the_other_values(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata=BAD)

    await tenant.assert_holds(kb, {"d": text_of(1)})
    document = await stored(tenant)
    assert document.metadata_values == {"year": 2026}
    assert [each.field for each in document.warnings] == ["metadata.authors"]
    [outcome] = [each for each in await outcomes(tenant) if isinstance(each, DocumentIndexed)]
    assert outcome.warnings == document.warnings
    await assert_no_drift(tenant, kb)
    await tenant.assert_settled()


async def test_the_outcome_of_each_change_says_what_is_left_out_now(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata={"year": 2026})
    await publish(indexer, tenant.described("d", {}, revision=2), metadata=BAD)
    assert await announced(tenant) == [[], ["metadata.authors"]], "although what is stored is the same"
    await publish(indexer, tenant.ocr("d", text_of(1), revision=3))
    assert await announced(tenant) == [[], ["metadata.authors"], ["metadata.authors"]], "an unchanged text"
    await publish(indexer, tenant.described("d", {"year": 2026}, revision=4))
    assert (await announced(tenant))[3:] == [[]]
    assert await left_out(tenant) == []
    await assert_no_drift(tenant, kb)
    await tenant.assert_settled()


async def test_metadata_that_are_no_object_are_left_out_and_a_change_to_such_is_rejected(
    tenant: Tenant, indexer: Replica
) -> None:
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata='{"year": 2026}')
    assert await left_out(tenant) == ["metadata"]
    with pytest.raises(Rejected, match="metadata") as refused:
        await publish(indexer, tenant.described("d", {}, revision=2), metadata=[])
    assert refused.value.reason == "bad-data"
    assert (await stored(tenant)).alive


async def test_a_strict_organization_refuses_the_document_and_another_one_does_not(
    tenant: Tenant, indexer: Replica
) -> None:
    other = Tenant(tenant.database)
    await organizations.set_settings(tenant.database, tenant.organization_id, STRICT)
    for event in (tenant.ocr("d", text_of(1)), tenant.described("d", {}, revision=2)):
        with pytest.raises(Rejected) as refused:
            await publish(indexer, event, metadata=BAD)
        assert refused.value.reason == "bad-data"
        assert refused.value.detail.startswith("metadata.authors: must be ")
    assert await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d")) is None
    await publish(indexer, other.ocr("d", text_of(1)), metadata=BAD)
    assert await left_out(other) == ["metadata.authors"]

    await organizations.set_settings(tenant.database, tenant.organization_id, OrganizationSettings())
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata=BAD)
    assert await left_out(tenant) == ["metadata.authors"], "as when the dead letter is redriven"


async def test_what_the_sender_left_out_is_shown_also_in_a_strict_organization(
    tenant: Tenant, indexer: Replica
) -> None:
    await organizations.set_settings(tenant.database, tenant.organization_id, STRICT)
    warnings = [{"field": "metadata.authors", "message": "is a list"}]
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata={"year": 2026}, metadata_warnings=warnings)
    assert (await stored(tenant)).warnings == (MetadataWarning(field="metadata.authors", message="is a list"),)


async def test_a_good_event_reads_no_settings(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(organizations, "find_all_settings")
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata={"year": 2026})
    assert (await stored(tenant)).metadata_values == {"year": 2026}


async def test_warnings_go_when_a_replica_of_an_older_version_changes_the_document(
    tenant: Tenant, indexer: Replica
) -> None:
    await publish(indexer, tenant.ocr("d", text_of(1)), metadata=BAD)
    key = {"organization_id": tenant.organization_id, "document_id": "d"}
    assert await documents.find_with_warnings(tenant.database, tenant.organization_id, document_ids=["d"]) == {"d"}
    await tenant.database[documents.NAME].update_one(
        key, {"$set": {"metadata": {"year": 2027}, "metadata_digest": "other"}, "$inc": {"projection_version": 1}}
    )
    assert await left_out(tenant) == []
    assert await documents.find_with_warnings(tenant.database, tenant.organization_id, document_ids=["d"]) == set()
