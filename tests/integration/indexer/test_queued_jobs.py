"""Jobs that wait in the queue: an organization has a limited number in the lanes, and takes turns with the others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from kb_contracts import topics
from kb_local.python_server import ModelServerProcess
from kb_shared.kafka import consumer
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import LANE_LIMITS, IndexJobState, LaneLimits
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Replica, Tenant, replica, text_of

TEXT = text_of(1)
LIMITS = LaneLimits(of_kb=2, of_organization=3)


@pytest.fixture
async def limited(own_database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    """Yield a replica with small limits, which counts each time."""
    async with replica(own_database, model_server.api_base, limits=LIMITS, backlog_known_for_s=0.0) as made:
        yield made


def sent(indexer: Replica, lane: topics.Topic) -> list[tuple[str, str]]:
    """Take the KB and document of each command that was sent on a lane."""
    keys = [(message.key or b"").decode().split("/") for message in indexer.producer.sent_to(lane.name)]
    return [(kb_id, document_id) for kb_id, document_id in keys]


async def publish(indexer: Replica, tenant: Tenant, tag: str, *document_ids: str) -> None:
    await indexer.publish(*(tenant.ocr(document_id, TEXT, tags=[tag]) for document_id in document_ids))


async def in_lanes(tenant: Tenant) -> int:
    return await index_jobs.count_in_lanes(tenant.database, tenant.organization_id, limit=1_000)


def test_one_organization_never_fills_the_read_ahead_of_a_partition() -> None:
    assert LANE_LIMITS.of_kb < LANE_LIMITS.of_organization < consumer.MAX_REPLAY


async def test_c11_a_busy_knowledge_base_queues_its_jobs_and_delays_no_other_knowledge_base(
    own_tenant: Tenant, limited: Replica
) -> None:
    busy, other = await own_tenant.create_kb("a"), await own_tenant.create_kb("b")

    await publish(limited, own_tenant, "a", "d0", "d1", "d2", "d3")
    await limited.publish(own_tenant.ocr("e", TEXT, tags=["a", "b"]))

    assert sent(limited, topics.INDEX_BACKFILL) == []
    assert sent(limited, topics.INDEX_REQUESTS) == [(busy.kb_id, "d0"), (busy.kb_id, "d1"), (other.kb_id, "e")]
    assert await limited.dispatcher.dispatch() == 0, "both limits are reached"
    await own_tenant.make_due()
    await limited.work()
    await own_tenant.assert_holds(busy, dict.fromkeys(("d0", "d1", "d2", "d3", "e"), TEXT))
    await own_tenant.assert_holds(other, {"e": TEXT})
    await own_tenant.assert_settled()


async def test_queued_jobs_are_published_in_the_order_of_their_requests_when_others_have_ended(
    own_tenant: Tenant, limited: Replica
) -> None:
    kb = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", "d0", "d1", "z", "y", "x")
    assert await limited.dispatcher.dispatch() == 0

    await limited.handle_commands()

    assert await limited.dispatcher.dispatch() == 2
    assert sent(limited, topics.INDEX_BACKFILL) == [(kb.kb_id, "z"), (kb.kb_id, "y")]
    assert await limited.dispatcher.dispatch() == 0, "these two are in the lanes now"


async def test_organizations_take_turns_however_many_knowledge_bases_and_jobs_one_has(
    own_database: Database, limited: Replica
) -> None:
    large, small = Tenant(own_database), Tenant(own_database)
    for tag in ("a", "b", "c"):
        await large.create_kb(tag)
        await publish(limited, large, tag, *(f"{tag}{n}" for n in range(4)))
    innocent = await small.create_kb("a")
    assert await in_lanes(large) == LIMITS.of_organization

    await publish(limited, small, "a", "d0", "d1", "d2")

    live = sent(limited, topics.INDEX_REQUESTS)
    assert [document_id for kb_id, document_id in live if kb_id == innocent.kb_id] == ["d0", "d1"]
    assert len(live) == LIMITS.of_organization + 2
    # Nothing of the large organization ends. Those of the small one go on all the same.
    for document_id in ("d0", "d1"):
        await own_database[index_jobs.NAME].delete_one(
            {"_id": index_jobs.row_id(kb_id=innocent.kb_id, document_id=document_id)}
        )
    assert await limited.dispatcher.dispatch() == 1
    assert sent(limited, topics.INDEX_BACKFILL) == [(innocent.kb_id, "d2")]
    assert await in_lanes(large) == LIMITS.of_organization


async def test_the_knowledge_bases_of_an_organization_share_what_is_left_of_its_limit(
    own_tenant: Tenant, own_database: Database, limited: Replica
) -> None:
    kbs = [await own_tenant.create_kb(tag) for tag in ("a", "b")]
    for tag in ("a", "b"):
        await publish(limited, own_tenant, tag, *(f"{tag}{n}" for n in range(4)))
    await limited.handle_commands()
    assert await in_lanes(own_tenant) == 0

    await limited.dispatcher.dispatch()

    of_kbs = Counter(kb_id for kb_id, _ in sent(limited, topics.INDEX_BACKFILL))
    assert sorted(of_kbs) == sorted(kb.kb_id for kb in kbs)
    assert of_kbs.total() == LIMITS.of_organization


async def test_a_crowd_that_becomes_due_together_is_queued(own_tenant: Tenant, limited: Replica) -> None:
    await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", *(f"d{n}" for n in range(7)))
    limited.producer.sent_to(topics.INDEX_REQUESTS.name)
    await own_tenant.database[index_jobs.NAME].update_many(
        {"organization_id": own_tenant.organization_id},
        {"$set": {"next_attempt_at": datetime.now(UTC) - timedelta(seconds=1), "queued": False, "in_lane": False}},
    )

    while await limited.sweeper.sweep():
        pass
    assert sent(limited, topics.INDEX_REQUESTS) == []
    assert await limited.dispatcher.dispatch() == LIMITS.of_kb
    assert len(sent(limited, topics.INDEX_BACKFILL)) == LIMITS.of_kb


async def test_the_sweeper_leaves_queued_jobs_in_the_queue(own_tenant: Tenant, limited: Replica) -> None:
    await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", "d0", "d1", "d2", "d3")
    limited.producer.sent_to(topics.INDEX_REQUESTS.name)
    await own_tenant.database[index_jobs.NAME].update_many(
        {"organization_id": own_tenant.organization_id, "queued": True},
        {"$set": {"next_attempt_at": datetime.now(UTC) - timedelta(seconds=1)}},
    )

    assert await limited.sweeper.sweep() == 0


async def test_what_a_crash_left_unpublished_is_published_by_the_sweeper(own_tenant: Tenant, limited: Replica) -> None:
    kb = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", "d0", "d1", "d2", "d3")
    await limited.handle_commands()

    # The process dies between these two steps of a dispatch.
    taken = await index_jobs.take_queued(own_tenant.database, kb.key, limit=10)

    assert [job.document_id for job in taken] == ["d2", "d3"]
    assert await limited.dispatcher.dispatch() == 0
    await own_tenant.make_due()
    await limited.work()
    await own_tenant.assert_holds(kb, dict.fromkeys(("d0", "d1", "d2", "d3"), TEXT))
    await own_tenant.assert_settled()


async def test_each_queued_job_is_taken_once(own_tenant: Tenant, limited: Replica) -> None:
    kb = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", *(f"d{n}" for n in range(6)))

    first = await index_jobs.take_queued(own_tenant.database, kb.key, limit=3)
    second = await index_jobs.take_queued(own_tenant.database, kb.key, limit=3)

    assert [job.document_id for job in (*first, *second)] == ["d2", "d3", "d4", "d5"]


async def test_a_queued_job_that_two_replicas_want_is_taken_by_one(own_tenant: Tenant, limited: Replica) -> None:
    kb = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", *(f"d{n}" for n in range(12)))

    taken = await asyncio.gather(*(index_jobs.take_queued(own_tenant.database, kb.key, limit=10) for _ in range(8)))

    document_ids = [job.document_id for jobs in taken for job in jobs]
    assert sorted(document_ids) == sorted(f"d{n}" for n in range(2, 12))


async def test_a_job_that_is_in_a_lane_already_is_not_queued_as_well(own_tenant: Tenant, limited: Replica) -> None:
    kb = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", "d0", "d1", "d2")

    await limited.publish(own_tenant.ocr("d0", text_of(2), revision=2))

    queued = await index_jobs.take_queued(own_tenant.database, kb.key, limit=10)
    assert [job.document_id for job in queued] == ["d2"]
    await limited.work()
    await own_tenant.make_due()
    await limited.work()
    await own_tenant.assert_holds(kb, {"d0": text_of(2), "d1": TEXT, "d2": TEXT})


@pytest.mark.parametrize("ends", ["postponed", "failed", "waiting_for_text", "indexed"])
async def test_a_job_leaves_the_lanes_when_its_attempt_has_ended(
    own_tenant: Tenant, limited: Replica, provider: ModelControls, ends: str
) -> None:
    await own_tenant.create_kb("a")
    faults = {"postponed": {"status": 429, "retry_after_s": 60}, "failed": {"status": 400}}
    if ends in faults:
        await provider.program_faults(*[faults[ends]] * 10)
    text = None if ends == "waiting_for_text" else TEXT
    await limited.publish(own_tenant.tagged("d", "a", revision=1) if text is None else own_tenant.ocr("d", text))

    await limited.handle_commands()

    states = {job.state for job in (await own_tenant.jobs()).values()}
    expected = {"postponed": {IndexJobState.PENDING}, "indexed": set()}
    assert states == expected.get(ends, {ends})
    assert await in_lanes(own_tenant) == 0


async def test_paused_jobs_leave_the_lanes(own_tenant: Tenant, limited: Replica) -> None:
    kb: KnowledgeBase = await own_tenant.create_kb("a")
    await publish(limited, own_tenant, "a", "d0")
    await limited.pause_kb(kb)
    await limited.handle_commands()
    assert {job.state for job in (await own_tenant.jobs()).values()} == {IndexJobState.PAUSED}
    assert await in_lanes(own_tenant) == 0
