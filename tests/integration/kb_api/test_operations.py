from datetime import timedelta

import pytest

from kb_api import operations_of_organization
from kb_shared.mongo import circuits, dead_letters, index_jobs, query_log
from kb_shared.mongo.circuit import Cause, Circuit
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Row
from kb_shared.mongo.query_log import LoggedQuery
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
    "most_searched": [],
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


async def test_what_needs_attention_is_counted_up_to_a_limit(
    organization: OrganizationClient, new_organization: NewOrganization, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = {"dead_letters": 0, "failed_documents": 0, "is_exact": True}
    assert await organization.ok("GET", "/operations/counts") == nothing
    kb_id = (await organization.create())["kb_id"]
    for document_id in ("a", "b"):
        await organization.failed_job(kb_id, document_id, error_type="x", error_message="y")
    await organization.open_job(kb_id, "c")
    letter: Row = {"organization_id": organization.organization_id, "filed_at": now(), "discarded_at": None}
    letters = [{**letter, "redriven_at": None}, {**letter, "redriven_at": now()}]
    await organization.database[dead_letters.NAME].insert_many(letters)
    counted = {"dead_letters": 1, "failed_documents": 2, "is_exact": True}
    assert await organization.ok("GET", "/operations/counts") == counted
    assert await (await new_organization()).ok("GET", "/operations/counts") == nothing
    monkeypatch.setattr(operations_of_organization, "MOST_COUNTED", 2)
    assert await organization.ok("GET", "/operations/counts") == {**counted, "is_exact": False}


async def test_operations_name_what_was_searched_most_in_the_last_week(
    organization: OrganizationClient, new_organization: NewOrganization, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb_ids = [(await organization.create(name=f"KB {number}"))["kb_id"] for number in range(6)]
    other = await new_organization()

    def searched(*of: str, days_ago: float = 0, organization_id: str = organization.organization_id) -> LoggedQuery:
        at = now() - timedelta(days=days_ago)
        return LoggedQuery(organization_id, of, "q", "hybrid", "answered", 1, 1.0, "sdk", "key", None, at)

    # The first is searched once, the second twice, and so on; twice both the last ones.
    searches = [searched(kb_id) for number, kb_id in enumerate(kb_ids) for _ in range(number + 1)]
    searches += [searched(kb_ids[-1], kb_ids[-2]) for _ in range(2)]
    searches += [searched("f" * 24, kb_ids[1]), searched()]
    searches += [searched(kb_ids[0], days_ago=7.1) for _ in range(20)]
    searches += [searched(kb_ids[0], organization_id=other.organization_id) for _ in range(20)]
    await query_log.insert(organization.database, searches, kept=timedelta(days=90))

    async def most_searched(of: OrganizationClient) -> list[tuple[str, str, int]]:
        shown = (await of.ok("GET", "/operations"))["most_searched"]
        return [(each["kb_id"], each["name"], each["searches"]) for each in shown]

    counts = {5: 8, 4: 7, 3: 4, 1: 3, 2: 3}
    expected = [(kb_ids[number], f"KB {number}", searches) for number, searches in counts.items()]
    assert await most_searched(organization) == sorted(expected, key=lambda each: (-each[2], each[0]))
    assert await most_searched(other) == []
    monkeypatch.setattr(query_log, "_MOST_COUNTED", 2)
    assert sum(searches for _, _, searches in await most_searched(organization)) <= 4
