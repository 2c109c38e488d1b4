from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kb_indexer.sync_document import MAX_CRASHES
from kb_shared.mongo.index_jobs import SUSPECT_AFTER
from tests.chaos.crashes import Servers, one_indexer
from tests.chaos.faults import program_provider
from tests.chaos.quiescence import SLOW_S, until_quiescent
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import SystemUnderTest, until

KILLER = "killer"
INNOCENTS = [f"innocent-{n}" for n in range(6)]


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_document_that_kills_indexers_is_given_up_and_no_document_beside_it(
    servers: Servers, tmp_path: Path
) -> None:
    async with one_indexer(servers, tmp_path) as opened:
        upstream = Upstream(opened.organization_id)
        await opened.create_tags("a")
        kb_id = await opened.create_knowledge_base("a")
        await opened.until_active(kb_id, within_s=SLOW_S)
        # All are handled at the same time, and still are at the next look.
        await program_provider(opened.stack, {"delay_ms": 5000})
        events = [upstream.ocr(i, [paragraph(i)], tags=["a"]) for i in (KILLER, *INNOCENTS)]
        await opened.events.publish_all(events)

        kills = await _kill_indexer_at_work(opened)

        await program_provider(opened.stack, {})
        await until_quiescent(opened)
        assert kills == MAX_CRASHES
        [failed] = await opened.database.index_jobs.find().to_list()
        assert (failed["document_id"], failed["state"], failed["error_type"]) == (KILLER, "failed", "worker_crashed")
        assert set(await opened.database.document_index.distinct("document_id")) == set(INNOCENTS)


async def _kill_indexer_at_work(opened: SystemUnderTest) -> int:
    """Kill the indexer each time it is at work on the killer, until it is given up; return how often that was."""
    kills = 0
    indexer = opened.stack.services["kb_indexer"]
    job: dict[str, Any] = {}

    async def at_work_or_failed() -> bool:
        job.update(await opened.database.index_jobs.find_one({"document_id": KILLER}) or {"state": "absent"})
        # Who is suspect and not alone yet waits for its turn.
        return job["state"] == "failed" or (
            job["state"] == "running" and job["lease_owner"] is not None and (kills < SUSPECT_AFTER or job["alone"])
        )

    while True:
        await until(at_work_or_failed, within_s=SLOW_S, what="the killer is at work or given up")
        if job["state"] == "failed":
            return kills
        await indexer.kill()
        kills += 1
        indexer.launch()
        await until(
            partial(_is_taken_over, opened, job["lease_owner"]), within_s=SLOW_S, what="another works on the killer"
        )


async def _is_taken_over(opened: SystemUnderTest, dead: str) -> bool:
    job = await opened.database.index_jobs.find_one({"document_id": KILLER})
    return job is not None and job["lease_owner"] != dead
