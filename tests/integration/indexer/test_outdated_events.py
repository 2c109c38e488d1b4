"""A publisher hears that what it sent does not stay, and hears nothing where its events only came again or late."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_contracts.cloudevents import decode, encode
from kb_contracts.documents import DocumentEvent, OcrCompleted, TagsChanged, key_of
from kb_contracts.outcomes import KB_EVENTS, DocumentOutdated
from kb_shared.membership.projection import versions_of
from kb_shared.mongo import documents, outbox
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.keys import DocumentKey
from tests.integration.indexer.support import Replica, Tenant, record

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def publish_at(indexer: Replica, *events: tuple[DocumentEvent, datetime], again: int = 1) -> None:
    """Publish events with their times, all of them `again` times."""
    values = [(key_of(event), encode(event, source="/upstream", time=time)) for event, time in events]
    for _ in range(again):
        for key, value in values:
            await indexer.fan_out.handle(record(value, key=key))


async def announced(tenant: Tenant) -> list[dict[str, Any]]:
    rows = tenant.database[outbox.NAME].find({"topic": "kb-events", "key": tenant.organization_id}).sort("_id")
    outcomes = [decode(row["value"], KB_EVENTS)[1] async for row in rows]
    return [each.model_dump() for each in outcomes if isinstance(each, DocumentOutdated)]


def texts_in_order_of_digest(tenant: Tenant, *, greater_first: bool) -> list[OcrCompleted]:
    """Return two texts with the same revision, of which the first or the second one stays."""
    events = [tenant.ocr("d", text, revision=7) for text in ("one text", "another text")]
    key = DocumentKey(tenant.organization_id, "d")
    events.sort(key=lambda each: versions_of(each, text_id=text_id(key, each.text or "", ()))["text"])
    return events[::-1] if greater_first else events


async def test_a_creation_after_a_deletion_with_a_greater_revision_is_announced_once_however_often_it_comes(
    tenant: Tenant, indexer: Replica
) -> None:
    created, deleted = tenant.ocr("d", "text", revision=1), tenant.deleted("d", revision=1_769_860_800_000)
    await publish_at(indexer, (created, BEGIN), (deleted, BEGIN + SECOND))
    assert await announced(tenant) == []
    recreated = tenant.ocr("d", "text of another day", revision=1)
    await publish_at(indexer, (recreated, BEGIN + 2 * SECOND), again=3)
    [outcome] = await announced(tenant)
    by = {"by": "deletion", "revision": deleted.revision}
    assert outcome["outdated"] == [{"facet": "text", **by}, {"facet": "tags", **by}]
    assert (outcome["document_id"], outcome["revision"]) == ("d", 1)
    assert outcome["event_type"] == "document.ocr_completed.v1"
    assert outcome["event_id"]


@pytest.mark.parametrize("greater_first", [True, False])
async def test_other_content_with_the_same_revision_is_announced_if_the_one_that_came_first_stays(
    tenant: Tenant, indexer: Replica, *, greater_first: bool
) -> None:
    first, second = texts_in_order_of_digest(tenant, greater_first=greater_first)
    await publish_at(indexer, (first, BEGIN), (second, BEGIN + SECOND), again=2)
    found = await announced(tenant)
    assert [each["outdated"] for each in found] == (
        [[{"facet": "text", "by": "other_content", "revision": 7}]] if greater_first else []
    )


async def test_tags_and_metadata_that_do_not_stay_are_announced_too(tenant: Tenant, indexer: Replica) -> None:
    await publish_at(
        indexer,
        (tenant.ocr("d", "text", revision=1), BEGIN),
        (tenant.deleted("d", revision=9), BEGIN + SECOND),
        (tenant.tagged("d", "b", revision=2), BEGIN + 2 * SECOND),
        (tenant.described("d", {"k": 1}, revision=3), BEGIN + 2 * SECOND),
    )
    found = {each["event_type"]: each["outdated"] for each in await announced(tenant)}
    assert found == {
        "document.tags_changed.v1": [{"facet": "tags", "by": "deletion", "revision": 9}],
        "document.metadata_changed.v1": [{"facet": "metadata", "by": "deletion", "revision": 9}],
    }


async def test_a_part_that_does_not_stay_is_announced_although_the_rest_does(tenant: Tenant, indexer: Replica) -> None:
    first, second = (
        each.model_copy(update={"tag_ids": tag_ids})
        for each, tag_ids in zip(
            texts_in_order_of_digest(tenant, greater_first=True), _tags_in_order_of_digest(), strict=True
        )
    )
    await publish_at(indexer, (first, BEGIN), (second, BEGIN + SECOND))
    [outcome] = await announced(tenant)
    assert outcome["outdated"] == [{"facet": "text", "by": "other_content", "revision": 7}]


def _tags_in_order_of_digest() -> list[list[str]]:
    event = TagsChanged(organization_id="o", document_id="d", revision=7, tag_ids=[])
    tags = [["a"], ["b"]]
    tags.sort(key=lambda each: versions_of(event.model_copy(update={"tag_ids": each}), text_id=None)["tags"])
    return tags


async def test_a_topic_that_is_read_again_announces_nothing(tenant: Tenant, indexer: Replica) -> None:
    history: list[tuple[DocumentEvent, datetime]] = [
        (tenant.ocr("d", f"text {revision}", revision=revision), BEGIN + revision * SECOND) for revision in range(1, 9)
    ]
    history += [
        (tenant.deleted("d", revision=9), BEGIN + 9 * SECOND),
        (tenant.ocr("e", "text", revision=1), BEGIN),
        (tenant.ocr("e", "text", revision=1), BEGIN + SECOND),
        (tenant.tagged("e", "b", revision=5), BEGIN + 2 * SECOND),
    ]
    await publish_at(indexer, *history, again=3)
    await publish_at(indexer, *reversed(history))
    assert await announced(tenant) == []


async def test_events_that_were_overtaken_on_their_way_announce_nothing(tenant: Tenant, indexer: Replica) -> None:
    await publish_at(
        indexer,
        (tenant.deleted("d", revision=2), BEGIN + SECOND),
        (tenant.ocr("d", "text", revision=1), BEGIN),
        (tenant.ocr("e", "new", revision=2), BEGIN),
        (tenant.ocr("e", "old", revision=1), BEGIN + SECOND),
    )
    assert await announced(tenant) == []


async def test_a_deletion_of_which_an_older_version_has_stored_no_time_counts_from_when_it_was_applied(
    tenant: Tenant, indexer: Replica
) -> None:
    await publish_at(indexer, (tenant.deleted("d", revision=9), BEGIN))
    await tenant.database[documents.NAME].update_one(
        {"organization_id": tenant.organization_id, "document_id": "d"}, {"$unset": {"events.0.occurred_at": True}}
    )
    await publish_at(indexer, (tenant.ocr("d", "text", revision=1), BEGIN + SECOND))
    assert await announced(tenant) == []
    later = datetime.now(UTC) + timedelta(minutes=1)
    await publish_at(indexer, (tenant.ocr("d", "text", revision=2), later))
    assert len(await announced(tenant)) == 1
