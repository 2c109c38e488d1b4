"""Events of one document that wait are handled together, as if one after the other, and at the cost of one."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kb_contracts.commands import SyncDocument
from kb_contracts.documents import DocumentEvent, TagDeleted, TagUpserted
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import DocumentOutdated
from kb_shared import failpoints
from kb_shared.mongo import citations, document_texts, documents, outbox, tags
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.documents import EVENTS_REMEMBERED, DocumentChange
from kb_shared.mongo.keys import DocumentKey
from tests.integration.indexer.support import LANES, CommandLog, Replica, Tenant, decoded, text_of

TEXT = text_of(1, 2, 3)


class Crash(Exception):
    """The process ends here."""


async def crash() -> None:
    raise Crash


def commands(indexer: Replica) -> list[str]:
    """Return the documents of the commands that were sent, taken away."""
    values = [message.value or b"" for message in indexer.producer.sent_to(*LANES)]
    return [command.document_id for command in decoded(values, SyncDocument)]


async def cost_of(indexer: Replica, log: CommandLog, *events: DocumentEvent) -> list[str]:
    log.clear()
    assert await indexer.publish_together(*events) == [None] * len(events)
    return sorted(log.names())


async def test_a_hundred_copies_of_an_event_cost_as_many_commands_as_one(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    for document_id in ("warm", "d", "e"):
        await indexer.publish(tenant.ocr(document_id, TEXT))
    await indexer.work()
    # The first count of the backlog, and what a process remembers.
    await cost_of(indexer, command_log, tenant.ocr("warm", TEXT))

    single = await cost_of(indexer, command_log, tenant.ocr("d", TEXT))
    hundred = await cost_of(indexer, command_log, *[tenant.ocr("e", TEXT)] * 100)

    assert hundred == single
    assert commands(indexer) == []
    await tenant.assert_settled()


async def test_a_hundred_revisions_cost_one_write_of_the_document_and_one_command(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    kb = await tenant.create_kb("a")
    revisions = [tenant.ocr("d", text_of(n), revision=n) for n in range(1, 101)]

    names = await cost_of(indexer, command_log, *revisions)

    assert names.count("insert documents") + names.count("update documents") == 1
    assert len(names) < 20, names
    assert commands(indexer) == ["d"]
    await indexer.publish_together(*revisions)
    await indexer.work()
    await tenant.assert_holds(kb, {"d": text_of(100)})
    await tenant.assert_settled()


@pytest.mark.parametrize("seed", range(5))
async def test_events_that_come_together_give_the_state_that_they_give_one_by_one(
    tenant: Tenant, indexer: Replica, seed: int
) -> None:
    dice = random.Random(seed)

    def events(document_id: str) -> list[DocumentEvent]:
        make: list[Callable[[int], DocumentEvent]] = [
            lambda n: tenant.ocr(document_id, text_of(n % 3), revision=n),
            lambda n: tenant.tagged(document_id, "a", f"t{n % 2}", revision=n),
            lambda n: tenant.described(document_id, {"n": n}, revision=n),
            lambda n: tenant.deleted(document_id, revision=n),
        ]
        rolled = random.Random(seed)
        return [rolled.choices(make, [4, 2, 2, 1])[0](rolled.randrange(1, 8)) for _ in range(12)]

    together, singly = events("together"), events("singly")
    dice.shuffle(singly)
    middle = dice.randrange(1, 12)
    for bundle in (together[:middle], together[middle:], together[: middle + 1]):
        await indexer.publish_together(*bundle)
    await indexer.publish(*singly)

    found = await documents.find_by_ids(tenant.database, tenant.organization_id, ["together", "singly"])
    states = [
        (
            each.deleted_revision,
            each.text and (each.text.revision, each.text.text_id.rpartition("/")[2]),
            each.tags and (each.tags.revision, each.tags.tag_ids),
            each.metadata and (each.metadata.revision, each.metadata.values),
        )
        for each in (found["together"], found["singly"])
    ]
    assert states[0] == states[1]


async def test_the_last_events_of_a_bundle_that_changed_the_document_are_recorded(
    tenant: Tenant, indexer: Replica
) -> None:
    key = DocumentKey(tenant.organization_id, "d")
    bundle = [tenant.tagged("d", f"t{n}", revision=n) for n in (1, 2, 3, 3, 4, 5, 6, 7)]
    await indexer.publish_together(*bundle)
    stored = await documents.find_last_events(tenant.database, key)
    assert [event.revision for event in stored] == [7, 6, 5, 4, 3]
    assert len({event.event_id for event in stored}) == EVENTS_REMEMBERED

    await indexer.publish_together(*bundle, tenant.tagged("d", "t8", revision=8))
    stored = await documents.find_last_events(tenant.database, key)
    assert [event.revision for event in stored] == [8, 7, 6, 5, 4]


async def test_an_event_that_is_refused_costs_no_other_event_of_its_bundle(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    unknown = f"{tenant.organization_id}/d/{'0' * 64}"

    outcomes = await indexer.publish_together(
        tenant.ocr("d", TEXT, revision=1),
        tenant.ocr("d", None, text_ref=unknown, revision=2),
        tenant.tagged("d", "a", "b", revision=3),
        tenant.ocr("d", None, text_ref=unknown, revision=2),
    )

    reasons = [outcome.reason if isinstance(outcome, Rejected) else outcome for outcome in outcomes]
    assert reasons == [None, "unknown-text-ref", None, "unknown-text-ref"]
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    document = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert document is not None
    assert document.tag_ids == ("a", "b")


async def test_a_bundle_of_refused_events_alone_changes_nothing(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    unknown = tenant.ocr("d", None, text_ref=f"{tenant.organization_id}/d/{'0' * 64}")
    outcomes = await indexer.publish_together(unknown, unknown)
    assert [type(outcome) for outcome in outcomes] == [Rejected] * 2
    assert await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d")) is None
    assert commands(indexer) == []


async def test_a_text_that_comes_in_the_same_bundle_can_be_referred_to(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    reference = text_id(DocumentKey(tenant.organization_id, "d"), TEXT, ())

    outcomes = await indexer.publish_together(
        tenant.ocr("d", TEXT, revision=1),
        tenant.ocr("d", text_of(9), revision=2),
        tenant.ocr("d", None, text_ref=reference, revision=3),
    )

    assert outcomes == [None] * 3
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})


async def test_copies_that_refer_to_a_stored_text_cost_as_many_commands_as_one(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    references = [
        await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, document_id), TEXT)
        for document_id in ("d", "e")
    ]
    single = await cost_of(indexer, command_log, tenant.ocr("d", None, text_ref=references[0]))
    fifty = await cost_of(indexer, command_log, *[tenant.ocr("e", None, text_ref=references[1])] * 50)
    # The tag of the first is new to the process.
    assert fifty == [name for name in single if not name.endswith(tags.NAME)]


@pytest.mark.parametrize(
    "failpoint",
    ["fan_out.before_projection", "fan_out.after_text", "fan_out.after_projection", "fan_out.after_jobs"],
)
async def test_a_bundle_that_is_interrupted_handles_none_of_its_events(
    tenant: Tenant, indexer: Replica, failpoint: str
) -> None:
    kb = await tenant.create_kb("a")
    bundle = [tenant.ocr("d", text_of(n), revision=n) for n in (1, 2, 3)]
    async with failpoints.during(failpoint, crash):
        outcomes = await indexer.publish_together(*bundle)
    assert [type(outcome) for outcome in outcomes] == [Crash] * 3

    assert await indexer.publish_together(*bundle) == [None] * 3
    await indexer.work()
    await tenant.assert_holds(kb, {"d": text_of(3)})
    await tenant.assert_settled()


async def test_citations_go_with_a_document_that_is_deleted_and_comes_back_in_one_bundle(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, mine = tenant.database[citations.NAME], {"organization_id": tenant.organization_id, "document_id": "d"}
    await indexer.publish(tenant.ocr("d", TEXT, revision=1))
    await rows.insert_one(dict(mine))
    bundle = [tenant.deleted("d", revision=2), tenant.ocr("d", TEXT, revision=3)]
    write_all = documents.write_all

    async def write_and_crash(*arguments: Any) -> set[DocumentChange]:
        await write_all(*arguments)
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(documents, "write_all", write_and_crash)
        assert {type(outcome) for outcome in await indexer.publish_together(*bundle)} == {Crash}

    await indexer.publish_together(*bundle)

    assert await rows.count_documents(mine) == 0


async def test_events_of_one_tag_that_come_together_leave_the_newest_state(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    def named(name: str, revision: int) -> TagUpserted:
        return TagUpserted(organization_id=tenant.organization_id, tag_id="t", name=name, revision=revision)

    command_log.clear()
    outcomes = await indexer.publish_together(*[named("old", 1)] * 40, named("new", 2), *[named("old", 1)] * 40)
    assert outcomes == [None] * 81
    assert command_log.names().count(f"update {tags.NAME}") == 2
    row = await tenant.database[tags.NAME].find_one({"organization_id": tenant.organization_id, "tag_id": "t"})
    assert row is not None
    assert row["name"] == "new"

    await indexer.publish_together(
        TagDeleted(organization_id=tenant.organization_id, tag_id="t", revision=3), named("old", 1)
    )
    row = await tenant.database[tags.NAME].find_one({"organization_id": tenant.organization_id, "tag_id": "t"})
    assert row is not None
    assert row["deleted"]


async def test_content_that_does_not_stay_is_announced_once_for_all_copies_in_a_bundle(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    mine = {"key": tenant.organization_id, "ordering": {"$regex": "^outdated/"}}
    await indexer.publish(tenant.deleted("d", revision=9))
    # Of these the last replaces the first two, which changed the document when it was their turn.
    kept = [tenant.tagged("e", f"t{n}", revision=n) for n in (1, 2, 3)]
    await indexer.publish_together(*kept, *kept)
    assert await tenant.database[outbox.NAME].count_documents(mine) == 0

    names = await cost_of(indexer, command_log, *[tenant.ocr("d", TEXT, revision=1)] * 50)

    [row] = await tenant.database[outbox.NAME].find(mine).to_list()
    [outdated] = decoded([row["value"]], DocumentOutdated)
    assert (outdated.document_id, outdated.revision) == ("d", 1)
    assert names.count(f"update {outbox.NAME}") == 1
