"""Reserves SPUs and money before the first call of a piece of work, and settles them after its last one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import BudgetExhausted, UnknownPrice
from kb_shared.mongo import budgets
from kb_shared.mongo.budgets import BudgetReservation, MonthlyBudget
from kb_shared.mongo.database import Database
from kb_shared.prices import NANO_USD

LIFETIME: Final = timedelta(minutes=10)
"""Lifetime of a reservation: longer than any document's embedding. After a crash, others wait so long for it."""
RECOUNT_EVERY: Final = timedelta(minutes=1)
KNOWN_UNLIMITED_S: Final = 5.0
"""Time for which a process assumes that an organization has no limit; then it notices a new one."""
_MOST_KNOWN: Final = 10_000
PRICE_RETRY_AFTER_S: Final = 600.0
"""Delay of work without a price. A price comes with a setting and so with a new process; a changed budget makes waiting
work due at once."""


class Spending:
    """Reserves SPUs and money of organizations with a limit; of others, looks every few seconds for a limit."""

    def __init__(self, database: Database, *, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._lifetime = lifetime
        self._unlimited: BoundedCache[str, bool] = BoundedCache(_MOST_KNOWN, lifetime_s=KNOWN_UNLIMITED_S)

    async def reserve(self, organization_id: str, count: int, *, nano_usd: int | None = 0) -> BudgetReservation:
        """Reserve `count` SPUs and money, all or nothing. Call `settle` however the work ends.

        Args:
            organization_id: whose.
            count: SPUs.
            nano_usd: None if the price is not known, which matters only to an organization that limits its money.

        Raises:
            BudgetExhausted: there is no room for them this month.
            UnknownPrice: the organization has a budget in money, and the price is not known.
        """
        known = nano_usd or 0
        if (not count and nano_usd == 0) or self._unlimited.find(organization_id):
            return BudgetReservation(organization_id, None, count, known)
        if nano_usd is None:
            await self.check_price(organization_id, known=False)
        answer = await self._reserve(organization_id, count, known)
        # A crash counts as spent what it may not have spent: look before refusing.
        if isinstance(answer, MonthlyBudget) and await self._recount(organization_id):
            answer = await self._reserve(organization_id, count, known)
        if isinstance(answer, MonthlyBudget):
            raise _exhausted(answer, count, known)
        if answer.reservation_id is None:
            self._unlimited.put(organization_id, value=True)
        return answer

    async def check_price(self, organization_id: str, *, known: bool) -> None:
        """Raise UnknownPrice if a price is not known and the organization has a budget in money."""
        if not known and (await budgets.find_limits(self._database, organization_id)).in_usd:
            raise UnknownPrice(
                "the price of the model is not known, and the organization has a budget in USD",
                retry_after_s=PRICE_RETRY_AFTER_S,
            )

    @asynccontextmanager
    async def allowance(self, organization_id: str) -> AsyncIterator["SpendAllowance"]:
        """Open an allowance for a piece of work; it is settled at the end of the block."""
        allowance = SpendAllowance(self, organization_id)
        try:
            yield allowance
        finally:
            await allowance.settle_reservations()

    async def settle_reservation(self, reservation: BudgetReservation, *, used: int, used_nano_usd: int = 0) -> None:
        """Count what was spent, and free the rest. Doing it again changes nothing."""
        await budgets.settle_reservation(self._database, reservation, used=used, used_nano_usd=used_nano_usd)

    async def _reserve(self, organization_id: str, count: int, nano_usd: int) -> BudgetReservation | MonthlyBudget:
        return await budgets.reserve(self._database, organization_id, count, nano_usd=nano_usd, lifetime=self._lifetime)

    async def _recount(self, organization_id: str) -> bool:
        return await budgets.recount(self._database, organization_id, at_most_every=RECOUNT_EVERY)


class SpendAllowance:
    """Amount that one piece of work may spend, over several purchases. Call `settle` however the work ends."""

    def __init__(self, spending: Spending, organization_id: str) -> None:
        self._spending = spending
        self._organization_id = organization_id
        self._reservations: list[BudgetReservation] = []
        self._free = 0
        self._spent = 0
        self._free_nano_usd = 0
        self._spent_nano_usd = 0

    async def reserve(self, count: int, *, nano_usd: int | None = 0) -> None:
        """Reserve what `count` SPUs and `nano_usd` need beyond amounts that are reserved already and not spent.

        Raises:
            BudgetExhausted, UnknownPrice: as `Spending.reserve`.
        """
        lacking = max(0, count - self._free)
        lacking_nano_usd = None if nano_usd is None else max(0, nano_usd - self._free_nano_usd)
        if lacking or lacking_nano_usd != 0:
            reservation = await self._spending.reserve(self._organization_id, lacking, nano_usd=lacking_nano_usd)
            self._reservations.append(reservation)
            self._free += reservation.count
            self._free_nano_usd += reservation.nano_usd

    def spend(self, count: int, *, nano_usd: int = 0) -> None:
        """Use up some of what is reserved."""
        self._free -= count
        self._spent += count
        self._free_nano_usd -= nano_usd
        self._spent_nano_usd += nano_usd

    async def settle_reservations(self) -> None:
        """Count what was spent, and free the rest."""
        while self._reservations:
            reservation = self._reservations.pop()
            used = min(self._spent, reservation.count)
            used_nano_usd = min(self._spent_nano_usd, reservation.nano_usd)
            self._spent -= used
            self._spent_nano_usd -= used_nano_usd
            await self._spending.settle_reservation(reservation, used=used, used_nano_usd=used_nano_usd)


def end_of_month(month: str) -> datetime:
    """Return the moment at which a month, such as `2026-01`, ends."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)


def _exhausted(budget: MonthlyBudget, count: int, nano_usd: int) -> BudgetExhausted:
    limits = budget.limits
    if count and limits.hard is not None and budget.used + budget.reserved + count > limits.hard:
        what, needed = f"{limits.hard} SPUs", f"{count} more"
    else:
        # Up to so much may be spent by one call of a chat model; what is not spent is given back.
        what, needed = f"{_usd(limits.hard_nano_usd or 0)} USD", f"the {_usd(nano_usd)} USD that this may cost"
    return BudgetExhausted(
        f"the hard budget of {what} for {budget.month} has no room for {needed}",
        retry_after_s=_seconds_to(end_of_month(budget.month)),
    )


def _usd(nano_usd: int) -> str:
    return f"{nano_usd / NANO_USD:.9f}".rstrip("0").rstrip(".")


def _seconds_to(moment: datetime) -> float:
    return max(1.0, (moment - datetime.now(UTC)).total_seconds())
