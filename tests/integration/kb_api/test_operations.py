from datetime import timedelta

import pytest

from kb_shared.mongo import circuits, index_jobs
from kb_shared.mongo.circuit import Cause, Circuit
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.stored_time import now
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient

NOTHING = {
    "jobs": [],
    "is_exact": True,
    "waiting": [],
    "running_jobs": 0,
    "paused_knowledge_bases": [],
    "paused_providers": [],
    "failed_knowledge_bases": [],
    "unusable_models": [],
    "dead_letters": 0,
    "unsendable_messages": 0,
}


async def test_operations_show_what_is_open_waits_is_paused_or_is_broken(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    assert await organization.ok("GET", "/operations") == NOTHING
    kb_id = (await organization.create(name="Handbook"))["kb_id"]
    await index_jobs.postpone(
        organization.database,
        await organization.running_job(kb_id, "waits"),
        delay=timedelta(hours=1),
        error_type="rate_limited",
        error_message="m",
        count_attempt=False,
    )
    await organization.open_job(kb_id, "next")
    await organization.failed_job(kb_id, "failed", error_type="x", error_message="y")
    await organization.ok("POST", "/llm-providers/openai/pause")
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    opened = Circuit(cause=Cause.KEY, open_until=now() + timedelta(hours=1))
    circuit_id = CircuitId(organization.organization_id, "print", "queries/azure/model")
    await circuits.change(organization.database, circuit_id, lambda before, _: (opened, None))
    shown = await organization.ok("GET", "/operations")

    assert {each["state"]: each["count"] for each in shown["jobs"]} == {"pending": 2, "failed": 1}
    assert shown["waiting"] == [{"error_type": "rate_limited", "count": 1}]
    assert shown["running_jobs"] == 1
    assert [each["name"] for each in shown["paused_knowledge_bases"]] == ["Handbook"]
    assert [each["provider"] for each in shown["paused_providers"]] == ["openai"]
    assert [(each["model"], each["cause"]) for each in shown["unusable_models"]] == [("queries/azure/model", "key")]
    assert await (await new_organization()).ok("GET", "/operations") == NOTHING


async def test_operations_are_not_exact_above_the_limit(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_shared.mongo.index_jobs.queries._MOST_SUMMARIZED", 2)
    kb_id = (await organization.create())["kb_id"]
    for document_id in ("a", "b", "c"):
        await organization.open_job(kb_id, document_id)
    shown = await organization.ok("GET", "/operations")
    assert (shown["is_exact"], shown["jobs"][0]["count"]) == (False, 2)
