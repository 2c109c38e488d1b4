"""What was charged, by whatever one asks for, and the budget it is held against."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from kb_api import usage_of_organization
from kb_shared.errors import BudgetExhausted
from kb_shared.metering.budget import Spending
from kb_shared.mongo import index_jobs, spu_ledger
from kb_shared.mongo.keys import MembershipKey
from kb_shared.prices import NANO_USD
from tests.integration.kb_api.organization import OrganizationClient

pytestmark = pytest.mark.usefixtures("within_a_month")

KB_1, KB_2 = "1" * 24, "2" * 24
USD_PER_SPU = 0.25


async def charged(
    organization: OrganizationClient, count: int, at: datetime, *, kb_id: str | None, operation: str = "index"
) -> None:
    row = {"kb_id": kb_id, "operation": operation, "model": "hash-16", "count": count, "created_at": at}
    row["nano_usd"] = round(count * USD_PER_SPU * NANO_USD)
    await organization.database[spu_ledger.NAME].insert_one(
        {"_id": uuid4().hex, "organization_id": organization.organization_id, **row}
    )


@pytest.fixture
async def _charges(organization: OrganizationClient) -> None:
    for day in (1, 2):
        at = datetime(2026, 1, day, 12, tzinfo=UTC)
        await charged(organization, 10, at, kb_id=KB_1)
        await charged(organization, 1, at, kb_id=KB_2, operation="search")
    await charged(organization, 5, datetime(2026, 1, 2, 23, 59, 59, tzinfo=UTC), kb_id=None)
    await charged(organization, 100, datetime(2026, 2, 1, tzinfo=UTC), kb_id=KB_1)


JANUARY = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}


@pytest.mark.usefixtures("_charges")
@pytest.mark.parametrize(
    ("group_by", "expected"),
    [
        (
            "kb",
            [
                {"kb_id": None, "kb_name": None, "spus": 5},
                {"kb_id": KB_1, "kb_name": None, "spus": 20},
                {"kb_id": KB_2, "kb_name": None, "spus": 2},
            ],
        ),
        ("model", [{"model": "hash-16", "spus": 27}]),
        (
            "operation,kb",
            [
                {"kb_id": None, "kb_name": None, "operation": "index", "spus": 5},
                {"kb_id": KB_1, "kb_name": None, "operation": "index", "spus": 20},
                {"kb_id": KB_2, "kb_name": None, "operation": "search", "spus": 2},
            ],
        ),
    ],
)
async def test_usage_adds_up_however_it_is_grouped(
    organization: OrganizationClient, group_by: str, expected: list[dict[str, Any]]
) -> None:
    answer = await organization.ok("GET", "/usage", group_by=group_by, **JANUARY)
    assert answer["usage"] == [
        row | {"usd": row["spus"] * USD_PER_SPU, "nano_usd": row["spus"] * NANO_USD // 4} for row in expected
    ]
    assert (answer["total_spus"], answer["total_usd"]) == (27, 27 * USD_PER_SPU)


@pytest.mark.usefixtures("_charges")
async def test_days_without_charges_are_rows_with_zero_when_grouped_by_day_alone(
    organization: OrganizationClient,
) -> None:
    days = {"from": "2025-12-31T23:59:59Z", "to": "2026-01-04T00:00:00Z"}
    by_day = await organization.ok("GET", "/usage", group_by="day", **days)
    spus = {row["day"]: row["spus"] for row in by_day["usage"]}
    assert spus == {"2025-12-31": 0, "2026-01-01": 11, "2026-01-02": 16, "2026-01-03": 0}
    assert list(spus) == sorted(spus)
    by_day_and_model = await organization.ok("GET", "/usage", group_by="model,day", **days)
    assert [row["day"] for row in by_day_and_model["usage"]] == ["2026-01-01", "2026-01-02"]
    nothing = {"from": "2026-01-04T00:00:00Z", "to": "2026-01-04T00:00:00Z"}
    assert (await organization.ok("GET", "/usage", group_by="day", **nothing))["usage"] == []


async def test_usage_of_a_knowledge_base_has_its_name_and_as_csv_it_is_exact_and_no_formula(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create(name='=HYPERLINK("http://evil")'))["kb_id"]
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    await charged(organization, 1, at, kb_id=kb_id)
    row = {"kb_id": kb_id, "operation": "chat", "model": "m", "count": 0, "created_at": at, "nano_usd": 1}
    await organization.database[spu_ledger.NAME].insert_one(
        {"_id": uuid4().hex, "organization_id": organization.organization_id, **row}
    )
    (shown,) = (await organization.ok("GET", "/usage", **JANUARY))["usage"]
    assert (shown["kb_name"], shown["nano_usd"]) == ('=HYPERLINK("http://evil")', 250_000_001)
    file = await organization.http.get(
        f"{organization.base}/usage",
        params=JANUARY | {"group_by": "day,kb"},
        headers={"Authorization": f"Bearer {organization.key}", "Accept": "text/csv, */*;q=0.1"},
    )
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert file.text.split("\r\n") == [
        "kb_id,kb_name,day,spus,usd",
        f'{kb_id},"\'=HYPERLINK(""http://evil"")",2026-01-01,1,0.250000001',
        "",
    ]


async def test_usage_in_another_media_type_is_refused(organization: OrganizationClient) -> None:
    headers = {"Authorization": f"Bearer {organization.key}", "Accept": "application/pdf, text/csv;q=0"}
    refused = await organization.http.get(f"{organization.base}/usage", headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (406, "not-acceptable")


async def test_usage_with_too_many_rows_is_refused(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await charged(organization, 1, datetime(2026, 1, 1, 12, tzinfo=UTC), kb_id=KB_1)
    await charged(organization, 1, datetime(2026, 1, 1, 12, tzinfo=UTC), kb_id=KB_2)
    monkeypatch.setattr(usage_of_organization, "MAX_ROWS", 1)
    assert await organization.refused("GET", "/usage", **JANUARY) == (422, "validation-error")


async def test_without_a_range_usage_is_that_of_this_month(organization: OrganizationClient) -> None:
    now = datetime.now(UTC)
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    await charged(organization, 3, first, kb_id=KB_1)
    await charged(organization, 7, first - timedelta(milliseconds=1), kb_id=KB_1)
    assert (await organization.ok("GET", "/usage"))["total_spus"] == 3


@pytest.mark.parametrize(
    "params",
    [
        {"group_by": "document"},
        {"group_by": "kb,kb"},
        {"group_by": ""},
        {"from": "yesterday"},
        {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {"from": "2020-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z"},
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    organization: OrganizationClient, params: dict[str, str]
) -> None:
    assert await organization.refused("GET", "/usage", **params) == (422, "validation-error")


async def test_a_budget_shows_how_much_of_it_is_spent(organization: OrganizationClient) -> None:
    assert (await organization.ok("GET", "/budget"))["hard"] is None
    await charged(organization, 4, datetime.now(UTC), kb_id=KB_1)
    for soft, hard, status in ((None, 10, "ok"), (4, 10, "soft_exceeded"), (2, 4, "exhausted"), (None, None, "ok")):
        budget = await organization.ok("PUT", "/budget", json={"soft": soft, "hard": hard})
        assert (budget["soft"], budget["hard"], budget["used"], budget["status"]) == (soft, hard, 4, status)
        assert await organization.ok("GET", "/budget") == budget
    assert budget["resets_at"] > datetime.now(UTC).isoformat()


async def test_a_budget_in_dollars_shows_how_much_of_it_is_spent(organization: OrganizationClient) -> None:
    await charged(organization, 4, datetime.now(UTC), kb_id=KB_1)
    for soft, hard, status in ((None, 1.5, "ok"), (1, 1.5, "soft_exceeded"), (0.5, 1, "exhausted"), (None, None, "ok")):
        body = {"soft": None, "hard": None, "soft_usd": soft, "hard_usd": hard}
        budget = await organization.ok("PUT", "/budget", json=body)
        assert (budget["soft_usd"], budget["hard_usd"], budget["used_usd"]) == (soft, hard, 1)
        assert (budget["status"], budget["reserved_usd"]) == (status, 0)
        assert await organization.ok("GET", "/budget") == budget
    kept = await organization.ok("PUT", "/budget", json=body | {"hard_usd": 0.000000001})
    assert kept["hard_usd"] == 0.000000001


@pytest.mark.parametrize(
    "body",
    [{"soft_usd": 2, "hard_usd": 1}, {"hard_usd": -0.5}, {"hard_usd": 1e300}, {"soft_usd": "1"}],
)
async def test_a_budget_in_dollars_that_makes_no_sense_is_refused(
    organization: OrganizationClient, body: dict[str, Any]
) -> None:
    whole = {"soft": None, "hard": None} | body
    assert await organization.refused("PUT", "/budget", json=whole) == (422, "validation-error")


@pytest.mark.parametrize(
    "body", [{"soft": 2, "hard": 1}, {"soft": -1, "hard": 1}, {"hard": 1}, {"soft": 1.5, "hard": 2}]
)
async def test_a_budget_that_makes_no_sense_is_refused(organization: OrganizationClient, body: dict[str, Any]) -> None:
    assert await organization.refused("PUT", "/budget", json=body) == (422, "validation-error")


async def test_a_higher_budget_lets_documents_that_waited_for_it_be_tried_at_once(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.ok("PUT", "/budget", json={"soft": None, "hard": 5})
    with pytest.raises(BudgetExhausted) as refusal:
        await Spending(organization.database).reserve(organization.organization_id, 50)
    for document_id, error_type in (("poor", refusal.value.error_type), ("limited", "rate_limited")):
        await index_jobs.postpone(
            organization.database,
            await organization.running_job(kb_id, document_id),
            delay=timedelta(hours=1),
            error_type=error_type,
            error_message=str(refusal.value),
            count_attempt=False,
        )
    await organization.ok("PUT", "/budget", json={"soft": None, "hard": 100})
    listed = (await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", status="pending"))["documents"]
    assert {one["document_id"]: one["next_attempt_at"] is None for one in listed} == {"poor": True, "limited": False}
    poor = await index_jobs.find(organization.database, MembershipKey(organization.organization_id, kb_id, "poor"))
    assert poor is not None
    assert poor.next_attempt_at is not None
    assert poor.next_attempt_at <= datetime.now(UTC)
