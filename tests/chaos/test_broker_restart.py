from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from kb_local.stack import Stack
from tests.chaos.crashes import Servers
from tests.chaos.faults import program_provider
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import QUICK, SystemUnderTest, system, until

DOCUMENTS = 8


async def test_a_broker_that_forgets_everything_loses_nothing_that_was_accepted(
    servers: Servers, tmp_path: Path
) -> None:
    async with _stack_with_its_own_broker(servers, tmp_path) as opened:
        oracle, upstream = Oracle(), Upstream(opened.organization_id)

        async def publish(*document_ids: str) -> None:
            events = [upstream.ocr(i, [paragraph(f"{i} {n}") for n in range(2)], tags=["a"]) for i in document_ids]
            oracle.record_published(*events)
            await opened.events.publish_all(events)

        await opened.create_tags("a")
        oracle.record_knowledge_base(await opened.create_knowledge_base("a"), "a")
        await publish("announced-1", "announced-2")
        await until_quiescent(opened)
        await opened.until_active(*oracle.knowledge_bases)

        async with _no_embedding(opened):
            await publish(*(f"accepted-{n}" for n in range(DOCUMENTS)))
            await until(lambda: _all_accepted_and_few_claimed(opened), what="some at work, the others waiting")
            await opened.stack.kill("kb_indexer")
        await opened.stack.restart_broker()
        await opened.stack.start_service("kb_indexer")
        await publish("after-it")

        await until_quiescent(opened)
        # Its topics were empty: what it knows of the announcements was sent again.
        assert await oracle.check(opened) == []


@asynccontextmanager
async def _stack_with_its_own_broker(servers: Servers, folder: Path) -> AsyncIterator[SystemUnderTest]:
    name = f"broker_{uuid4().hex[:12]}"
    async with (
        Stack(
            folder,
            services=("kb_api", "kb_indexer"),
            env={**QUICK, "KB_MAX_IN_FLIGHT": "2"},
            mongo_uri=servers.mongo_uri,
            models_api_base=servers.models_api_base,
            zygote=servers.zygote,
            database=name,
        ) as stack,
        system(stack) as opened,
    ):
        yield opened
        await opened.database.client.drop_database(name)


@asynccontextmanager
async def _no_embedding(opened: SystemUnderTest) -> AsyncIterator[None]:
    """None is answered before the indexer gives up on it: what was begun meanwhile stays begun."""
    await program_provider(opened.stack, {"delay_ms": 120_000})
    try:
        yield
    finally:
        await program_provider(opened.stack, {})


async def _all_accepted_and_few_claimed(opened: SystemUnderTest) -> bool:
    jobs = [job["state"] async for job in opened.database.index_jobs.find({}, {"state": 1})]
    return len(jobs) == DOCUMENTS and 1 <= jobs.count("running") <= 2
