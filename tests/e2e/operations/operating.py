"""The check of the overview that people on call read."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_shows, undisturbed
from tests.e2e.operations.indexing_jobs import paused
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    StockedOrganization,
)


@checks("operations.get")
async def check_operations(organization: StockedOrganization) -> None:
    await organization.client.llm_providers.pause("azure")
    async with paused(organization):
        answer, stored = await undisturbed(organization.client.operations.get, lambda: _stored_operations(organization))
    assert_shows(answer, stored)
    assert [kb.kb_id for kb in answer.paused_knowledge_bases] == [organization.changing_kb_id]
    assert "azure" in {pause.provider for pause in answer.paused_providers}
    await organization.client.llm_providers.resume("azure")


@checks("operations.count")
async def check_operation_counts(organization: StockedOrganization) -> None:
    async def stored() -> Row:
        letters = await organization.rows("dead_letters", redriven_at=None, discarded_at=None)
        failed = await organization.rows("index_jobs", state="failed")
        return {"dead_letters": len(letters), "failed_documents": len(failed), "is_exact": True}

    answer, counted = await undisturbed(organization.client.operations.count, stored)
    assert_shows(answer, counted)


def _most_searched(searches: list[Row], kbs: list[Row]) -> list[Row]:
    names = {kb["_id"]: kb["name"] for kb in kbs}
    counts = Counter(kb_id for search in searches for kb_id in search["kb_ids"] if kb_id in names)
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:5]
    return [{"kb_id": kb_id, "name": names[kb_id], "searches": count} for kb_id, count in most]


async def _stored_operations(organization: StockedOrganization) -> Row:
    """Return what goes on; of the jobs only those that have failed are expected."""
    jobs = await organization.rows("index_jobs")
    oldest: dict[str, list[Any]] = {}
    for job in jobs:
        oldest.setdefault(job["state"], []).append(job["requested_at"])
    kbs = await organization.rows("knowledge_bases", paused_at={"$ne": None})
    pauses = await organization.rows("provider_pauses")
    names = ("provider", "paused_at", "paused_by")
    return {
        "jobs": [
            {"state": state, "count": len(times), "oldest_at": min(times)} for state, times in sorted(oldest.items())
        ],
        "is_exact": True,
        "waiting": [],
        "running_jobs": len(await organization.rows("backfills", state="running")),
        "paused_knowledge_bases": [
            {"kb_id": kb["_id"], "name": kb["name"], "paused_at": kb["paused_at"]} for kb in kbs
        ],
        "paused_providers": [{name: pause[name] for name in names} for pause in pauses],
        "failed_knowledge_bases": [],
        "most_searched": _most_searched(
            await organization.rows("query_log", asked_at={"$gte": datetime.now(UTC) - timedelta(days=7)}),
            await organization.rows("knowledge_bases", status={"$ne": "deleting"}),
        ),
        "unusable_models": [],
        "dead_letters": len(await organization.rows("dead_letters", redriven_at=None, discarded_at=None)),
        "unsendable_messages": len(await organization.rows("outbox", unsendable_at={"$exists": True})),
    }
