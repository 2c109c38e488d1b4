"""However many spend at once, a month never costs more than its hard limit."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from kb_shared.errors import BudgetExhausted, UnknownPrice
from kb_shared.metering.budget import Spending, end_of_month
from kb_shared.mongo import budgets, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits, BudgetReservation
from kb_shared.mongo.database import Database, in_transaction
from kb_shared.mongo.spu_ledger import Spent

pytestmark = pytest.mark.usefixtures("within_a_month")


@pytest.fixture(scope="module")
async def database(mongo_client: AsyncMongoClient[dict[str, Any]]) -> Any:
    name = f"test_budget_{uuid4().hex[:12]}"
    yield mongo_client[name]
    await mongo_client.drop_database(name)


@pytest.fixture
def organization_id() -> str:
    return f"org-{uuid4().hex[:12]}"


async def charge(database: Database, organization_id: str, count: int) -> None:
    charged = spu_ledger.Charge(uuid4().hex, organization_id, None, "index", "m", count)
    await in_transaction(database, lambda session: spu_ledger.charge(database, session, [charged]))


async def used_and_reserved(database: Database, organization_id: str) -> tuple[int, int]:
    budget = await budgets.find(database, organization_id)
    assert budget is not None
    return budget.used, budget.reserved


async def let_recounts_be_due(database: Database, organization_id: str) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    await database[budgets.NAME].update_one({"_id": organization_id}, {"$set": {"recounted_at": long_ago}})


Work = st.tuples(st.integers(1, 30), st.integers(0, 100))
"""SPUs reserved, and the percentage of them that is used in the end."""


@settings(max_examples=15)
@given(works=st.lists(Work, min_size=1, max_size=20), hard=st.integers(0, 150))
async def test_concurrent_reservations_never_exceed_the_hard_limit_and_leave_no_room_unused(
    database: Database, works: list[tuple[int, int]], hard: int
) -> None:
    organization_id = f"org-{uuid4().hex[:12]}"
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=hard))
    spendings = [Spending(database), Spending(database)]
    settled = 0
    refused: list[int] = []

    async def work(number: int, count: int, percentage: int) -> None:
        nonlocal settled
        spending = spendings[number % 2]
        try:
            reservation = await spending.reserve(organization_id, count)
        except BudgetExhausted:
            refused.append(count)
            return
        assert sum(await used_and_reserved(database, organization_id)) <= hard
        used = count * percentage // 100
        await spending.settle_reservation(reservation, used=used)
        settled += used

    await asyncio.gather(*(work(number, *each) for number, each in enumerate(works)))
    assert await used_and_reserved(database, organization_id) == (settled, 0)
    for count in refused:
        if settled + count <= hard:
            assert (await spendings[0].reserve(organization_id, count)).reservation_id is not None
            break


async def test_without_a_limit_nothing_is_written_and_no_reservation_is_refused(
    database: Database, organization_id: str
) -> None:
    spending = Spending(database)
    for is_row_there in (False, True):
        if is_row_there:
            await budgets.set_limits(database, organization_id, BudgetLimits())
        reservation = await spending.reserve(organization_id, 10**9, nano_usd=None)
        assert reservation == BudgetReservation(organization_id, None, 10**9)
        await spending.settle_reservation(reservation, used=10**9)
    assert await used_and_reserved(database, organization_id) == (0, 0)


async def test_under_a_soft_limit_alone_spending_is_counted_and_no_reservation_is_refused(
    database: Database, organization_id: str
) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=1))
    await spending.settle_reservation(await spending.reserve(organization_id, 10**9), used=10**9)
    assert await used_and_reserved(database, organization_id) == (10**9, 0)


async def test_all_of_a_document_is_refused_and_not_a_part_of_it(database: Database, organization_id: str) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    with pytest.raises(BudgetExhausted) as refusal:
        await spending.reserve(organization_id, 11)
    assert refusal.value.error_type == "budget_exhausted"
    assert 0 < refusal.value.retry_after_s <= 31 * 86_400
    assert (await spending.reserve(organization_id, 10)).count == 10
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 1)
    assert (await spending.reserve(organization_id, 0)).count == 0, "what costs nothing needs no room"


async def test_settling_twice_settles_once(database: Database, organization_id: str) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    reservation = await spending.reserve(organization_id, 10)
    for _ in range(2):
        await spending.settle_reservation(reservation, used=4)
    assert await used_and_reserved(database, organization_id) == (4, 0)


async def test_reservations_left_by_a_crash_count_as_spent_until_a_recount(
    database: Database, organization_id: str
) -> None:
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    await Spending(database, lifetime=timedelta(0)).reserve(organization_id, 10)
    await charge(database, organization_id, 3)
    spending = Spending(database)
    assert await used_and_reserved(database, organization_id) == (10, 0)
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 7)

    await let_recounts_be_due(database, organization_id)
    reservation = await spending.reserve(organization_id, 7)
    assert await used_and_reserved(database, organization_id) == (3, 7)
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 1)
    await spending.settle_reservation(reservation, used=7)


async def test_a_recount_while_work_is_under_way_never_makes_room_that_is_not_there(
    database: Database, organization_id: str
) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    reservation = await spending.reserve(organization_id, 6)
    await charge(database, organization_id, 5)
    await let_recounts_be_due(database, organization_id)
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 5)
    await spending.settle_reservation(reservation, used=6)
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 5)


async def test_two_who_recount_at_once_correct_the_estimate_once(database: Database, organization_id: str) -> None:
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    await charge(database, organization_id, 4)
    await let_recounts_be_due(database, organization_id)
    recounts = [budgets.recount(database, organization_id, at_most_every=timedelta(minutes=1)) for _ in range(5)]
    assert sorted(await asyncio.gather(*recounts)) == [False] * 4 + [True]
    assert await used_and_reserved(database, organization_id) == (4, 0)


async def test_a_recount_that_is_overtaken_by_another_changes_nothing(
    database: Database, organization_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10))
    await charge(database, organization_id, 4)
    await let_recounts_be_due(database, organization_id)
    spent_this_month = spu_ledger.sum_this_month

    async def slow_sum(*args: Any) -> Spent:
        monkeypatch.setattr(spu_ledger, "sum_this_month", spent_this_month)
        spent = await spent_this_month(*args)
        await let_recounts_be_due(database, organization_id)
        assert await budgets.recount(database, organization_id, at_most_every=timedelta(minutes=1))
        return spent

    monkeypatch.setattr(spu_ledger, "sum_this_month", slow_sum)
    assert not await budgets.recount(database, organization_id, at_most_every=timedelta(minutes=1))
    assert await used_and_reserved(database, organization_id) == (4, 0)


async def test_the_first_hard_limit_counts_what_the_month_has_cost_before(
    database: Database, organization_id: str
) -> None:
    await charge(database, organization_id, 7)
    last_month = {"organization_id": organization_id, "count": 100, "created_at": datetime(2020, 1, 1, tzinfo=UTC)}
    await database[spu_ledger.NAME].insert_one({"_id": uuid4().hex, **last_month})
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    assert await used_and_reserved(database, organization_id) == (7, 0)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=None))
    await charge(database, organization_id, 2)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    assert await used_and_reserved(database, organization_id) == (9, 0)


async def test_a_new_month_begins_with_nothing_spent(database: Database, organization_id: str) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(soft=None, hard=10))
    reservation = await spending.reserve(organization_id, 4)
    query = {"_id": organization_id}
    await database[budgets.NAME].update_one(query, {"$set": {"month": "2020-01", "used": 6}})
    assert await used_and_reserved(database, organization_id) == (0, 4)
    await spending.settle_reservation(reservation, used=4)
    assert await used_and_reserved(database, organization_id) == (4, 0)


def test_a_month_ends_with_the_next_ones_first() -> None:
    assert end_of_month("2026-01") == datetime(2026, 2, 1, tzinfo=UTC)
    assert end_of_month("2026-11") == datetime(2026, 12, 1, tzinfo=UTC)
    assert end_of_month("2026-12") == datetime(2027, 1, 1, tzinfo=UTC)


async def usd_used_and_reserved(database: Database, organization_id: str) -> tuple[int, int]:
    budget = await budgets.find(database, organization_id)
    assert budget is not None
    return budget.used_nano_usd, budget.reserved_nano_usd


@settings(max_examples=15)
@given(
    works=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30), st.integers(0, 100)), min_size=1, max_size=20),
    hard=st.integers(0, 150),
)
async def test_concurrent_reservations_of_money_never_exceed_the_hard_limit(
    database: Database, works: list[tuple[int, int, int]], hard: int
) -> None:
    organization_id = f"org-{uuid4().hex[:12]}"
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10**6, hard_nano_usd=hard))
    spendings = [Spending(database), Spending(database)]
    settled = 0

    async def work(number: int, count: int, nano_usd: int, percentage: int) -> None:
        nonlocal settled
        spending = spendings[number % 2]
        try:
            reservation = await spending.reserve(organization_id, count, nano_usd=nano_usd)
        except BudgetExhausted:
            return
        assert sum(await usd_used_and_reserved(database, organization_id)) <= hard
        used = nano_usd * percentage // 100
        await spending.settle_reservation(reservation, used=count, used_nano_usd=used)
        settled += used

    await asyncio.gather(*(work(number, *each) for number, each in enumerate(works)))
    assert await usd_used_and_reserved(database, organization_id) == (settled, 0)


async def test_money_and_spus_are_limited_side_by_side(database: Database, organization_id: str) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=2, hard_nano_usd=5_000_000_000))
    with pytest.raises(BudgetExhausted, match=r"of 2 SPUs for .* has no room for 3 more"):
        await spending.reserve(organization_id, 3, nano_usd=1)
    with pytest.raises(BudgetExhausted, match=r"of 5 USD for .* has no room for the 5\.5 USD that this may cost"):
        await spending.reserve(organization_id, 1, nano_usd=5_500_000_000)
    await spending.settle_reservation(await spending.reserve(organization_id, 2), used=2)
    await spending.reserve(organization_id, 0, nano_usd=5_000_000_000)
    with pytest.raises(BudgetExhausted):
        await spending.reserve(organization_id, 0, nano_usd=1)


async def test_a_cost_above_its_reservation_counts_in_full(database: Database, organization_id: str) -> None:
    spending = Spending(database)
    await budgets.set_limits(database, organization_id, BudgetLimits(hard_nano_usd=10))
    await spending.settle_reservation(await spending.reserve(organization_id, 0, nano_usd=4), used=0, used_nano_usd=7)
    assert await usd_used_and_reserved(database, organization_id) == (7, 0)


@pytest.mark.parametrize("limits", [BudgetLimits(hard_nano_usd=10**12), BudgetLimits(soft_nano_usd=10**12)])
async def test_without_a_known_price_nothing_is_begun_under_a_budget_in_money(
    database: Database, organization_id: str, limits: BudgetLimits
) -> None:
    with_budget, without = organization_id, f"org-{uuid4().hex[:12]}"
    spending = Spending(database)
    await budgets.set_limits(database, with_budget, limits)
    await budgets.set_limits(database, without, BudgetLimits(hard=10))
    with pytest.raises(UnknownPrice) as refusal:
        await spending.reserve(with_budget, 1, nano_usd=None)
    assert refusal.value.error_type == "unknown_price"
    assert (await spending.reserve(without, 1, nano_usd=None)).nano_usd == 0


async def test_the_first_limit_in_money_counts_what_the_month_has_cost_before(
    database: Database, organization_id: str
) -> None:
    charge = spu_ledger.Charge(uuid4().hex, organization_id, None, "chat", "m", 0, 70)
    await spu_ledger.charge(database, None, [charge])
    await budgets.set_limits(database, organization_id, BudgetLimits(hard_nano_usd=100))
    assert await usd_used_and_reserved(database, organization_id) == (70, 0)


async def test_a_first_limit_in_money_counts_this_month_though_the_row_is_of_an_earlier_one(
    database: Database, organization_id: str
) -> None:
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10))
    await database[budgets.NAME].update_one({"_id": organization_id}, {"$set": {"month": "2020-01", "used": 6}})
    charge = spu_ledger.Charge(uuid4().hex, organization_id, None, "chat", "m", 0, 70)
    await spu_ledger.charge(database, None, [charge])
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10, hard_nano_usd=100))
    assert await usd_used_and_reserved(database, organization_id) == (70, 0)
    assert await used_and_reserved(database, organization_id) == (0, 0)


async def test_a_row_of_an_older_version_gets_its_money_from_the_ledger(
    database: Database, organization_id: str
) -> None:
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10))
    await spu_ledger.charge(
        database, None, [spu_ledger.Charge(uuid4().hex, organization_id, None, "index", "m", 1, 70)]
    )
    await database[budgets.NAME].update_one(
        {"_id": organization_id}, {"$unset": {"used_nano_usd": "", "soft_nano_usd": "", "hard_nano_usd": ""}}
    )
    assert (await Spending(database).reserve(organization_id, 2)).reservation_id is not None
    await budgets.set_limits(database, organization_id, BudgetLimits(hard=10, hard_nano_usd=100))
    assert await usd_used_and_reserved(database, organization_id) == (70, 0)
