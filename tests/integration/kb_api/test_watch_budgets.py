"""A soft limit that is reached is announced once a month, exactly, and only if it is really reached."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from kb_api.watch_budgets import warn_of_soft_limits, watch_budgets
from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, BudgetSoftExceeded
from kb_shared.metering.budget import Spending
from kb_shared.mongo import budgets, outbox, spu_ledger
from kb_shared.prices import NANO_USD
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("within_a_month")

NO_LIMITS: dict[str, Any] = {"soft": None, "hard": None, "soft_usd": None, "hard_usd": None}


async def spend(organization: OrganizationClient, spus: int, usd: float = 0.0) -> None:
    """As an embedder does."""
    spending, nano_usd = Spending(organization.database), round(usd * NANO_USD)
    reservation = await spending.reserve(organization.organization_id, spus, nano_usd=nano_usd)
    charge = spu_ledger.Charge(uuid4().hex, organization.organization_id, None, "index", "m", spus, nano_usd)
    await spu_ledger.charge(organization.database, None, [charge])
    await spending.settle_reservation(reservation, used=spus, used_nano_usd=nano_usd)


async def set_budget(organization: OrganizationClient, **limits: float) -> None:
    await organization.ok("PUT", "/budget", json=NO_LIMITS | limits)


async def warnings_sent(organization: OrganizationClient) -> list[tuple[str, float, float]]:
    rows = organization.database[outbox.NAME].find({"ordering": f"{organization.organization_id}/budget"})
    events = [(row, decode(row["value"], KB_EVENTS)[1]) async for row in rows]
    assert {(row["topic"], row["key"]) for row, _ in events} <= {("kb-events", organization.organization_id)}
    assert all(isinstance(event, BudgetSoftExceeded) and event.month == this_month() for _, event in events)
    return [(event.unit, event.soft, event.used) for _, event in events if isinstance(event, BudgetSoftExceeded)]


def this_month() -> str:
    return datetime.now(UTC).strftime("%Y-%m")


async def change_row(organization: OrganizationClient, **fields: Any) -> None:
    await organization.database[budgets.NAME].update_one({"_id": organization.organization_id}, {"$set": fields})


async def test_each_soft_limit_is_announced_once_when_it_is_reached(organization: OrganizationClient) -> None:
    await set_budget(organization, soft=10, soft_usd=2.5)
    await spend(organization, 9, 2.0)
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == []
    for _ in range(2):
        await spend(organization, 1)
        await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == [("spu", 10, 10)]
    await spend(organization, 1, 0.5)
    for _ in range(2):
        await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == [("spu", 10, 10), ("usd", 2.5, 2.5)]


async def test_many_replicas_announce_a_soft_limit_once(organization: OrganizationClient) -> None:
    await set_budget(organization, soft=10)
    await spend(organization, 10)
    await asyncio.gather(*(warn_of_soft_limits(organization.database) for _ in range(8)))
    assert len(await warnings_sent(organization)) == 1


async def test_a_limit_set_below_the_spending_is_announced_and_not_again_when_it_is_changed(
    organization: OrganizationClient,
) -> None:
    await spend(organization, 10)
    for soft in (4, 8):
        await set_budget(organization, soft=soft)
        await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == [("spu", 4, 10)]


async def test_a_soft_limit_is_announced_again_in_the_next_month(organization: OrganizationClient) -> None:
    await set_budget(organization, soft=1)
    await spend(organization, 1)
    await change_row(organization, told="2020-01")
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == [("spu", 1, 1)]


async def test_a_slow_replica_does_not_announce_a_limit_of_a_month_that_is_over(
    organization: OrganizationClient,
) -> None:
    await set_budget(organization, soft=1)
    await spend(organization, 1)
    await change_row(organization, told="2999-01")
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == []


async def test_reservations_left_by_a_crash_cause_no_budget_warning(organization: OrganizationClient) -> None:
    await set_budget(organization, soft=10)
    await Spending(organization.database, lifetime=timedelta(0)).reserve(organization.organization_id, 10)
    assert (await organization.ok("GET", "/budget"))["used"] == 0
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == []


async def test_spending_missing_in_the_row_is_found_in_the_ledger_within_an_hour(
    organization: OrganizationClient,
) -> None:
    await set_budget(organization, soft=10)
    await spend(organization, 10)
    await change_row(organization, used=0)
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == []
    await change_row(organization, recounted_at=datetime.now(UTC) - timedelta(hours=2))
    await warn_of_soft_limits(organization.database)
    assert await warnings_sent(organization) == [("spu", 10, 10)]


async def test_kb_api_watches_until_it_stops(organization: OrganizationClient) -> None:
    await set_budget(organization, soft=1)
    await spend(organization, 1)
    stop = asyncio.Event()
    watching = asyncio.create_task(watch_budgets(organization.database, stop))

    async def is_announced() -> bool:
        return bool(await warnings_sent(organization))

    await until(is_announced, what="the warning")
    stop.set()
    await watching
