"""Who may spend: SPUs are reserved before the first call of a piece of work, and settled after its last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

from kb_shared.errors import BudgetExhausted
from kb_shared.mongo import budgets
from kb_shared.mongo.budgets import Budget, Reservation
from kb_shared.mongo.database import Database

LIFETIME: Final = timedelta(minutes=10)
"""Longer than any document's embedding takes; a crash keeps its reservation from others for so long."""
RECOUNT_EVERY: Final = timedelta(minutes=1)
KNOWN_UNLIMITED_S: Final = 5.0
"""How soon every process heeds the first hard limit of an organization."""


class Spending:
    """Reserves SPUs of organizations with a hard limit; of the others it takes a look every few seconds."""

    def __init__(self, database: Database, *, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._lifetime = lifetime
        self._unlimited: dict[str, float] = {}

    async def reserve(self, organization_id: str, count: int) -> Reservation:
        """Reserve `count` SPUs, all or none; `settle` the reservation whatever becomes of the work.

        Raises:
            BudgetExhausted: there is no room for them this month.
        """
        if not count or monotonic() < self._unlimited.get(organization_id, 0.0):
            return Reservation(organization_id, None, count)
        answer = await self._reserve(organization_id, count)
        # A crash counts as spent what it may not have spent: look before refusing.
        if isinstance(answer, Budget) and await self._recount(organization_id):
            answer = await self._reserve(organization_id, count)
        if isinstance(answer, Budget):
            raise BudgetExhausted(
                f"the hard budget of {answer.hard} SPUs for {answer.month} has no room for {count} more",
                retry_after_s=_seconds_to(end_of_month(answer.month)),
            )
        if answer.reservation_id is None:
            self._remember_unlimited(organization_id)
        return answer

    @asynccontextmanager
    async def room(self, organization_id: str) -> AsyncIterator["Room"]:
        """Room for a piece of work that lasts as long as this is open."""
        room = Room(self, organization_id)
        try:
            yield room
        finally:
            await room.settle()

    async def settle(self, reservation: Reservation, *, used: int) -> None:
        """Count what was spent, and free the rest. Doing it again changes nothing."""
        await budgets.settle(self._database, reservation, used=used)

    async def _reserve(self, organization_id: str, count: int) -> Reservation | Budget:
        return await budgets.reserve(self._database, organization_id, count, lifetime=self._lifetime)

    async def _recount(self, organization_id: str) -> bool:
        return await budgets.recount(self._database, organization_id, at_most_every=RECOUNT_EVERY)

    def _remember_unlimited(self, organization_id: str) -> None:
        now = monotonic()
        self._unlimited = {known: until for known, until in self._unlimited.items() if now < until}
        self._unlimited[organization_id] = now + KNOWN_UNLIMITED_S


class Room:
    """What one piece of work may spend, in one purchase after the other: `settle` it whatever becomes of the work."""

    def __init__(self, spending: Spending, organization_id: str) -> None:
        self._spending = spending
        self._organization_id = organization_id
        self._reservations: list[Reservation] = []
        self._free = 0
        self._spent = 0

    async def reserve(self, count: int) -> None:
        """See that there is room for `count` SPUs more; what was reserved before counts. Raises BudgetExhausted."""
        lacking = count - self._free
        if lacking > 0:
            self._reservations.append(await self._spending.reserve(self._organization_id, lacking))
            self._free += lacking

    def spend(self, count: int) -> None:
        """Use up some of what is reserved."""
        self._free -= count
        self._spent += count

    async def settle(self) -> None:
        """Count what was spent, and free the rest."""
        while self._reservations:
            reservation = self._reservations.pop()
            used = min(self._spent, reservation.count)
            self._spent -= used
            await self._spending.settle(reservation, used=used)


def end_of_month(month: str) -> datetime:
    """When a month, such as `2026-01`, is over."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)


def _seconds_to(moment: datetime) -> float:
    return max(1.0, (moment - datetime.now(UTC)).total_seconds())
